package executors

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

// testAcquireTimeout queues tasks of a pool with fleets, and tells the records that
// no executor took them in time.
func testAcquireTimeout(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	put := func(name string, timeout time.Duration) {
		t.Helper()
		putFleet(t, s, name, func(x *run.FleetSpec) { x.InstanceAcquireTimeout = run.Duration(timeout) })
	}
	id := fixture.Create(t, s, fixture.Wide("/a/b", 3)).ID
	fixture.Begin(t, s, id)
	apply := func(c run.TaskChange) run.TaskStatus {
		t.Helper()
		_, statuses, err := s.Apply(t.Context(), id, records.Changes{Tasks: []run.TaskChange{c}})
		require.NoError(t, err)
		return statuses[0]
	}
	queue := func(task, dispatch int, expired bool) run.TaskStatus {
		t.Helper()
		return apply(run.TaskChange{Task: task, Attempt: 1, Dispatch: dispatch, Status: run.StatusQueued, IfUnclaimed: true, NotAcquired: expired})
	}
	limit := func(task, dispatch int) time.Duration {
		t.Helper()
		status := queue(task, dispatch, true)
		require.Equal(t, run.StatusQueued, status.Status)
		return status.AcquireTimeout.Std()
	}
	require.Zero(t, limit(0, 1), "the pool has no fleet")
	put("linux", time.Minute)
	require.Equal(t, time.Minute, queue(0, 1, false).AcquireTimeout.Std(), "also for a repeated change")
	put("spot", 0)
	require.Zero(t, limit(0, 2), "one of the fleets has no limit")
	put("spot", time.Hour)
	control := func(name string, action run.FleetAction) {
		t.Helper()
		_, err := s.ControlFleet(t.Context(), name, run.FleetControl{Action: action})
		require.NoError(t, err)
	}
	require.Equal(t, time.Hour, queue(0, 3, false).AcquireTimeout.Std(), "the longest limit applies")
	control("spot", run.FleetActionPause)
	require.Equal(t, time.Minute, queue(0, 4, false).AcquireTimeout.Std(), "the paused fleet requests nothing")
	control("linux", run.FleetActionPause)
	require.Zero(t, limit(0, 5), "no fleet requests instances, so the tasks wait until one is resumed")
	control("linux", run.FleetActionResume)

	e := fixture.Executor("static")
	require.NoError(t, fixture.Register(t, s, e))
	require.Zero(t, limit(0, 6), "an executor outside of fleets may take it")
	_, err := s.DrainExecutor(t.Context(), e.ID, true, "")
	require.NoError(t, err)
	require.Equal(t, time.Minute, queue(0, 7, false).AcquireTimeout.Std())
	_, err = s.DrainExecutor(t.Context(), e.ID, false, "")
	require.NoError(t, err)
	require.Zero(t, limit(0, 8))
	_, err = s.RemoveExecutor(t.Context(), e.ID, run.Removal{})
	require.NoError(t, err)

	require.Equal(t, run.StatusQueued, queue(1, 1, false).Status)
	require.Equal(t, run.StatusQueued, queue(1, 2, false).Status, "it was requeued for another reason")
	require.Equal(t, run.TaskStatus{Task: 1, Attempt: 1, Dispatch: 2, Status: run.StatusFailed}, queue(1, 3, true))
	require.Equal(t, run.StatusFailed, queue(1, 3, true).Status, "a repeated change")
	r, err := s.GetRun(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, run.CauseAcquireTimeout, r.Tasks[1].Cause)
	require.Regexp(t, `^instance_acquire_timeout: no instance of fleet linux took it within [0-9.]+m?s$`, r.Tasks[1].Reason)
	require.False(t, r.Tasks[1].EndedAt.IsZero())
	require.Equal(t, run.StatusQueued, r.Tasks[0].Status)
}

