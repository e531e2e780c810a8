package test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/test/harness"
)

// TestStop_while_starting stops processes that wait for others at their start.
// They exit without an error.
func TestStop_while_starting(t *testing.T) {
	t.Parallel()
	for part, env := range map[string]func(dir string) []string{
		"executor": func(dir string) []string {
			token := filepath.Join(dir, "token")
			require.NoError(t, os.WriteFile(token, []byte("none"), 0o600))
			return []string{
				"DROVER_EXECUTOR__POOL=shell", "DROVER_EXECUTOR__DRIVER=shell", "DROVER_EXECUTOR__GATEWAY_URL=http://" + harness.FreeAddress(t),
				"DROVER_EXECUTOR__TOKEN_FILE=" + token, "DROVER_EXECUTOR__STATE_DIR=" + filepath.Join(dir, "state"),
			}
		},
		"control": func(string) []string { return nil },
		"gateway": func(string) []string { return []string{"DROVER_GATEWAY__LISTEN=" + harness.FreeAddress(t)} },
	} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			p := harness.Start(t, dir, append(env(dir), "DROVER_TEMPORAL__ADDRESS="+harness.FreeAddress(t),
				"DROVER_BLOBS__URL=mem://", "DROVER_RECORDS__PATH="+filepath.Join(dir, "records.db")), "start", part)
			p.AwaitLog("level=")
			require.True(t, p.Running())
			require.NoError(t, p.Stop())
		})
	}
}
