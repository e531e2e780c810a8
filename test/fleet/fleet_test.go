//go:build linux

package fleet

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/test/harness"
)

const dummyPlugin = "gitlab.com/gitlab-org/fleeting/fleeting/plugin/fleeting-plugin-dummy/cmd/fleeting-plugin-dummy"

// fleetEnv is a fleet in a Drover of its own. Its plugin creates no real machines:
// the test itself starts the executors that would run on them.
type fleetEnv struct {
	*harness.Parts
	t         *testing.T
	executors map[string]*harness.Process // by instance; nil: the machines are real and run their own executors
}

func newFleetEnv(t *testing.T, settings string) *fleetEnv {
	t.Helper()
	f := &fleetEnv{Parts: harness.StartFleets(t), t: t, executors: map[string]*harness.Process{}}
	f.put("/api/v1/pools/linux", `{"driver": "shell"}`)
	f.put("/api/v1/fleets/linux", settings)
	return f
}

func (f *fleetEnv) put(path, body string) {
	f.t.Helper()
	status, answer, err := f.Do(f.t.Context(), http.MethodPut, path, "application/yaml", body)
	require.NoError(f.t, err)
	require.Less(f.t, status, 300, answer)
}

func (f *fleetEnv) read(path string, into any) {
	f.t.Helper()
	testenv.Await(f.t, func() (bool, string) {
		status, body, err := f.Do(f.t.Context(), http.MethodGet, path, "", "")
		if err != nil || status != http.StatusOK {
			return false, fmt.Sprint(status, body, err)
		}
		require.NoError(f.t, json.Unmarshal([]byte(body), into))
		return true, ""
	})
}

func (f *fleetEnv) ledger() []api.FleetInstance {
	f.t.Helper()
	var list api.FleetInstanceList
	f.read("/api/v1/fleets/linux/instances?gone=true", &list)
	return list.Instances
}

// syncExecutors starts executors for new machines, kills those of machines that are gone,
// and returns the ledger. It cannot wait for the state running, which the dummy
// plugin never lists.
func (f *fleetEnv) syncExecutors() []api.FleetInstance {
	f.t.Helper()
	all := f.ledger()
	for _, i := range all {
		switch {
		case f.executors == nil:
		case (i.State == "creating" || i.State == "bootstrapping") && f.executors[i.Instance] == nil:
			f.executors[i.Instance] = f.StartInstance("linux", i.Instance, "linux")
		case i.State == "gone" && f.executors[i.Instance] != nil:
			f.executors[i.Instance].Kill()
		}
	}
	return all
}

func (f *fleetEnv) await(name string, want func([]api.FleetInstance) bool) []api.FleetInstance {
	f.t.Helper()
	var all []api.FleetInstance
	testenv.Await(f.t, func() (bool, string) {
		all = f.syncExecutors()
		text, _ := json.MarshalIndent(all, "", " ")
		return want(all), name + " did not appear: " + string(text)
	})
	return all
}

func (f *fleetEnv) awaitZero() []api.FleetInstance {
	f.t.Helper()
	return f.await("an empty fleet", func(all []api.FleetInstance) bool {
		return !slices.ContainsFunc(all, func(i api.FleetInstance) bool { return i.State != "gone" })
	})
}

const fleetSettings = `
pool: linux
plugin: %s
plugin_config: {MaxSize: 10, SimulateDeleting: true}
max_use_count: 2
max_instances: 2
update_interval: 1s
update_interval_when_expecting: 200ms
hold_down: 0s
`

// TestFleet_survives_kills scales a fleet from zero for a run, kills its
// worker and its plugin, and waits until the fleet is at zero again. Every task
// runs once, and the ledger explains each machine.
func TestFleet_survives_kills(t *testing.T) {
	t.Parallel()
	plugin := testenv.BuildProgram(t, "fleeting/testdata/dummy", dummyPlugin)
	f := newFleetEnv(t, fmt.Sprintf(fleetSettings, plugin))
	dir := t.TempDir()
	spec := "name: burst\ngroup: /fleets/burst\ntasks:\n"
	for i := range 6 {
		spec += fmt.Sprintf("  t%d: {pool: linux, steps: [{run: 'echo x >> %s/t%d; sleep 0.2'}]}\n", i, dir, i)
	}
	id := f.Submit(spec).ID
	f.await("an executor", func(all []api.FleetInstance) bool {
		return slices.ContainsFunc(all, func(i api.FleetInstance) bool { return i.State == "ready" || i.Uses > 0 })
	})
	f.Processes[harness.Fleet].Kill()
	f.Launch(harness.Fleet).AwaitReady()
	f.await("the end of the run", func([]api.FleetInstance) bool { return f.Get(id).Phase == api.PhaseFinished })
	require.EqualValues(t, "success", f.Get(id).Result)
	all := f.awaitZero()
	for i := range 6 {
		text, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("t%d", i)))
		require.NoError(t, err)
		require.Equal(t, "x\n", string(text), "every task ran once")
	}
	uses := 0
	for _, i := range all {
		require.LessOrEqual(t, i.Uses, 2)
		require.EqualValues(t, "requested", i.Cause, "the worker recognizes the machines from before the kill")
		require.NotEmpty(t, i.Message)
		uses += i.Uses
	}
	require.GreaterOrEqual(t, uses, 6, "a task that is requeued by a drain counts as a use")
	var events api.FleetEventList
	f.read("/api/v1/fleets/linux/events?after=0&limit=1000", &events)
	require.Equal(t, "made", events.Events[0].Kind)
	require.Equal(t, "admin", events.Events[0].By)
	f.remove()
}

// remove deletes the fleet and waits until it no longer exists.
func (f *fleetEnv) remove() {
	f.t.Helper()
	status, body, err := f.Do(f.t.Context(), http.MethodDelete, "/api/v1/fleets/linux", "application/json", "{}")
	require.NoError(f.t, err)
	require.Equal(f.t, http.StatusAccepted, status, body)
	testenv.Await(f.t, func() (bool, string) {
		f.syncExecutors()
		status, body, err := f.Do(f.t.Context(), http.MethodGet, "/api/v1/fleets/linux", "", "")
		return status == http.StatusNotFound, fmt.Sprint(body, err)
	})
}
