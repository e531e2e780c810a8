package stepenv_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor/shim/stepenv"
	"github.com/drover-run/drover/run"
)

func TestReadOutputs(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		content string
		want    map[string]string
		fault   string
	}{
		"empty":           {"", nil, ""},
		"lines":           {"a=1\nb.c-d_E9=2=3\r\n\n  \nlast=", map[string]string{"a": "1", "b.c-d_E9": "2=3", "last": ""}, ""},
		"several lines":   {"a<<EOF\nx=1\r\n\ny\nEOF\nb=2\nc<<E\nE\n", map[string]string{"a": "x=1\r\n\ny", "b": "2", "c": ""}, ""},
		"looks like it":   {"a=<<EOF\nb=1<<2\n", map[string]string{"a": "<<EOF", "b": "1<<2"}, ""},
		"without end":     {"a=1\nb<<EOF\nx\n", nil, `line 2 of $DROVER_OUTPUT is "EOF"`},
		"without word":    {"b<<\nx\n", nil, "line 1"},
		"the last counts": {"a=1\na=2\n", map[string]string{"a": "2"}, ""},
		"bytes":           {"a=\xff\n", map[string]string{"a": "\uFFFD"}, ""},
		"no equals sign":  {"a=1\nwords\n", nil, "line 2"},
		"bad key":         {"1a=1\n", nil, "line 1"},
		"key with spaces": {"a b=1\n", nil, "line 1"},
		"over the budget": {"a=" + strings.Repeat("x", 100), nil, "put out too much"},
		"far too large":   {strings.Repeat("a=x\n", run.MaxOutputBytes), nil, "put out too much"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "out")
			require.NoError(t, os.WriteFile(path, []byte(tt.content), 0o600))
			got, err := stepenv.ReadOutputs(path, 100)
			if tt.fault != "" {
				require.ErrorContains(t, err, tt.fault)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
	t.Run("removed", func(t *testing.T) {
		t.Parallel()
		got, err := stepenv.ReadOutputs(filepath.Join(t.TempDir(), "out"), 100)
		require.NoError(t, err)
		require.Empty(t, got)
	})
	t.Run("a link to elsewhere", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "out")
		require.NoError(t, os.Symlink("/etc/passwd", path))
		_, err := stepenv.ReadOutputs(path, 100)
		require.ErrorContains(t, err, "not a regular file")
	})
}

func TestWorkingDir(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	o := run.ShimSpec{WorkingDir: base}
	for _, tt := range []struct{ task, step, want string }{
		{"", "", base},
		{"a", "", base + "/a"},
		{"a", "b/c", base + "/a/b/c"},
		{"a", base + "/d", base + "/d"},
		{base + "/e", "f", base + "/e/f"},
	} {
		o.Definition.WorkingDir = tt.task
		got, err := (&stepenv.Env{Order: o}).WorkingDir(run.StepDef{WorkingDir: tt.step})
		require.NoError(t, err)
		require.Equal(t, tt.want, got)
		require.DirExists(t, got)
	}
	require.NoError(t, os.WriteFile(base+"/file", nil, 0o600))
	_, err := (&stepenv.Env{Order: o}).WorkingDir(run.StepDef{WorkingDir: base + "/file"})
	require.ErrorContains(t, err, "not a directory")
	_, err = (&stepenv.Env{Order: o}).WorkingDir(run.StepDef{WorkingDir: base + "/file/below"})
	require.Error(t, err)
}

// TestEnv_paths_of_the_host leaves the permissions of a path of the host.
func TestEnv_paths_of_the_host(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "host")
	const permissions = os.FileMode(0o755)
	require.NoError(t, os.Mkdir(dir, permissions))
	env := &stepenv.Env{Order: run.ShimSpec{Definition: run.Definition{WorkingDir: dir + "/", Volumes: []run.Volume{{Path: dir, HostPath: "/srv"}}}}}
	require.NoError(t, env.OpenVolumes())
	require.NoError(t, env.ShareWorkingDir())
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, permissions, info.Mode().Perm())
}
