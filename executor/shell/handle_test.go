package shell

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

func TestHandle_lastLogLine(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ log, want string }{
		"empty":       {" \n", ""},
		"one line":    {"one\n", ": one"},
		"several":     {"one\ntwo\n\n", ": two"},
		"a long line": {"one\nx" + strings.Repeat("é", run.MaxReason), ": x" + strings.Repeat("é", 254) + "..."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &handle{dir: t.TempDir()}
			require.Empty(t, h.lastLogLine(), "there is no log yet")
			require.NoError(t, os.WriteFile(filepath.Join(h.dir, logFile), []byte(tt.log), 0o600))
			require.Equal(t, tt.want, h.lastLogLine())
			require.True(t, utf8.ValidString(h.lastLogLine()))
		})
	}
}
