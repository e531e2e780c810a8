//go:build linux

package fleet

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/test/harness"
)

// TestPluginCheck_names_the_key_that_a_plugin_refuses: the plugin gets a number where it
// wants a string.
func TestPluginCheck_names_the_key_that_a_plugin_refuses(t *testing.T) {
	t.Parallel()
	plugin := testenv.BuildProgram(t, ".", "./fleeting/fleetingtest/faulty")
	file := filepath.Join(t.TempDir(), "faulty.yaml")
	require.NoError(t, os.WriteFile(file, []byte("plugin_config: {dir: 5}"), 0o600))
	check := exec.CommandContext(t.Context(), harness.Drover(t), "fleets", "plugin", "check", plugin, "--config", file)
	out, err := check.CombinedOutput()
	require.Error(t, err)
	require.Equal(t, 2, check.ProcessState.ExitCode(), string(out))
	require.Equal(t, "drover: the plugin refuses its configuration: dir: a number where a string is expected\n", string(out))
}
