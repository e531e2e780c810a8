//go:build linux

package fleet

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
	const refusal = "the plugin refuses its configuration: dir: a number where a string is expected\n"
	for _, x := range []struct{ flag, stdout, stderr string }{
		{"--exercise=false", "", "drover: " + refusal},
		{"--exercise", "  " + refusal, "drover: the plugin failed the check: " + refusal},
	} {
		var stdout, stderr strings.Builder
		check := exec.CommandContext(t.Context(), harness.Drover(t), "fleets", "plugin", "check", plugin, "--config", file, x.flag)
		check.Stdout, check.Stderr = &stdout, &stderr
		require.Error(t, check.Run())
		require.Equal(t, 2, check.ProcessState.ExitCode(), x.flag)
		require.Equal(t, x.stderr, stderr.String())
		require.True(t, strings.HasSuffix(stdout.String(), x.stdout), stdout.String())
	}
}
