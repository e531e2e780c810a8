package controller_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/fleeting/controller"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

const (
	quotaLimit  = 7
	smallWeight = 1
	largeWeight = 2
)

// sharing returns two fleets of one quota, each with its own worker.
func sharing(t *testing.T) (small, large *env) {
	t.Helper()
	small = newEnv(t)
	large = newEnvOn(t, "large", small.store, small.engine)
	for w, weight := range map[*env]float64{small: smallWeight, large: largeWeight} {
		w.put(func(s *run.FleetSpec) {
			s.Quota, s.Weight = &run.FleetQuota{Name: "shared", Limit: quotaLimit}, &weight
		})
	}
	return small, large
}

// totalWeight returns the total weight of the existing machines.
func totalWeight(small, large *env) (weight int) {
	for w, each := range map[*env]int{small: smallWeight, large: largeWeight} {
		w.cloud.do(func() { weight += each * len(w.cloud.instances) })
	}
	return weight
}

func TestFleet_two_that_decide_at_once_keep_their_quota(t *testing.T) {
	t.Parallel()
	small, large := sharing(t)
	plans := map[*env]controller.Plan{}
	for _, w := range []*env{small, large} {
		w.submit(5)
		// Each one plans before it can know the other's plan.
		out, err := w.worker.Watch(t.Context(), w.name, controller.InProgress{})
		require.NoError(t, err)
		require.Positive(t, out.Plan.Request.Count)
		plans[w] = out.Plan
	}
	var both sync.WaitGroup
	for w, p := range plans {
		both.Go(func() {
			if err := w.worker.Step(t.Context(), w.name, "one", p); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	require.LessOrEqual(t, totalWeight(small, large), quotaLimit)
	require.Equal(t, totalWeight(small, large), smallWeight*len(small.ledger())+largeWeight*len(large.ledger()), "the ledgers hold only requested machines")
}

// TestFleet_quota_is_kept_while_workers_race runs two fleets that need more
// than their quota allows, while their workers are replaced. The quota is never
// exceeded, each fleet gets a share, and all tasks run.
func TestFleet_quota_is_kept_while_workers_race(t *testing.T) {
	t.Parallel()
	small, large := sharing(t)
	const tasks = 6
	over := make(chan int, 1)
	unwatch := testenv.Watch(t, 2*time.Millisecond, func() {
		if weight := totalWeight(small, large); weight > quotaLimit {
			select {
			case over <- weight:
			default:
			}
		}
	})
	runs, stops := map[*env]run.ID{}, map[*env]func(){}
	for _, w := range []*env{small, large} {
		runs[w] = w.submit(tasks)
		stops[w] = w.start()
	}
	left := map[*env]int{small: tasks, large: tasks}
	for left[small]+left[large] > 0 {
		// Only a fleet with machines runs a task: the other may be waiting for
		// the quota.
		small.await("a machine for the next task", func() bool {
			return left[small] > 0 && len(small.in(run.InstanceReady)) > 0 || left[large] > 0 && len(large.in(run.InstanceReady)) > 0
		})
		for w := range left {
			ready := w.in(run.InstanceReady)
			if left[w] == 0 || len(ready) == 0 || w.claim(runs[w], tasks-left[w], ready[0].Instance) != nil { // its drain may have begun
				continue
			}
			w.finish(runs[w], tasks-left[w])
			left[w]--
			stops[w]() // another process continues
			w.newWorker()
			stops[w] = w.start()
		}
	}
	small.awaitEmpty()
	large.awaitEmpty()
	unwatch()
	require.Empty(t, over)
}

func TestFleet_paused_keeps_no_room_of_a_quota(t *testing.T) {
	t.Parallel()
	small, large := sharing(t)
	_, err := large.fleets.ControlFleet(t.Context(), large.name, run.FleetControl{Action: run.FleetActionPause, By: "tester"})
	require.NoError(t, err)
	large.submit(5)
	large.start()
	large.await("a status with the queued tasks", func() bool {
		f, err := large.fleets.Fleet(t.Context(), large.name)
		return err == nil && f.Status.Queued == 5
	})
	small.submit(quotaLimit)
	small.start()
	small.awaitCount(run.InstanceReady, quotaLimit)
	require.Empty(t, large.ledger())
}

func TestFleet_by_hand_keeps_the_quota(t *testing.T) {
	t.Parallel()
	small, large := sharing(t)
	_, err := small.fleets.ControlFleet(t.Context(), small.name, run.FleetControl{Action: run.FleetActionScale, Instances: 20, By: "tester"})
	require.NoError(t, err)
	small.start()
	small.awaitCount(run.InstanceReady, quotaLimit)
	large.submit(1)
	large.start()
	large.await("a status that names the quota", func() bool {
		f, err := large.fleets.Fleet(t.Context(), large.name)
		return err == nil && f.Status.BlockedBy == "quota"
	})
	require.Empty(t, large.ledger())
	require.False(t, slices.ContainsFunc(small.ledger(), func(i run.FleetInstance) bool { return i.State == run.InstanceGone }))
}
