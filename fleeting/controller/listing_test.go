package controller_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

// awaitListings waits until the plugin has returned n more listings.
func (w *env) awaitListings(n int) {
	w.t.Helper()
	var begin int
	w.cloud.do(func() { begin = w.cloud.updates })
	w.await("more listings", func() bool {
		var now int
		w.cloud.do(func() { now = w.cloud.updates })
		return now >= begin+n
	})
}

// awaitExecutors waits until the executors of machines are in a state.
func (w *env) awaitExecutors(state run.ExecutorState, machines ...string) {
	w.t.Helper()
	w.await("executors "+string(state), func() bool {
		return !slices.ContainsFunc(machines, func(machine string) bool {
			e, err := w.store.GetExecutor(w.t.Context(), w.agentOf(machine))
			return err != nil || e.State != state
		})
	})
}

func TestFleet_listing_that_lacks_living_machines_ends_no_task(t *testing.T) {
	t.Parallel()
	for name, hidden := range map[string]int{"one of three": 1, "all of three": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			w.put(nil)
			w.start()
			id := w.submit(3)
			w.awaitCount(run.InstanceReady, 3)
			machines := w.cloud.running()
			for task, machine := range machines {
				require.NoError(t, w.claim(id, task, machine))
			}
			w.cloud.do(func() {
				for _, machine := range machines[:hidden] {
					w.cloud.hidden[machine] = true
				}
			})
			w.awaitListings(20)
			w.awaitExecutors(run.ExecutorDraining, machines[:hidden]...)
			w.awaitExecutors(run.ExecutorOnline, machines[hidden:]...)
			w.cloud.do(func() {
				require.Equal(t, []int{3}, w.cloud.increases)
				require.Empty(t, w.cloud.decreases)
			})
			for _, i := range w.ledger() {
				require.Equal(t, run.InstanceReady, i.State, i.Message)
				require.Equal(t, 1, i.Tasks)
				if slices.Contains(machines[:hidden], i.Instance) {
					require.Equal(t, "unlisted", i.Reason)
					require.Contains(t, i.Message, "its executor is in contact")
				}
			}
			f, err := w.fleets.Fleet(t.Context(), fleetName)
			require.NoError(t, err)
			require.Contains(t, f.Status.Error, "does not list")
			require.NoError(t, testutil.CollectAndCompare(w.metrics, strings.NewReader(unlistedMetric(hidden)), "drover_fleet_unlisted_instances"))

			w.cloud.do(func() { clear(w.cloud.hidden) })
			w.awaitExecutors(run.ExecutorOnline, machines...)
			w.await("a status without an error", func() bool {
				f, err := w.fleets.Fleet(t.Context(), fleetName)
				return err == nil && f.Status.Error == ""
			})
			for task := range machines {
				w.finish(id, task)
			}
			w.awaitEmpty()
			require.Len(t, w.ledger(), 3, "every machine kept its row")
		})
	}
}

func unlistedMetric(n int) string {
	return `# HELP drover_fleet_unlisted_instances Instances that the plugin does not list while their executors are in contact.
# TYPE drover_fleet_unlisted_instances gauge
drover_fleet_unlisted_instances{fleet="linux",runner_name="linux"} ` + string(rune('0'+n)) + "\n"
}

func TestFleet_drain_of_an_executor_by_hand_outlasts_a_faulty_listing(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.put(func(s *run.FleetSpec) { s.Policy = []run.ScalingPolicy{{IdleCount: 2}} })
	w.start()
	w.awaitCount(run.InstanceReady, 2)
	machines := w.cloud.running()
	_, err := w.store.DrainExecutor(t.Context(), w.agentOf(machines[0]), true, "new kernel")
	require.NoError(t, err)
	w.cloud.do(func() {
		for _, machine := range machines {
			w.cloud.hidden[machine] = true
		}
	})
	w.awaitExecutors(run.ExecutorDraining, machines...)
	w.cloud.do(func() { clear(w.cloud.hidden) })
	w.awaitExecutors(run.ExecutorOnline, machines[1])
	e, err := w.store.GetExecutor(t.Context(), w.agentOf(machines[0]))
	require.NoError(t, err)
	require.Equal(t, run.ExecutorDraining, e.State)
	require.Equal(t, "new kernel", e.Reason)
}

func TestFleet_machines_that_all_vanish_are_replaced(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.put(func(s *run.FleetSpec) { s.Policy = []run.ScalingPolicy{{IdleCount: 1}} })
	w.start()
	w.awaitCount(run.InstanceReady, 1)
	first := w.cloud.running()[0]
	w.mu.Lock()
	w.silent[first] = true
	w.cloud.do(func() { delete(w.cloud.instances, first) })
	w.mu.Unlock()
	w.awaitEmptyBut(first)
	w.awaitCount(run.InstanceReady, 1)
	w.awaitExecutors(run.ExecutorRemoved, first)
}
