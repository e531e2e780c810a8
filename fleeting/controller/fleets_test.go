package controller_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/fleeting"
	"github.com/drover-run/drover/fleeting/controller"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

func TestFleet_grows_from_zero_and_shrinks_to_zero(t *testing.T) {
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
	w.await("uses", func() bool {
		return !slices.ContainsFunc(w.ledger(), func(i run.FleetInstance) bool { return i.Uses != 1 })
	})
	require.Len(t, w.cloud.running(), 3, "busy machines stay")
	for task := range machines {
		w.finish(id, task)
	}
	w.awaitEmpty()
	for _, i := range w.ledger() {
		require.Equal(t, run.CauseRequested, i.Cause)
		require.Equal(t, "idle", i.Reason)
		require.NotEmpty(t, i.Message)
		require.Equal(t, 1, i.Uses)
		require.NotEmpty(t, i.Executor)
		for _, at := range []time.Time{i.RequestedAt, i.CreatedAt, i.RunningAt, i.ReadyAt, i.DrainingAt, i.DeletingAt, i.GoneAt} {
			require.False(t, at.IsZero())
		}
		e, err := w.store.GetExecutor(t.Context(), i.Executor)
		require.NoError(t, err)
		require.Equal(t, run.ExecutorRemoved, e.State, "the credentials end with the machine")
	}
	require.Equal(t, []int{3}, w.cloud.increases)
}

func TestFleet_request_without_a_machine_expires(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.cloud.increase = func(_ *cloud, n int) (int, error) { return n, nil } // promised, but never created
	w.put(func(s *run.FleetSpec) { s.RequestTimeout = run.Duration(100 * time.Millisecond) })
	w.start()
	w.submit(2)
	w.awaitCount(run.InstanceGone, 2)
	for _, i := range w.in(run.InstanceGone) {
		require.Equal(t, "timeout", i.Reason)
	}
	f, err := w.fleets.Fleet(t.Context(), fleetName)
	require.NoError(t, err)
	require.Positive(t, f.Status.Failures)
	w.await("the pause", func() bool {
		f, err := w.fleets.Fleet(t.Context(), fleetName)
		return err == nil && f.Status.BlockedBy == "backoff"
	})
}

func TestFleet_partial_success_is_verified_by_a_listing(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.cloud.increase = func(c *cloud, n int) (int, error) {
		c.add(n - 1)
		return 0, errors.New("quota exceeded")
	}
	w.put(nil)
	w.start()
	w.submit(3)
	w.awaitCount(run.InstanceReady, 2)
	w.await("the refusal", func() bool { return len(w.in(run.InstanceGone)) > 0 })
	require.Equal(t, "refused", w.in(run.InstanceGone)[0].Reason)
	require.Contains(t, w.in(run.InstanceGone)[0].Message, "quota exceeded")
	for _, i := range w.ledger() {
		require.Equal(t, run.CauseRequested, i.Cause, "no instance is unexpected")
	}
}

func TestFleet_machine_that_vanishes_ends_its_executor(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.put(nil)
	w.start()
	id := w.submit(1)
	w.awaitCount(run.InstanceReady, 1)
	machine := w.cloud.running()[0]
	require.NoError(t, w.claim(id, 0, machine))
	w.mu.Lock()
	w.silent[machine] = true
	w.cloud.do(func() { delete(w.cloud.instances, machine) })
	w.mu.Unlock()
	w.awaitCount(run.InstanceGone, 1)
	require.Equal(t, "vanished", w.in(run.InstanceGone)[0].Reason)
	e, err := w.store.GetExecutor(t.Context(), "x-"+machine)
	require.NoError(t, err)
	require.Equal(t, run.ExecutorRemoved, e.State)
	w.await("the outbox row for the run", func() bool {
		rows, err := w.store.TakeOutbox(t.Context(), 100, time.Minute)
		require.NoError(t, err)
		found := slices.ContainsFunc(rows, func(r records.OutboxRow) bool { return r.Kind == records.OutboxExecutorRemoved && r.Run == id })
		for _, r := range rows {
			require.NoError(t, w.store.CompleteOutbox(t.Context(), r.ID))
		}
		return found
	})
}

