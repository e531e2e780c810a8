package controller_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

// slowCreate makes Increase create all machines of a request but one, and then
// block.
func slowCreate(w *env) (release func()) {
	hang := make(chan struct{})
	w.cloud.do(func() {
		w.cloud.hang = hang
		w.cloud.increase = func(c *cloud, n int) (int, error) {
			c.add(n - 1)
			return 0, errors.New("the plugin did not answer in time")
		}
	})
	return func() {
		w.cloud.do(func() { w.cloud.hang, w.cloud.increase = nil, nil })
		close(hang)
	}
}

func TestFleet_slow_request_blocks_nothing_else(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	release := slowCreate(w)
	const timeout = 3 * time.Second
	w.put(func(s *run.FleetSpec) { s.RequestTimeout = run.Duration(timeout) })
	w.start()
	id := w.submit(3)
	w.awaitCount(run.InstanceReady, 2)
	machines := w.cloud.running()
	for task, machine := range machines {
		require.NoError(t, w.claim(id, task, machine))
		w.finish(id, task)
	}
	// One machine becomes unhealthy: it is drained, and its deletion waits
	// until the request ends.
	w.cloud.do(func() { w.cloud.unhealthy[machines[0]] = true })
	w.await("the drain", func() bool {
		return slices.ContainsFunc(w.in(run.InstanceDraining), func(i run.FleetInstance) bool { return i.Instance == machines[0] })
	})
	w.await("the timeout of the request", func() bool {
		asked := w.in(run.InstanceRequested)
		return len(asked) == 0 || time.Since(asked[0].RequestedAt) > timeout
	})
	w.awaitListings(20)
	w.cloud.do(func() {
		require.Equal(t, []int{3}, w.cloud.increases, "one change at a time")
		require.Empty(t, w.cloud.decreases)
	})
	require.Len(t, w.in(run.InstanceRequested), 1, "the plugin may still create it")
	release()
	w.awaitEmptyBut(machines[0])
	w.await("the refusal", func() bool {
		return slices.ContainsFunc(w.in(run.InstanceGone), func(i run.FleetInstance) bool { return i.Reason == "refused" })
	})
	for _, i := range w.ledger() {
		require.Equal(t, run.CauseRequested, i.Cause, "no instance is unexpected")
	}
}

func TestFleet_deleted_during_a_slow_request_leaves_no_machine(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	release := slowCreate(w)
	w.put(nil)
	w.start()
	w.submit(3)
	w.awaitCount(run.InstanceReady, 2)
	_, err := w.fleets.DeleteFleet(t.Context(), fleetName, "tester")
	require.NoError(t, err)
	w.awaitCount(run.InstanceDraining, 2)
	w.awaitListings(20)
	w.cloud.do(func() {
		require.Zero(t, w.cloud.shutdown)
		w.cloud.add(1) // the last machine appears late
	})
	release()
	w.await("the end", func() bool {
		_, err := w.fleets.Fleet(t.Context(), fleetName)
		return run.CodeOf(err) == run.CodeNotFound
	})
	w.cloud.do(func() {
		require.Empty(t, w.cloud.instances)
		require.Equal(t, 1, w.cloud.shutdown)
	})
}
