//go:build linux

package fleet

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/fleeting/fleetingtest/cloud"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/test/harness"
)

const gpuLabel = "gpu=a100"

// labelledFleet is a fleet whose instances have gpuLabel, in a cloud of its own.
type labelledFleet struct {
	name  string
	cloud *cloud.Cloud
}

func (f *fleetEnv) putLabelled(plugin, name string, priority int) labelledFleet {
	f.t.Helper()
	c, err := cloud.Open(f.t.TempDir())
	require.NoError(f.t, err)
	settings, err := json.Marshal(map[string]any{
		"pool": "linux", "plugin": plugin, "plugin_config": c.Config(), "priority": priority, "labels": map[string]string{"gpu": "a100"},
		"max_use_count": 1, "max_instances": 3, "update_interval": "1s", "update_interval_when_expecting": "200ms", "hold_down": "0s",
	})
	require.NoError(f.t, err)
	f.put("/api/v1/fleets/"+name, string(settings))
	return labelledFleet{name, c}
}

// requests returns how many times the fleet asked its plugin for instances.
func (l labelledFleet) requests(t *testing.T) int {
	t.Helper()
	n, err := l.cloud.Count("Increase")
	require.NoError(t, err)
	return n
}

// instancesOf lists the instances of a fleet, also those that are gone.
func (f *fleetEnv) instancesOf(l labelledFleet) []api.FleetInstance {
	f.t.Helper()
	var list api.FleetInstanceList
	f.read("/api/v1/fleets/"+l.name+"/instances?gone=true", &list)
	return list.Instances
}

// TestFleet_tasks_with_labels has two fleets with the label that tasks require, and an
// executor with it that belongs to neither. An idle executor takes a task, and no instance
// is requested. Once it is busy, the cloud of the first fleet refuses, and the second fleet
// requests the instance.
func TestFleet_tasks_with_labels(t *testing.T) {
	t.Parallel()
	plugin := testenv.BuildProgram(t, ".", "./fleeting/fleetingtest/faulty")
	f := &fleetEnv{Parts: harness.StartFleets(t), t: t}
	f.put("/api/v1/pools/linux", `{"driver": "shell"}`)
	f.AddExecutor("rack", "1", "DROVER_EXECUTOR__POOL=linux", "DROVER_EXECUTOR__LABELS="+gpuLabel)
	f.AwaitExecutor("online")
	first, second := f.putLabelled(plugin, "first", 10), f.putLabelled(plugin, "second", 1)
	for _, l := range []labelledFleet{first, second} {
		testenv.Await(t, func() (bool, string) {
			n, err := l.cloud.Count("Update")
			return err == nil && n > 0, fmt.Sprint("fleet ", l.name, " has listed nothing: ", err)
		})
	}
	require.NoError(t, first.cloud.Inject(cloud.Fault{Call: "Increase", Outcome: cloud.Fail}))

	release, began := filepath.Join(t.TempDir(), "release"), filepath.Join(t.TempDir(), "began")
	submit := func(script string) string {
		return f.Submit("name: labels\ngroup: /fleets/labels\ntasks:\n  t: {pool: linux, requires: {labels: {gpu: a100}}, steps: [{run: '" + script + "'}]}\n").ID
	}
	idle := submit("touch " + began + "; until [ -e " + release + " ]; do sleep 0.1; done")
	testenv.Await(t, func() (bool, string) {
		_, err := os.Stat(began)
		return err == nil, fmt.Sprintf("the idle executor has not taken the task: %v; %+v", err, f.Get(idle).Tasks["t"].Reason)
	})
	for _, l := range []labelledFleet{first, second} {
		require.Empty(t, f.instancesOf(l), "fleet %s ordered a machine beside an idle executor", l.name)
		require.Zero(t, l.requests(t))
	}

	refused := submit("true")
	var machine string
	testenv.Await(t, func() (bool, string) {
		all := f.instancesOf(second)
		for _, i := range all {
			machine = i.Instance
		}
		return machine != "", fmt.Sprintf("the second fleet has the instances %+v; the first was refused %d times", all, first.requests(t))
	})
	f.StartInstance(second.name, machine, "linux", gpuLabel)
	require.Equal(t, api.ResultSuccess, f.AwaitPhase(refused, api.PhaseFinished).Result)
	require.Positive(t, first.requests(t), "the first fleet was asked first")
	for _, i := range f.instancesOf(first) {
		require.Empty(t, i.Instance, "its cloud created nothing")
	}
	require.NoError(t, os.WriteFile(release, nil, 0o600))
	require.Equal(t, api.ResultSuccess, f.AwaitPhase(idle, api.PhaseFinished).Result)
	require.Len(t, f.instancesOf(second), 1, "one task, one machine")
}