func TestFleet_listing_that_lacks_a_living_machine_ends_no_task(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.put(nil)
	w.start()
	id := w.submit(1)
	w.awaitCount(run.InstanceReady, 1)
	machine := w.cloud.running()[0]
	require.NoError(t, w.claim(id, 0, machine))
	w.cloud.do(func() { w.cloud.hidden[machine] = true })
	w.await("a listing without the machine", func() bool {
		return slices.ContainsFunc(w.ledger(), func(i run.FleetInstance) bool { return !i.MissingFrom.IsZero() })
	})
	w.cloud.do(func() { w.cloud.hidden[machine] = false })
	w.await("a listing with the machine", func() bool {
		return !slices.ContainsFunc(w.ledger(), func(i run.FleetInstance) bool {
			return i.State != run.InstanceReady && i.State != run.InstanceGone || i.State == run.InstanceReady && !i.MissingFrom.IsZero()
		})
	})
	e, err := w.store.GetExecutor(t.Context(), "x-"+machine)
	require.NoError(t, err)
	require.NotEqual(t, run.ExecutorRemoved, e.State)
	require.Equal(t, 1, e.Tasks)
}

func TestFleet_adopts_existing_machines(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.cloud.do(func() { w.cloud.instances["old"] = fleeting.StateRunning })
	w.put(func(s *run.FleetSpec) { s.Policy = []run.ScalingPolicy{{IdleCount: 2}} })
	stop := w.start()
	w.awaitCount(run.InstanceReady, 2)
	require.Equal(t, run.CausePreexisted, w.ledger()[0].Cause)
	require.Equal(t, "old", w.ledger()[0].Instance)
	stop()
	// Another process continues with the state of the ledger.
	w.newWorker()
	w.start()
	w.cloud.do(func() { w.cloud.instances["stranger"] = fleeting.StateRunning })
	w.await("the unexpected machine", func() bool {
		return slices.ContainsFunc(w.ledger(), func(i run.FleetInstance) bool { return i.Cause == run.CauseUnexpected && i.State == run.InstanceReady })
	})
	require.Len(t, w.ledger(), 3, "no machine was created or deleted")
	require.Equal(t, []int{1}, w.cloud.increases)
}

func TestFleet_unexpected_machines(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]run.InstanceState{run.UnexpectedIgnore: run.InstanceIgnored, run.UnexpectedRemove: run.InstanceGone} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			w.put(func(s *run.FleetSpec) { s.Unexpected = policy })
			w.silent["stranger"] = true
			w.cloud.do(func() { w.cloud.instances["stranger"] = fleeting.StateRunning })
			w.start()
			w.awaitCount(want, 1)
			left := 0
			w.cloud.do(func() { left = len(w.cloud.instances) })
			require.Equal(t, policy == run.UnexpectedIgnore, left == 1)
		})
	}
}

func TestFleet_one_invalid_id_blocks_no_other_deletion(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.put(nil)
	stop := w.start()
	w.submit(3)
	w.awaitCount(run.InstanceReady, 3)
	bad := w.cloud.running()[0]
	w.cloud.do(func() {
		w.cloud.decrease = func(c *cloud, ids []string) ([]string, error) {
			if slices.Contains(ids, bad) {
				return nil, errors.New("no such machine")
			}
			for _, id := range ids {
				delete(c.instances, id)
			}
			return ids, nil
		}
	})
	_, err := w.fleets.ControlFleet(t.Context(), fleetName, run.FleetControl{Action: run.FleetActionDrain, By: "tester"})
	require.NoError(t, err)
	w.awaitCount(run.InstanceGone, 2)
	w.awaitCount(run.InstanceDeleting, 1)
	w.cloud.do(func() { w.cloud.decrease = nil })
	w.awaitEmpty()
	stop()
}

