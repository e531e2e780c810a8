// Package systemd_test checks the units with systemd's own tools.
package systemd_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/config"
	"github.com/drover-run/drover/internal/testenv"
)

// The units, and instance names of them.
const (
	unit      = "drover-executor@.service"
	instance  = "drover-executor@linux.service"
	fleetUnit = "drover-fleet.service"
)

// install copies the executor's unit to a directory, with the path of an
// existing program.
func install(t *testing.T, dropIns ...string) string {
	t.Helper()
	return installUnit(t, unit, instance, dropIns...)
}

func installUnit(t *testing.T, unit, instance string, dropIns ...string) string {
	t.Helper()
	testenv.Use(t, "systemd")
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		testenv.Missing(t, "systemd", "systemd-analyze is not installed", "install systemd")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	content, err := os.ReadFile(unit)
	require.NoError(t, err)
	dir := t.TempDir()
	path := filepath.Join(dir, instance)
	require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(string(content), "/usr/bin/drover ", self+" ")), 0o600))
	for _, name := range dropIns {
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(path+".d", 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(path+".d", name), content, 0o600))
	}
	return path
}

func analyze(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

func TestUnit_is_valid(t *testing.T) {
	t.Parallel()
	require.Empty(t, analyze(t, "verify", "--man=no", "--recursive-errors=no", install(t)))
}

func TestUnit_is_valid_for_shell(t *testing.T) {
	t.Parallel()
	require.Empty(t, analyze(t, "verify", "--man=no", "--recursive-errors=no", install(t, "shell.conf")))
}

// systemd-analyze rates 10 as unsafe and 0 as safe. It deducts for the network
// access, which an executor needs.
func TestUnit_is_hardened(t *testing.T) {
	t.Parallel()
	analyze(t, "security", "--no-pager", "--offline=true", "--threshold=25", install(t))
}

func TestFleetUnit(t *testing.T) {
	t.Parallel()
	path := installUnit(t, fleetUnit, fleetUnit)
	require.Empty(t, analyze(t, "verify", "--man=no", "--recursive-errors=no", path))
	analyze(t, "security", "--no-pager", "--offline=true", "--threshold=25", path)
	content, err := os.ReadFile(fleetUnit)
	require.NoError(t, err)
	require.Contains(t, string(content), "\nKillMode=process\n", "the next worker adopts the plugins")
	require.Contains(t, string(content), "\nMemoryDenyWriteExecute=yes\n")
	cfg, err := config.Load(config.Source{File: "fleet.yaml", Environ: environmentOf(t, fleetUnit)})
	require.NoError(t, err)
	require.NoError(t, cfg.Validate(config.PartFleet))
}

func TestUnit_keeps_tasks(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(unit)
	require.NoError(t, err)
	require.Contains(t, string(content), "\nKillMode=process\n")
}

// The configuration must know every setting of the units and the example.
func TestUnit_settings_exist(t *testing.T) {
	t.Parallel()
	environment := environmentOf(t, unit, "shell.conf")
	require.Len(t, environment, 3)
	cfg, err := config.Load(config.Source{File: "executor-linux.yaml", Environ: environment})
	require.NoError(t, err)
	require.NoError(t, cfg.Validate(config.PartExecutor))
}

// environmentOf returns the environment variables that units set.
func environmentOf(t *testing.T, units ...string) (environment []string) {
	t.Helper()
	for _, name := range units {
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		for line := range strings.Lines(string(content)) {
			if set, ok := strings.CutPrefix(strings.TrimSpace(line), "Environment="); ok {
				environment = append(environment, set)
			}
		}
	}
	return environment
}

func TestUser_and_directories(t *testing.T) {
	t.Parallel()
	testenv.Use(t, "systemd")
	if _, err := exec.LookPath("systemd-sysusers"); err != nil {
		testenv.Missing(t, "systemd", "systemd-sysusers is not installed", "install systemd")
	}
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "etc"), 0o755))
	users, err := filepath.Abs("drover.sysusers")
	require.NoError(t, err)
	out, err := exec.CommandContext(t.Context(), "systemd-sysusers", "--root", root, users).CombinedOutput()
	require.NoError(t, err, "%s", out)
	passwd, err := os.ReadFile(filepath.Join(root, "etc", "passwd"))
	require.NoError(t, err)
	require.Contains(t, string(passwd), "drover:")
}