// testAcquireTimeoutOfLabels queues tasks that require labels or resources: only the
// fleets and executors that have them count for the limit.
func testAcquireTimeoutOfLabels(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	arm, ssd := map[string]string{"arch": "arm64"}, map[string]string{"disk": "ssd"}
	large := run.Resources{CPU: "8"}.Labels()
	putFleet(t, s, "arm", func(x *run.FleetSpec) {
		x.InstanceAcquireTimeout, x.Labels, x.Resources = run.Duration(time.Minute), arm, run.Resources{CPU: "16"}
	})
	putFleet(t, s, "plain", nil)
	id := createLabelled(t, s, nil, arm, ssd, large)
	dispatch := 1
	limits := func() (all []time.Duration) {
		t.Helper()
		dispatch++
		var c records.Changes
		for task := range 4 {
			c.Tasks = append(c.Tasks, run.TaskChange{Task: task, Attempt: 1, Dispatch: dispatch, Status: run.StatusQueued, IfUnclaimed: true})
		}
		_, statuses, err := s.Apply(t.Context(), id, c)
		require.NoError(t, err)
		for _, status := range statuses {
			all = append(all, status.AcquireTimeout.Std())
		}
		return all
	}
	require.Equal(t, []time.Duration{0, time.Minute, 0, time.Minute}, limits(), "fleet plain has no limit, and none of the labels")
	labelledExecutor(t, s, "static", 1, nil)
	require.Equal(t, []time.Duration{0, time.Minute, 0, time.Minute}, limits(), "the executor cannot take the tasks of fleet arm")
	labelledExecutor(t, s, "static-arm", 1, arm)
	require.Equal(t, []time.Duration{0, 0, 0, time.Minute}, limits(), "this one can take one of them")
	_, _, err := s.Apply(t.Context(), id, records.Changes{Tasks: []run.TaskChange{{
		Task: 3, Attempt: 1, Dispatch: dispatch + 1, Status: run.StatusQueued, IfUnclaimed: true, NotAcquired: true,
	}}})
	require.NoError(t, err)
	r, err := s.GetRun(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, run.CauseAcquireTimeout, r.Tasks[3].Cause)
	require.Contains(t, r.Tasks[3].Reason, "no instance of fleet arm took it")
}

// testAcquireTimeoutOfUnknownLabels queues a task that requires labels which no fleet has
// any more: it does not wait for ever.
func testAcquireTimeoutOfUnknownLabels(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	arm := map[string]string{"arch": "arm64"}
	put := func(name string, timeout time.Duration, labels map[string]string) {
		t.Helper()
		putFleet(t, s, name, func(x *run.FleetSpec) { x.InstanceAcquireTimeout, x.Labels = run.Duration(timeout), labels })
	}
	control := func(action run.FleetAction) {
		t.Helper()
		_, err := s.ControlFleet(t.Context(), "arm", run.FleetControl{Action: action})
		require.NoError(t, err)
	}
	put("arm", time.Minute, arm)
	put("plain", 0, nil)
	id, dispatch := createLabelled(t, s, arm), 1
	queue := func() run.TaskStatus {
		t.Helper()
		dispatch++
		_, statuses, err := s.Apply(t.Context(), id, records.Changes{Tasks: []run.TaskChange{{
			Attempt: 1, Dispatch: dispatch, Status: run.StatusQueued, IfUnclaimed: true, NotAcquired: true,
		}}})
		require.NoError(t, err)
		return statuses[0]
	}
	waits := func(limit time.Duration, why string) {
		t.Helper()
		status := queue()
		require.Equal(t, run.StatusQueued, status.Status, why)
		require.Equal(t, limit, status.AcquireTimeout.Std(), why)
	}
	control(run.FleetActionPause)
	put("plain", time.Hour, nil)
	waits(0, "until its fleet is resumed")
	control(run.FleetActionResume)
	put("plain", 0, nil)
	put("arm", time.Minute, nil)
	waits(0, "fleet plain has no limit")
	put("plain", time.Hour, nil)
	require.Equal(t, run.StatusFailed, queue().Status)
	r, err := s.GetRun(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, run.CauseAcquireTimeout, r.Tasks[0].Cause)
	require.Contains(t, r.Tasks[0].Reason, "no fleet of the pool has what it requires")
}
