package controller_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/fleeting/controller"
	"github.com/drover-run/drover/run"
)

// fleetsOfOnePool returns two fleets of one pool, each with its own worker and
// cloud. base has the higher priority.
func fleetsOfOnePool(t *testing.T, change func(*run.FleetSpec)) (base, spot *env) {
	t.Helper()
	base = newEnv(t)
	spot = newPoolEnv(t, "spot", base.pool, base.store, base.engine)
	for _, w := range []*env{base, spot} {
		w.put(func(s *run.FleetSpec) {
			if w == base {
				s.Priority = 10
			}
			if change != nil {
				change(s)
			}
		})
	}
	return base, spot
}

// awaitQueued waits until the status of the fleet shows that its worker counted the
// queue.
func (w *env) awaitQueued(queued int) run.FleetStatus {
	w.t.Helper()
	var status run.FleetStatus
	w.await(fmt.Sprintf("a status of %s with %d queued tasks", w.name, queued), func() bool {
		f, err := w.fleets.Fleet(w.t.Context(), w.name)
		status = f.Status
		return err == nil && status.Queued == queued
	})
	return status
}

func (w *env) target() int {
	w.t.Helper()
	f, err := w.fleets.Fleet(w.t.Context(), w.name)
	require.NoError(w.t, err)
	return f.Status.Target
}

func (w *env) control(action run.FleetAction) {
	w.t.Helper()
	_, err := w.fleets.ControlFleet(w.t.Context(), w.name, run.FleetControl{Action: action, By: "tester"})
	require.NoError(w.t, err)
}

