package statedir

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

func TestIdentity(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{
		"":                       "executor",
		"Build-7.example.org":    "build-7",
		"ö":                      "executor",
		strings.Repeat("h", 100): strings.Repeat("h", maxHostPart),
	} {
		require.Equal(t, want, hostPart(host))
	}
	for id, ok := range map[string]bool{"a.b_C-9": true, "": false, "a/b": false, strings.Repeat("x", 101): false} {
		require.Equal(t, ok, ValidID(id), id)
	}
	_, err := Open(t.TempDir(), "a b", "")
	require.Equal(t, run.CodeInvalid, run.CodeOf(err))
}
