package editor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/cli/editor"
	"github.com/drover-run/drover/cli/session"
)

func TestEdit(t *testing.T) {
	t.Parallel()
	edit := func(visual, command string) (*editor.File, error) {
		env := session.Env{LookupEnv: func(name string) (string, bool) {
			value := map[string]string{"VISUAL": visual, "EDITOR": command}[name]
			return value, value != ""
		}}
		return editor.Edit(t.Context(), env.WithDefaults(), "run.yaml", []byte("# help\nname: a\n"))
	}
	f, err := edit("", `sed -i -e s/a$/b/`)
	require.NoError(t, err)
	require.Equal(t, "# help\nname: b\n", string(f.Text))
	require.FileExists(t, f.Path)
	f.Remove()
	require.NoFileExists(t, f.Path)

	f, err = edit(`sed -i -e s/a$/c/`, "false")
	require.NoError(t, err)
	require.Contains(t, string(f.Text), "name: c", "VISUAL precedes EDITOR")
	f.Remove()

	for _, unchanged := range []string{"true", `sed -i -e /name/d`, "truncate -s 0"} {
		_, err = edit("", unchanged)
		require.ErrorIs(t, err, editor.ErrUnchanged)
	}
	_, err = edit("", "false")
	require.ErrorContains(t, err, `run editor "false"`)
}