// register adds an executor of the pool that belongs to no fleet.
func (w *env) register(id string, slots int, labels map[string]string) {
	w.t.Helper()
	_, err := w.store.RegisterExecutor(w.t.Context(), run.Executor{
		ID: id, Pool: w.pool, Driver: run.DriverShell, OS: "linux", Arch: "amd64", Slots: slots, JournalID: "j", Labels: labels,
	})
	require.NoError(w.t, err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.durable = append(w.durable, id)
}

func TestPool_two_fleets_divide_the_queue(t *testing.T) {
	t.Parallel()
	base, spot := fleetsOfOnePool(t, nil)
	base.submit(4)
	base.start()
	spot.start()
	base.awaitCount(run.InstanceReady, 4)
	spot.awaitQueued(4)
	require.Equal(t, 4, base.target())
	require.Zero(t, spot.target())
	require.Empty(t, spot.ledger())
}

func TestPool_overflow_goes_to_the_next_fleet(t *testing.T) {
	t.Parallel()
	base, spot := fleetsOfOnePool(t, nil)
	base.put(func(s *run.FleetSpec) { s.Priority, s.MaxInstances = 10, 1 })
	spot.put(func(s *run.FleetSpec) { s.MaxInstances = 2 })
	base.submit(4)
	base.start()
	spot.start()
	base.awaitCount(run.InstanceReady, 1)
	spot.awaitCount(run.InstanceReady, 2)
	base.await("what holds the last task", func() bool {
		f, err := base.fleets.Fleet(t.Context(), base.name)
		return err == nil && f.Status.BlockedBy == "max_instances" && f.Status.Share == 2
	})
	require.Len(t, base.ledger(), 1)
	require.Len(t, spot.ledger(), 2)
}

func TestPool_the_next_fleet_takes_over_from_one_that_is_refused(t *testing.T) {
	t.Parallel()
	base, spot := fleetsOfOnePool(t, nil)
	base.cloud.increase = func(*cloud, int) (int, error) { return 0, errors.New("no capacity") }
	base.submit(3)
	base.start()
	spot.start()
	spot.awaitCount(run.InstanceReady, 3)
	require.Empty(t, base.in(run.InstanceReady))
	require.Len(t, spot.ledger(), 3)
}

func TestPool_the_next_fleet_takes_over_from_one_that_is_paused(t *testing.T) {
	t.Parallel()
	base, spot := fleetsOfOnePool(t, nil)
	base.control(run.FleetActionPause)
	base.submit(2)
	base.start()
	spot.start()
	spot.awaitCount(run.InstanceReady, 2)
	require.Empty(t, base.ledger())
}

func TestPool_the_next_fleet_takes_over_from_one_without_a_worker(t *testing.T) {
	t.Parallel()
	base, spot := fleetsOfOnePool(t, nil)
	base.submit(2)
	stop := spot.start()
	require.Zero(t, spot.awaitQueued(2).Share, "a worker may come back")
	stop()
	require.Empty(t, spot.ledger())
	spot.clock(2 * time.Minute)
	spot.newWorker()
	spot.start()
	spot.awaitCount(run.InstanceReady, 2)
}

func TestPool_order_holds_in_a_shared_quota(t *testing.T) {
	t.Parallel()
	const limit = 3
	weight := 1.0
	base, spot := fleetsOfOnePool(t, func(s *run.FleetSpec) {
		s.Quota, s.Weight = &run.FleetQuota{Name: "shared", Limit: limit}, &weight
	})
	base.submit(5)
	spot.start()
	spot.awaitQueued(5)
	base.start()
	base.awaitCount(run.InstanceReady, limit)
	base.await("what holds the others", func() bool {
		f, err := base.fleets.Fleet(t.Context(), base.name)
		return err == nil && f.Status.BlockedBy == "quota" && f.Status.Share == 5
	})
	require.Empty(t, spot.ledger())
}

// TestPool_order_is_decided_once makes both fleets plan before either can know
// the other's plan: the second one to write the ledger requests nothing.
func TestPool_order_is_decided_once(t *testing.T) {
	t.Parallel()
	base, spot := fleetsOfOnePool(t, nil)
	base.control(run.FleetActionPause)
	base.submit(4)
	plans := map[*env]controller.Plan{}
	out, err := spot.worker.Watch(t.Context(), spot.name, controller.InProgress{})
	require.NoError(t, err)
	require.Equal(t, 4, out.Plan.Request.Count)
	plans[spot] = out.Plan
	base.control(run.FleetActionResume)
	out, err = base.worker.Watch(t.Context(), base.name, controller.InProgress{})
	require.NoError(t, err)
	require.Equal(t, 4, out.Plan.Request.Count)
	plans[base] = out.Plan
	var both sync.WaitGroup
	for w, p := range plans {
		both.Go(func() {
			if err := w.worker.Step(t.Context(), w.name, "one", p); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	require.Len(t, append(base.ledger(), spot.ledger()...), 4)
}

func TestPool_free_slots_of_durable_executors_come_first(t *testing.T) {
	t.Parallel()
	base, spot := fleetsOfOnePool(t, nil)
	base.register("rack-1", 3, nil)
	base.submit(4)
	base.start()
	spot.start()
	base.awaitCount(run.InstanceReady, 1)
	base.awaitQueued(4)
	require.Equal(t, 1, base.target())
	require.Len(t, base.ledger(), 1)
	require.Empty(t, spot.ledger())
}

func TestPool_tasks_with_labels_go_on_to_the_next_fleet_that_has_them(t *testing.T) {
	t.Parallel()
	gpu := map[string]string{"gpu": "a100"}
	base, spot := fleetsOfOnePool(t, func(s *run.FleetSpec) { s.Labels = gpu })
	base.put(func(s *run.FleetSpec) { s.Priority, s.MaxInstances, s.Labels = 10, 1, gpu })
	base.submitRequiring(&run.Requires{Labels: gpu}, 3)
	base.start()
	spot.start()
	base.awaitCount(run.InstanceReady, 1)
	spot.awaitCount(run.InstanceReady, 2)
	base.awaitQueued(3)
	require.Len(t, base.ledger(), 1)
	require.Len(t, spot.ledger(), 2)
}

func TestPool_tasks_with_labels_take_free_slots_of_durable_executors_first(t *testing.T) {
	t.Parallel()
	gpu := map[string]string{"gpu": "a100"}
	base, spot := fleetsOfOnePool(t, func(s *run.FleetSpec) { s.Labels = gpu })
	base.put(func(s *run.FleetSpec) { s.Priority, s.Labels = 10, map[string]string{"gpu": "l4"} })
	base.register("rack-1", 3, gpu)
	base.register("rack-2", 3, nil)
	base.submitRequiring(&run.Requires{Labels: gpu}, 4)
	base.start()
	spot.start()
	spot.awaitCount(run.InstanceReady, 1)
	spot.awaitQueued(4)
	require.Len(t, spot.ledger(), 1, "three of the tasks have slots")
	require.Empty(t, base.ledger(), "its instances may not run them")
}
