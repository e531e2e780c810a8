//go:build linux

package test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/test/harness"
)

// TestFleet_bursts has a fleet of local processes do bursts of tasks from zero,
// while its worker and its plugin are killed at random: every task runs once,
// each machine takes no more than it may, none is left, and the ledger tells of
// each why it came and went.
func TestFleet_bursts(t *testing.T) {
	t.Parallel()
	bursts, size := 2, 12
	if soak() {
		bursts, size = 5, 40
	}
	plugin := testenv.BuildProgram(t, "plugins", "./cmd/fleeting-plugin-process")
	f := &field{Parts: harness.StartFleets(t), t: t, agents: map[string]*harness.Process{}}
	f.put("/api/v1/pools/linux", `{"driver": "shell"}`)
	machines, ran := t.TempDir(), t.TempDir()
	config, err := json.Marshal(map[string]any{
		"pool": "linux", "plugin": plugin, "max_use_count": 5, "max_instances": 4, "update_interval": "1s",
		"update_interval_when_expecting": "200ms", "hold_down": "0s",
		"plugin_config": map[string]any{
			"name": "demo", "state_dir": machines, "stop_timeout": "5s",
			"command": []string{
				harness.Drover(t), "executor", "--id", "x-{{.ID}}", "--pool", "linux", "--driver", "shell", "--slots", "1", "--state-dir", "{{.Dir}}/state",
				"--gateway-url", f.Server, "--token-file", filepath.Join(f.Dir, "executor.token"), "--temporal", f.Temporal(),
			},
			"env": map[string]string{
				"DROVER_EXECUTOR__LABELS": "drover-fleet=linux,drover-instance={{.ID}}", "DROVER_EXECUTOR__TEMPORARY": "true",
			},
		},
	})
	require.NoError(t, err)
	f.put("/api/v1/fleets/linux", string(config))
	var runs []string
	for burst := range bursts {
		spec := fmt.Sprintf("name: burst\ngroup: /fleets/burst%d\ntasks:\n", burst)
		for i := range size {
			spec += fmt.Sprintf("  t%d: {pool: linux, steps: [{run: 'echo x >> %s/b%d-t%d; sleep 0.1'}]}\n", i, ran, burst, i)
		}
		runs = append(runs, f.Submit(spec).ID)
		f.harass()
	}
	for _, id := range runs {
		require.EqualValues(t, "success", f.AwaitPhase(id, api.PhaseFinished, 4*time.Minute).Result)
	}
	uses := 0
	for _, i := range f.awaitZero() {
		require.LessOrEqual(t, i.Uses, 5)
		require.NotEmpty(t, i.Why)
		require.NotEmpty(t, i.Reason)
		uses += i.Uses
	}
	require.GreaterOrEqual(t, uses, bursts*size, "one that is handed out while a drain comes is given back, and counts")
	for burst := range bursts {
		for i := range size {
			text, err := os.ReadFile(filepath.Join(ran, fmt.Sprintf("b%d-t%d", burst, i)))
			require.NoError(t, err)
			require.Equal(t, "x\n", string(text), "every task ran once")
		}
	}
	f.remove()
}

// harass waits until something is under way, and kills the fleet's worker, its
// plugin, or both.
func (f *field) harass() {
	f.t.Helper()
	f.await("something to do", func(all []api.FleetInstance) bool {
		for _, i := range all {
			if i.State != "gone" {
				return true
			}
		}
		return false
	})
	if rand.IntN(2) == 0 {
		f.killPlugin()
		return
	}
	f.Processes[harness.Fleet].Kill()
	if rand.IntN(2) == 0 {
		f.killPlugin()
	}
	f.Launch(harness.Fleet).AwaitReady()
}

// killPlugin kills the plugin, where there is one at the moment.
func (f *field) killPlugin() {
	text, err := os.ReadFile(filepath.Join(f.Dir, "fleets", "linux", "plugin.json"))
	var guard struct {
		PID int `json:"pid"`
	}
	if err != nil || json.Unmarshal(text, &guard) != nil {
		return
	}
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", guard.PID))
	for _, file := range tasks {
		children, _ := os.ReadFile(file)
		for child := range strings.FieldsSeq(string(children)) {
			if pid, err := strconv.Atoi(child); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}
