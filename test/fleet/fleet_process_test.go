//go:build linux

package fleet

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/test/harness"
)

// TestFleet_bursts_of_processes runs bursts of tasks on a fleet of local
// processes. Each instance starts its own executor.
func TestFleet_bursts_of_processes(t *testing.T) {
	t.Parallel()
	bursts := []int{12, 12}
	if harness.Soak() {
		bursts = []int{40, 40, 40, 40, 40}
	}
	plugin := testenv.BuildProgram(t, "plugins", "./cmd/fleeting-plugin-process")
	f := &fleetEnv{Parts: harness.StartFleets(t), t: t}
	f.put("/api/v1/pools/linux", `{"driver": "shell"}`)
	machines, ran := t.TempDir(), t.TempDir()
	f.putFleet(map[string]any{
		"plugin": plugin, "max_use_count": 5, "max_instances": 4,
		"plugin_config": map[string]any{
			"name": "demo", "state_dir": machines, "stop_timeout": "5s",
			"command": []string{
				harness.Drover(t), "start", "executor", "--id", "x-{{.ID}}", "--pool", "linux", "--driver", "shell", "--slots", "1", "--state-dir", "{{.Dir}}/state",
				"--gateway-url", f.Server, "--token-file", filepath.Join(f.Dir, "executor.token"), "--temporal", f.Temporal(),
			},
			"env": map[string]string{
				"DROVER_EXECUTOR__LABELS": "drover-fleet=linux,drover-instance={{.ID}}", "DROVER_EXECUTOR__TEMPORARY": "true",
			},
		},
	})
	f.bursts(bursts, 5, ran, ran)
	f.remove()
}

// putFleet creates the fleet, with short update intervals.
func (f *fleetEnv) putFleet(settings map[string]any) {
	f.t.Helper()
	maps.Copy(settings, map[string]any{
		"pool": "linux", "update_interval": "1s", "update_interval_when_expecting": "200ms", "deletion_retry_interval": "10s", "hold_down": "0s",
	})
	text, err := json.Marshal(settings)
	require.NoError(f.t, err)
	f.put("/api/v1/fleets/linux", string(text))
}

// bursts submits one run for each size, with that number of tasks, and kills the
// fleet worker and its plugin at random. It waits until the fleet is at zero
// again, and checks that every task ran once, that no machine took more than most
// tasks, and that the ledger explains why each machine was created and removed.
// Each task writes a file to a directory, which is ran here and ranThere on the
// machines.
func (f *fleetEnv) bursts(sizes []int, most int, ran, remoteDir string) {
	f.t.Helper()
	var runs []string
	total := 0
	for burst, size := range sizes {
		spec := fmt.Sprintf("name: burst\ngroup: /fleets/burst%d\ntasks:\n", burst)
		for i := range size {
			spec += fmt.Sprintf("  t%d: {pool: linux, steps: [{run: 'echo x >> %s/b%d-t%d; sleep 0.1'}]}\n", i, remoteDir, burst, i)
		}
		runs = append(runs, f.Submit(spec).ID)
		total += size
		f.killWorkerOrPlugin()
		// Once more while the burst runs, or soon after it.
		some := total - size + 1 + rand.IntN(size)
		testenv.Await(f.t, func() (bool, string) {
			done, err := os.ReadDir(ran)
			return err == nil && len(done) >= some, fmt.Sprintf("%d of %d tasks began: %v", len(done), total, err)
		})
		f.killWorkerOrPlugin()
	}
	for _, id := range runs {
		require.EqualValues(f.t, "success", f.AwaitPhase(id, api.PhaseFinished).Result)
	}
	uses := 0
	for _, i := range f.awaitZero() {
		require.LessOrEqual(f.t, i.Uses, most)
		require.NotEmpty(f.t, i.Message)
		require.NotEmpty(f.t, i.Reason)
		uses += i.Uses
	}
	require.GreaterOrEqual(f.t, uses, total, "a task that is requeued by a drain counts as a use")
	for burst, size := range sizes {
		for i := range size {
			text, err := os.ReadFile(filepath.Join(ran, fmt.Sprintf("b%d-t%d", burst, i)))
			require.NoError(f.t, err)
			require.Equal(f.t, "x\n", string(text), "every task ran once")
		}
	}
}

// killWorkerOrPlugin waits until the ledger has an instance, and kills the fleet worker, its
// plugin, or both.
func (f *fleetEnv) killWorkerOrPlugin() {
	f.t.Helper()
	f.await("an instance", func(all []api.FleetInstance) bool {
		return len(all) > 0 // the instance may be gone already
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

// killPlugin kills the plugin process, if one runs.
func (f *fleetEnv) killPlugin() {
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
