package controller_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/fleeting"
	"github.com/drover-run/drover/run"
)

// image returns a change of a specification to another image.
func image(name string, more func(*run.FleetSpec)) func(*run.FleetSpec) {
	return func(s *run.FleetSpec) {
		s.PluginConfig = json.RawMessage(`{"image":"` + name + `"}`)
		if more != nil {
			more(s)
		}
	}
}

func idle(n int) func(*run.FleetSpec) {
	return func(s *run.FleetSpec) { s.Policy = []run.ScalingPolicy{{IdleCount: n}} }
}

// rollout returns the rollout of the fleet.
func (w *env) rollout() run.FleetRollout {
	r, err := w.fleets.FleetRollout(w.t.Context(), w.name)
	if err != nil && w.t.Context().Err() == nil {
		w.t.Errorf("read the rollout: %v", err)
	}
	return r
}

// awaitRollout waits until a revision has reached a phase.
func (w *env) awaitRollout(revision int, phase run.RolloutPhase) run.FleetRollout {
	w.t.Helper()
	w.await("phase "+string(phase), func() bool {
		r := w.rollout()
		return r.Current == revision && r.Revision == revision && r.Phase == phase
	})
	return w.rollout()
}

func (w *env) events() (kinds []string) {
	all, err := w.store.FleetEvents(w.t.Context(), w.name, 0, run.MaxFleetEvents)
	require.NoError(w.t, err)
	for _, e := range all {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func TestFleet_rollout_replaces_within_its_bounds(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	most := 0
	w.cloud.decrease = func(c *cloud, ids []string) ([]string, error) {
		most = max(most, len(c.instances))
		for _, id := range ids {
			delete(c.instances, id)
		}
		return ids, nil
	}
	limited := func(s *run.FleetSpec) {
		idle(4)(s)
		s.MaxInstances = 6
		s.Update = run.FleetUpdate{MaxSurge: "1", MaxUnavailable: "0"}
	}
	w.put(image("a", limited))
	w.start()
	w.awaitCount(run.InstanceReady, 4)
	require.Equal(t, 1, w.ledger()[0].Revision)
	w.put(image("b", limited))
	r := w.awaitRollout(2, run.RolloutComplete)
	require.GreaterOrEqual(t, r.Ready, 3)
	w.awaitCount(run.InstanceReady, 4)
	for _, i := range w.ledger() {
		require.Equal(t, run.CauseRequested, i.Cause, "no machine is unexpected")
		if i.State == run.InstanceGone && i.Revision == 1 {
			require.Equal(t, "rollout", i.Reason)
			require.Contains(t, i.Message, "revision 2 of the fleet replaces revision 1")
		}
	}
	for _, i := range w.in(run.InstanceReady) {
		require.Equal(t, 2, i.Revision)
	}
	w.cloud.do(func() {
		require.LessOrEqual(t, most, 6, "no more than max_instances")
		require.Equal(t, 4, w.cloud.increases[0])
		for _, n := range w.cloud.increases[1:] {
			require.Equal(t, 1, n, "no more than the surge")
		}
	})
	require.Contains(t, w.events(), "rollout_complete")
	require.Equal(t, []int{2, 1}, []int{r.Revisions[0].Number, r.Revisions[1].Number})
}

// TestFleet_rollout_of_a_rotated_token_knows_the_machines covers a change of
// credentials: the machines stay known, and the busy ones finish their tasks.
func TestFleet_rollout_of_a_rotated_token_knows_the_machines(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.put(nil)
	w.start()
	id := w.submit(1)
	w.awaitCount(run.InstanceReady, 1)
	machine := w.cloud.running()[0]
	require.NoError(t, w.claim(id, 0, machine))
	w.await("the task on the machine", func() bool { return w.ledger()[0].Tasks == 1 })
	w.put(func(s *run.FleetSpec) { s.ConnectorConfig.Password = "rotated" })
	w.await("the drain", func() bool { return w.ledger()[0].State == run.InstanceDraining })
	require.Contains(t, w.cloud.running(), machine, "a busy machine is not deleted")
	for _, i := range w.ledger() {
		require.Equal(t, run.CauseRequested, i.Cause)
	}
	require.NotEqual(t, run.RolloutComplete, w.rollout().Phase)
	w.await("its name in the status", func() bool { return strings.Contains(w.rollout().Message, "; waiting for the tasks on "+machine) })
	w.finish(id, 0)
	w.awaitRollout(2, run.RolloutComplete)
	first := w.ledger()[0]
	require.Equal(t, []any{run.InstanceGone, "rollout", 1}, []any{first.State, first.Reason, first.Uses})
	w.awaitEmpty()
	w.cloud.do(func() { require.LessOrEqual(t, len(w.cloud.increases), 2, "one replacement at most") })
}

func TestFleet_rollout_stops_when_instances_fail_and_is_undone(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.put(image("a", idle(2)))
	w.start()
	w.awaitCount(run.InstanceReady, 2)
	machines := w.cloud.running()
	w.cloud.do(func() {
		w.cloud.increase = func(*cloud, int) (int, error) { return 0, errors.New("there is no image b") }
	})
	w.put(image("b", idle(2)))
	w.await("the failure", func() bool { return w.rollout().Phase == run.RolloutFailed })
	r := w.rollout()
	require.Contains(t, r.Message, "there is no image b")
	require.Equal(t, machines, w.cloud.running(), "the other instances stay")
	w.await("the event", func() bool { return slices.Contains(w.events(), "rollout_failed") })
	w.cloud.do(func() { require.Len(t, w.cloud.increases, 4, "three requests failed") })

	f, err := w.fleets.UndoFleet(t.Context(), fleetName, run.FleetUndo{By: "tester"})
	require.NoError(t, err)
	require.JSONEq(t, `{"image":"a"}`, string(f.Spec.PluginConfig))
	w.awaitRollout(3, run.RolloutComplete)
	require.Equal(t, machines, w.cloud.running(), "they have the settings of revision 3")
	w.cloud.do(func() { require.Empty(t, w.cloud.decreases) })
	for _, i := range w.in(run.InstanceReady) {
		require.Equal(t, 3, i.Revision)
	}
}

func TestFleet_rollout_of_changes_in_quick_succession(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.put(image("a", idle(3)))
	stop := w.start()
	w.awaitCount(run.InstanceReady, 3)
	w.put(image("b", idle(3)))
	w.put(image("c", idle(3)))
	w.await("a replacement", func() bool {
		return slices.ContainsFunc(w.ledger(), func(i run.FleetInstance) bool { return i.Revision > 1 })
	})
	// Another worker continues, and another change follows meanwhile.
	stop()
	w.newWorker()
	_, err := w.fleets.UndoFleet(t.Context(), fleetName, run.FleetUndo{Revision: 2, By: "tester"})
	require.NoError(t, err)
	w.start()
	w.awaitRollout(4, run.RolloutComplete)
	w.awaitCount(run.InstanceReady, 3)
	for _, i := range w.in(run.InstanceReady) {
		require.Equal(t, 4, i.Revision)
	}
	require.Len(t, w.cloud.running(), 3)
	for _, i := range w.ledger() {
		require.Equal(t, run.CauseRequested, i.Cause, "no machine was lost")
	}
}

func TestFleet_rollout_pauses(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.put(image("a", idle(2)))
	w.start()
	w.awaitCount(run.InstanceReady, 2)
	machines := w.cloud.running()
	control := func(a run.FleetAction) {
		_, err := w.fleets.ControlFleet(t.Context(), fleetName, run.FleetControl{Action: a, By: "tester"})
		require.NoError(t, err)
	}
	control(run.FleetActionPauseRollout)
	w.put(image("b", idle(3)))
	w.awaitCount(run.InstanceReady, 3) // the policy needs one more, of the new revision
	w.awaitRollout(2, run.RolloutPaused)
	for _, machine := range machines {
		require.Contains(t, w.cloud.running(), machine)
	}
	control(run.FleetActionResumeRollout)
	w.awaitRollout(2, run.RolloutComplete)
	for _, machine := range machines {
		require.NotContains(t, w.cloud.running(), machine)
	}
}

// TestFleet_rollout_of_a_number_that_an_operator_set covers a fleet whose size the
// policy does not decide, at its limit.
func TestFleet_rollout_of_a_number_that_an_operator_set(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	two := func(s *run.FleetSpec) { s.MaxInstances = 2 }
	w.put(image("a", two))
	_, err := w.fleets.ControlFleet(t.Context(), fleetName, run.FleetControl{Action: run.FleetActionScale, Instances: 2, By: "tester"})
	require.NoError(t, err)
	w.start()
	w.awaitCount(run.InstanceReady, 2)
	w.put(image("b", two))
	w.awaitRollout(2, run.RolloutComplete)
	w.awaitCount(run.InstanceReady, 2)
	for _, i := range w.in(run.InstanceReady) {
		require.Equal(t, 2, i.Revision)
	}
	w.cloud.do(func() { require.Equal(t, []int{2, 1, 1}, w.cloud.increases, "one after the other") })
}

// TestFleet_rollout_of_a_number_within_its_surge_while_tasks_wait covers a fleet
// whose size an operator set: waiting tasks are no reason for more machines while
// those that drain work.
func TestFleet_rollout_of_a_number_within_its_surge_while_tasks_wait(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	const size, waiting = 4, 10
	most := 0
	w.cloud.increase = func(c *cloud, n int) (int, error) {
		c.add(n)
		most = max(most, len(c.instances))
		return n, nil
	}
	surge := func(s *run.FleetSpec) { s.Update = run.FleetUpdate{MaxSurge: "1", MaxUnavailable: "0"} }
	w.put(image("a", surge))
	_, err := w.fleets.ControlFleet(t.Context(), fleetName, run.FleetControl{Action: run.FleetActionScale, Instances: size, By: "tester"})
	require.NoError(t, err)
	w.start()
	w.awaitCount(run.InstanceReady, size)
	id := w.submit(size + waiting)
	tasks := map[string]int{}
	for task, i := range w.in(run.InstanceReady) {
		tasks[i.Instance] = task
		w.await("a claim", func() bool { return w.claim(id, task, i.Instance) == nil })
	}
	w.put(image("b", surge))
	for range size {
		var draining string
		w.await("a drain", func() bool {
			for _, i := range w.in(run.InstanceDraining) {
				if _, ok := tasks[i.Instance]; ok {
					draining = i.Instance
				}
			}
			return draining != ""
		})
		w.awaitListings(10)
		w.finish(id, tasks[draining])
		delete(tasks, draining)
	}
	w.awaitRollout(2, run.RolloutComplete)
	w.awaitCount(run.InstanceReady, size)
	w.cloud.do(func() { require.Equal(t, size+1, most, "the most machines at a time") })
}

// TestFleet_rollout_of_busy_machines_requests_none covers a fleet that keeps no idle
// machine, and whose tasks all run: a new machine would be removed at once.
func TestFleet_rollout_of_busy_machines_requests_none(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	const size = 4
	surge := func(s *run.FleetSpec) { s.Update = run.FleetUpdate{MaxSurge: "1", MaxUnavailable: "0"} }
	w.put(image("a", surge))
	w.start()
	id := w.submit(size)
	w.awaitCount(run.InstanceReady, size)
	for task, i := range w.in(run.InstanceReady) {
		w.await("a claim", func() bool { return w.claim(id, task, i.Instance) == nil })
	}
	w.put(image("b", surge))
	w.awaitCount(run.InstanceDraining, size)
	for task := range size {
		w.finish(id, task)
	}
	w.awaitRollout(2, run.RolloutComplete)
	w.awaitEmpty()
	w.cloud.do(func() {
		made := 0
		for _, n := range w.cloud.increases {
			made += n
		}
		require.Equal(t, size, made)
	})
}

// TestFleet_rollout_replaces_a_machine_of_an_earlier_request covers a machine of
// a request that was given up before the change, and that appears after it.
func TestFleet_rollout_replaces_a_machine_of_an_earlier_request(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.put(image("a", idle(1)))
	w.start()
	w.awaitCount(run.InstanceReady, 1)
	w.put(image("b", idle(1)))
	w.awaitRollout(2, run.RolloutComplete)
	w.cloud.do(func() { w.cloud.instances["late"] = fleeting.StateRunning })
	w.await("its end", func() bool {
		return slices.ContainsFunc(w.in(run.InstanceGone), func(i run.FleetInstance) bool {
			return i.Instance == "late" && i.Revision == 1 && i.Reason == "rollout"
		})
	})
}

func TestFleet_undo_checks_the_settings(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	spec := quick(func(s *run.FleetSpec) { s.Pool, s.Plugin = w.pool, "../plugin" })
	// An earlier version permitted these settings.
	_, _, err := w.store.PutFleet(t.Context(), fleetName, spec, "tester")
	require.NoError(t, err)
	w.put(image("a", nil))
	_, err = w.fleets.UndoFleet(t.Context(), fleetName, run.FleetUndo{})
	require.Equal(t, run.CodeInvalid, run.CodeOf(err))
	require.ErrorContains(t, err, "the settings of revision 1 are not valid")
	require.Equal(t, 2, w.rollout().Current)
	require.Equal(t, run.RolloutProgressing, w.rollout().Phase)
	require.Contains(t, w.rollout().Message, "the fleet worker has not observed revision 2 yet")
}