func TestFleet_repeated_step_requests_nothing_twice(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.put(nil)
	w.submit(2)
	out, err := w.worker.Watch(t.Context(), fleetName, controller.InProgress{})
	require.NoError(t, err)
	require.False(t, out.Gone)
	p := out.Plan
	require.Equal(t, 2, p.Request.Count)
	for range 3 {
		require.NoError(t, w.worker.Step(t.Context(), fleetName, "one", controller.Plan{Request: p.Request}))
	}
	require.Equal(t, []int{2}, w.cloud.increases)
	require.Len(t, w.ledger(), 2)
}

func TestFleet_unhealthy_machine_finishes_its_task_and_is_replaced(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.put(func(s *run.FleetSpec) { s.Policy = []run.ScalingPolicy{{IdleCount: 1}} })
	w.start()
	w.awaitCount(run.InstanceReady, 1)
	id := w.submit(1)
	machine := w.cloud.running()[0]
	require.NoError(t, w.claim(id, 0, machine))
	w.cloud.do(func() { w.cloud.unhealthy[machine] = true })
	w.awaitCount(run.InstanceDraining, 1)
	w.awaitCount(run.InstanceReady, 1)
	require.Contains(t, w.cloud.running(), machine, "it holds a task")
	require.Equal(t, "unhealthy", w.in(run.InstanceDraining)[0].Reason)
	w.finish(id, 0)
	w.awaitCount(run.InstanceGone, 1)
	require.NotContains(t, w.cloud.running(), machine)
}

func TestFleet_drain_of_a_silent_machine_ends_with_its_executor(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.put(func(s *run.FleetSpec) { s.DrainTimeout = run.Duration(300 * time.Millisecond) })
	w.start()
	id := w.submit(1)
	w.awaitCount(run.InstanceReady, 1)
	machine := w.cloud.running()[0]
	require.NoError(t, w.claim(id, 0, machine))
	w.cloud.do(func() { w.cloud.unhealthy[machine] = true })
	w.awaitEmptyBut(machine)
	e, err := w.store.GetExecutor(t.Context(), "x-"+machine)
	require.NoError(t, err)
	require.Equal(t, run.ExecutorRemoved, e.State, "it was removed before the machine was deleted")
}

func TestFleet_max_use_count(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.put(func(s *run.FleetSpec) { s.MaxUseCount = 2; s.MaxInstances = 1 })
	w.start()
	id := w.submit(3)
	w.awaitCount(run.InstanceReady, 1)
	first := w.cloud.running()[0]
	for task := range 2 {
		require.NoError(t, w.claim(id, task, first))
		w.finish(id, task)
	}
	require.Equal(t, run.CodeConflict, run.CodeOf(w.claim(id, 2, first)), "it has taken its last task")
	w.await("a replacement", func() bool {
		ready := w.in(run.InstanceReady)
		return len(ready) == 1 && ready[0].Instance != first
	})
	require.Equal(t, "exhausted", w.in(run.InstanceGone)[0].Reason)
	require.Equal(t, 2, w.in(run.InstanceGone)[0].Uses)
}

func TestFleet_by_hand(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.put(nil)
	w.start()
	control := func(action run.FleetAction, n int) {
		t.Helper()
		_, err := w.fleets.ControlFleet(t.Context(), fleetName, run.FleetControl{Action: action, Instances: n, By: "tester", Reason: "why not"})
		require.NoError(t, err)
	}
	control(run.FleetActionScale, 3)
	w.awaitCount(run.InstanceReady, 3)
	control(run.FleetActionScale, 1)
	w.awaitCount(run.InstanceReady, 1)
	w.awaitCount(run.InstanceGone, 2)
	control(run.FleetActionPause, 0)
	control(run.FleetActionResume, 0)
	w.awaitEmpty()
	_, err := w.fleets.DeleteFleet(t.Context(), fleetName, "tester")
	require.NoError(t, err)
	w.await("the end", func() bool {
		_, err := w.fleets.Fleet(t.Context(), fleetName)
		return run.CodeOf(err) == run.CodeNotFound
	})
	w.cloud.do(func() { require.Equal(t, 1, w.cloud.shutdown) })
	events, err := w.fleets.FleetEvents(t.Context(), fleetName, -1, 1000)
	require.NoError(t, err)
	require.Equal(t, "made", events[0].Kind)
	require.Equal(t, "tester", events[1].By)
	require.Equal(t, "to 3 instances: why not", events[1].Text)
	require.Equal(t, "deleted", events[len(events)-1].Kind)
}

func TestFleet_pause_stops_requests(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.put(nil)
	_, err := w.fleets.ControlFleet(t.Context(), fleetName, run.FleetControl{Action: run.FleetActionPause, By: "tester"})
	require.NoError(t, err)
	w.start()
	w.submit(1)
	w.await("a status with the queued task", func() bool {
		f, err := w.fleets.Fleet(t.Context(), fleetName)
		return err == nil && f.Status.Queued == 1
	})
	require.Empty(t, w.ledger())
	_, err = w.fleets.ControlFleet(t.Context(), fleetName, run.FleetControl{Action: run.FleetActionResume, By: "tester"})
	require.NoError(t, err)
	w.awaitCount(run.InstanceReady, 1)
}

func TestFleet_plugin_failure_is_reported(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.put(nil)
	w.cloud.do(func() { w.cloud.onUpdate = errors.New("the cloud is not available") })
	w.start()
	w.submit(1)
	w.await("the error", func() bool {
		f, err := w.fleets.Fleet(t.Context(), fleetName)
		return err == nil && f.Status.Error == "the cloud is not available"
	})
	require.Empty(t, w.ledger())
	w.cloud.do(func() { w.cloud.onUpdate = nil })
	w.awaitCount(run.InstanceReady, 1)
	w.await("no error", func() bool {
		f, err := w.fleets.Fleet(t.Context(), fleetName)
		return err == nil && f.Status.Error == ""
	})
}

// TestFleet_scaled_down_while_a_request_runs covers a request without a machine:
// it does not take the place of the ready machine.
func TestFleet_scaled_down_while_a_request_runs(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.put(nil)
	w.start()
	scale := func(n int) {
		t.Helper()
		_, err := w.fleets.ControlFleet(t.Context(), fleetName, run.FleetControl{Action: run.FleetActionScale, Instances: n, By: "tester"})
		require.NoError(t, err)
	}
	scale(1)
	w.awaitCount(run.InstanceReady, 1)
	machine := w.cloud.running()[0]
	hang := make(chan struct{})
	w.cloud.do(func() {
		w.cloud.hang = hang
		w.cloud.increase = func(*cloud, int) (int, error) { return 1, nil } // it creates the machine late
	})
	scale(2)
	w.await("the request", func() bool {
		requests := 0
		w.cloud.do(func() { requests = len(w.cloud.increases) })
		return requests == 2
	})
	scale(1)
	w.await("the observation of the smaller number", func() bool {
		f, err := w.fleets.Fleet(t.Context(), fleetName)
		return err == nil && f.Status.Target == 1
	})
	w.cloud.do(func() { w.cloud.add(1) })
	close(hang)
	w.await("the end of the other machine", func() bool {
		return slices.ContainsFunc(w.in(run.InstanceGone), func(i run.FleetInstance) bool { return i.Instance == "vm-2" })
	})
	require.Equal(t, []string{machine}, w.cloud.running())
	ready := w.in(run.InstanceReady)
	require.Len(t, ready, 1)
	require.Equal(t, machine, ready[0].Instance)
}
