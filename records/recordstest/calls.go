package recordstest

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

func callTests() map[string]func(t *testing.T, d *fixture.Database) {
	return map[string]func(t *testing.T, d *fixture.Database){
		"Start/manual":                testStart,
		"Start/wrong_phase":           testStartWrongPhase,
		"Cancel":                      testCancel,
		"Stop":                        testStop,
		"Stop_by_force":               testForceStop,
		"End":                         testEnd,
		"End/while_it_begins":         testEndRace,
		"Approve":                     testApprove,
		"Approve/by_one_subject_only": testApproveOnce,
		"Annotate/run_and_task":       testAnnotate,
		"CloseLost":                   testCloseLost,
		"CloseLost/queued":            testCloseLostQueued,
	}
}

func testStart(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	r := fixture.Create(t, s, fixture.Manual("/a/b"))
	status, err := s.Begin(t.Context(), r.ID)
	require.NoError(t, err)
	require.Equal(t, run.PhaseQueued, status.Phase, "it is not admitted")
	require.NoError(t, s.StartRun(t.Context(), r.ID, nil))
	require.Equal(t, run.PhaseRunning, fixture.Get(t, s, r.ID).Phase, "the next read returns it as running")
	fixture.RequireCode(t, run.CodeWrongPhase, s.StartRun(t.Context(), r.ID, nil))
	require.Equal(t, []records.OutboxKind{records.OutboxStart, records.OutboxAdmit}, fixture.Drain(t, s))
	fixture.Begin(t, s, r.ID)
	fixture.RequireCode(t, run.CodeWrongPhase, s.StartRun(t.Context(), r.ID, nil))
	require.False(t, fixture.Get(t, s, r.ID).StartedAt.IsZero())
}

func testStartWrongPhase(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	r := fixture.Create(t, s, fixture.OneTask("/a/b"))
	fixture.RequireCode(t, run.CodeWrongPhase, s.StartRun(t.Context(), r.ID, nil))
	fixture.Begin(t, s, r.ID)
	fixture.RequireCode(t, run.CodeWrongPhase, s.StartRun(t.Context(), r.ID, nil))
}

func testCancel(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	r := fixture.Create(t, s, fixture.Wide("/a/b", 20))
	require.NoError(t, s.CancelRun(t.Context(), r.ID, nil))
	got := fixture.Get(t, s, r.ID)
	require.Equal(t, run.PhaseCancelled, got.Phase)
	require.Equal(t, run.ResultUnknown, got.Result)
	require.False(t, got.EndedAt.IsZero())
	require.Equal(t, map[run.Status]int{run.StatusCancelled: 20}, got.TaskCounts)
	for _, task := range got.Tasks {
		require.Equal(t, run.StatusCancelled, task.Status)
		require.NotEmpty(t, task.Reason)
		require.False(t, task.EndedAt.IsZero())
	}
	require.Equal(t, []records.OutboxKind{records.OutboxStart, records.OutboxCancel}, fixture.Drain(t, s))
	fixture.RequireCode(t, run.CodeWrongPhase, s.CancelRun(t.Context(), r.ID, nil))

	status, err := s.Begin(t.Context(), r.ID)
	require.NoError(t, err)
	require.Equal(t, run.PhaseCancelled, status.Phase)
	status, tasks := fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Queued(3, 1, 1)}, Result: run.ResultFailed, Finish: true})
	require.Equal(t, run.Progress{Phase: run.PhaseCancelled, Result: run.ResultUnknown}, status)
	require.Equal(t, []run.TaskStatus{{Task: 3, Status: run.StatusCancelled}}, tasks)

	other := fixture.Create(t, s, fixture.OneTask("/a/b"))
	fixture.Begin(t, s, other.ID)
	fixture.RequireCode(t, run.CodeWrongPhase, s.CancelRun(t.Context(), other.ID, nil))
}

func testStop(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	r := fixture.Create(t, s, fixture.OneTask("/a/b"))
	fixture.RequireCode(t, run.CodeWrongPhase, s.StopRun(t.Context(), r.ID, nil))
	fixture.Begin(t, s, r.ID)
	require.NoError(t, s.StopRun(t.Context(), r.ID, nil))
	require.NoError(t, s.StopRun(t.Context(), r.ID, nil))
	require.Equal(t, []records.OutboxKind{records.OutboxStart, records.OutboxStop}, fixture.Drain(t, s))
	status, err := s.Begin(t.Context(), r.ID)
	require.NoError(t, err)
	require.True(t, status.StopRequested)
	fixture.Apply(t, s, r.ID, records.Changes{
		Tasks:  []run.TaskChange{{Task: 0, Status: run.StatusSkipped, Reason: "the run was stopped"}},
		Result: run.ResultStopped, Finish: true,
	})
	fixture.RequireCode(t, run.CodeWrongPhase, s.StopRun(t.Context(), r.ID, nil))
	require.Equal(t, run.ResultStopped, fixture.Get(t, s, r.ID).Result)
}

func testForceStop(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	for name, stoppedBefore := range map[string]bool{"at once": false, "after a stop": true} {
		r := fixture.Create(t, s, fixture.OneTask("/a/b"))
		fixture.RequireCode(t, run.CodeWrongPhase, s.ForceStopRun(t.Context(), r.ID, nil))
		fixture.Begin(t, s, r.ID)
		require.False(t, fixture.Get(t, s, r.ID).StopRequested)
		kinds := []records.OutboxKind{records.OutboxStart}
		if stoppedBefore {
			require.NoError(t, s.StopRun(t.Context(), r.ID, nil))
			kinds = append(kinds, records.OutboxStop)
		}
		require.NoError(t, s.ForceStopRun(t.Context(), r.ID, nil))
		require.Equal(t, append(kinds, records.OutboxForceStop), fixture.Drain(t, s), name)
		require.True(t, fixture.Get(t, s, r.ID).StopRequested)
		status, err := s.Begin(t.Context(), r.ID)
		require.NoError(t, err)
		require.True(t, status.StopRequested)
		fixture.Apply(t, s, r.ID, records.Changes{
			Tasks:  []run.TaskChange{{Task: 0, Status: run.StatusSkipped, Reason: "the run was stopped"}},
			Result: run.ResultStopped, Finish: true,
		})
		fixture.RequireCode(t, run.CodeWrongPhase, s.ForceStopRun(t.Context(), r.ID, nil))
	}
}

// testEnd ends runs whose phase the caller does not know.
func testEnd(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	for _, force := range []bool{false, true} {
		queued := fixture.Create(t, s, fixture.Grouped(1, "g"))
		_, stale, err := s.ChangeGroups(t.Context(), run.ChangeGroupQuery{Names: []string{"g"}})
		require.NoError(t, err)
		fixture.Create(t, s, fixture.Grouped(1, "g"))
		_, err = s.EndRun(t.Context(), queued.ID, stale, force)
		fixture.RequireCode(t, run.CodeChangeGroupConflict, err)
		fixture.Drain(t, s)
		_, token, err := s.ChangeGroups(t.Context(), run.ChangeGroupQuery{Names: []string{"g"}})
		require.NoError(t, err)
		done, err := s.EndRun(run.WithActor(t.Context(), "ann"), queued.ID, token, force)
		require.NoError(t, err)
		require.Equal(t, run.ActionCancel, done)
		got := fixture.Get(t, s, queued.ID)
		require.Equal(t, run.PhaseCancelled, got.Phase)
		require.Equal(t, "ann", got.FirstActor(run.ActionCancel))
		require.Empty(t, got.FirstActor(run.ActionStop))
		require.Equal(t, []records.OutboxKind{records.OutboxCancel}, fixture.Drain(t, s))
		_, err = s.EndRun(t.Context(), queued.ID, nil, force)
		fixture.RequireCode(t, run.CodeWrongPhase, err)

		running := fixture.Create(t, s, fixture.OneTask("/a/b"))
		fixture.Begin(t, s, running.ID)
		fixture.Drain(t, s)
		wanted := []records.OutboxKind{records.OutboxStop} // the second call changes nothing
		if force {
			wanted = []records.OutboxKind{records.OutboxForceStop, records.OutboxForceStop}
		}
		for range 2 {
			done, err = s.EndRun(run.WithActor(t.Context(), "ann"), running.ID, nil, force)
			require.NoError(t, err)
			require.Equal(t, run.ActionStop, done)
			got = fixture.Get(t, s, running.ID)
			require.Equal(t, run.PhaseRunning, got.Phase)
			require.True(t, got.StopRequested)
		}
		require.Equal(t, wanted, fixture.Drain(t, s))
		require.Equal(t, "ann", got.FirstActor(run.ActionStop))
	}
	_, err := s.EndRun(t.Context(), "01k0000000000000000000000a", nil, false)
	fixture.RequireCode(t, run.CodeNotFound, err)
}

// testEndRace ends runs while they begin: each call ends its run.
func testEndRace(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	for range 20 {
		id := fixture.Create(t, s, fixture.OneTask("/a/b")).ID
		var done run.ActionKind
		var group errgroup.Group
		group.Go(func() error {
			_, err := s.Begin(t.Context(), id)
			return err
		})
		group.Go(func() (err error) {
			done, err = s.EndRun(t.Context(), id, nil, false)
			return err
		})
		require.NoError(t, group.Wait())
		got := fixture.Get(t, s, id)
		switch done {
		case run.ActionCancel:
			require.Equal(t, run.PhaseCancelled, got.Phase)
		default:
			require.Equal(t, run.ActionStop, done)
			require.Equal(t, run.PhaseRunning, got.Phase)
			require.True(t, got.StopRequested)
		}
	}
}

func approvable(approvers int) *run.Spec {
	spec := fixture.OneTask("/a/b")
	spec.Tasks["build"].Approval.Approvers = approvers
	return spec
}

func testApprove(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	r := fixture.Create(t, s, approvable(2))
	fixture.Begin(t, s, r.ID)
	fixture.Drain(t, s)
	fixture.RequireCode(t, run.CodeNotWaitingApproval, s.ApproveTask(ctx, r.ID, "build", "ann", nil))
	fixture.RequireCode(t, run.CodeNotFound, s.ApproveTask(ctx, r.ID, "other", "ann", nil))
	fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{{Task: 0, Status: run.StatusWaitingApproval}}})

	version := fixture.Get(t, s, r.ID).Version
	require.NoError(t, s.ApproveTask(run.WithComment(ctx, "read the plan"), r.ID, "build", "bob", nil))
	got := fixture.Get(t, s, r.ID)
	require.Greater(t, got.Version, version)
	require.Equal(t, "read the plan", got.Actions[len(got.Actions)-1].Reason)
	fixture.RequireCode(t, run.CodeNotWaitingApproval, s.ApproveTask(ctx, r.ID, "build", "bob", nil))
	require.Empty(t, fixture.Drain(t, s))
	require.NoError(t, s.ApproveTask(ctx, r.ID, "build", "ann", nil))
	rows := fixture.TakeAll(t, s)
	require.Len(t, rows, 1)
	require.Equal(t, records.OutboxApprove, rows[0].Kind)
	require.Equal(t, 0, rows[0].Task)
	fixture.RequireCode(t, run.CodeNotWaitingApproval, s.ApproveTask(ctx, r.ID, "build", "cyd", nil))
	require.Equal(t, []string{"bob", "ann"}, fixture.Get(t, s, r.ID).Tasks[0].ApprovedBy)
	status, _ := fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 1, 1)}})
	require.Equal(t, []int{0}, status.Approved)
	fixture.RequireCode(t, run.CodeNotWaitingApproval, s.ApproveTask(ctx, r.ID, "build", "cyd", nil))
}

func testApproveOnce(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	r := fixture.Create(t, s, approvable(1))
	fixture.Begin(t, s, r.ID)
	fixture.Drain(t, s)
	fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{{Task: 0, Status: run.StatusWaitingApproval}}})
	wins := fixture.Race(t, 8, func(i int) error {
		return s.ApproveTask(t.Context(), r.ID, "build", "subject-"+fixture.Itoa(int64(i)), nil)
	},
		run.CodeNotWaitingApproval)
	require.Equal(t, 1, wins)
	require.Equal(t, []records.OutboxKind{records.OutboxApprove}, fixture.Drain(t, s))
}

func testAnnotate(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	spec := fixture.OneTask("/a/b")
	spec.Annotations = map[string]string{"commit": "1", "keep": "x"}
	r := fixture.Create(t, s, spec)
	find := func(key, value string) int {
		page, err := s.ListRuns(ctx, run.ListQuery{Annotations: []run.Annotation{{Key: key, Value: value}}})
		require.NoError(t, err)
		return len(page.Runs)
	}
	require.Equal(t, 1, find("commit", "1"))
	require.NoError(t, s.Annotate(ctx, r.ID, "", map[string]string{"commit": "2"}, nil))
	require.Equal(t, 0, find("commit", "1"))
	require.Equal(t, 0, find("keep", "x"))
	require.Equal(t, 1, find("commit", "2"))
	require.NoError(t, s.Annotate(ctx, r.ID, "build", map[string]string{"cost": "3"}, nil))
	fixture.RequireCode(t, run.CodeNotFound, s.Annotate(ctx, r.ID, "other", nil, nil))
	got := fixture.Get(t, s, r.ID)
	require.Equal(t, map[string]string{"commit": "2"}, got.Annotations)
	require.Equal(t, map[string]string{"cost": "3"}, got.Tasks[0].Annotations)
	require.Equal(t, r.Version+2, got.Version)
	require.NoError(t, s.Annotate(ctx, r.ID, "", nil, nil))
	require.Empty(t, fixture.Get(t, s, r.ID).Annotations)
}

func testCloseLost(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	r := fixture.Create(t, s, fixture.Wide("/a/b", 5))
	fixture.Begin(t, s, r.ID)
	fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{
		fixture.Queued(0, 1, 1), fixture.Queued(1, 1, 1), fixture.Queued(2, 1, 1), fixture.Queued(3, 2, 1),
	}})
	key := run.Key{Run: r.ID, Task: 0, Attempt: 1, Dispatch: 1}
	fixture.Claim(t, s, key)
	require.NoError(t, s.ApplyFrames(ctx, fixture.Batch(key, "x", 1, run.FrameStepStart)))
	done := run.Key{Run: r.ID, Task: 1, Attempt: 1, Dispatch: 1}
	fixture.Claim(t, s, done)
	fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Ended(1, 1, 1, run.StatusSuccess)}})

	require.NoError(t, s.CloseLost(ctx, r.ID, "its workflow was terminated"))
	got := fixture.Get(t, s, r.ID)
	require.Equal(t, run.PhaseFinished, got.Phase)
	require.Equal(t, run.ResultFailed, got.Result)
	require.Equal(t, "its workflow was terminated", got.Reason)
	require.False(t, got.EndedAt.IsZero())
	statuses := make([]run.Status, len(got.Tasks))
	for i, task := range got.Tasks {
		statuses[i] = task.Status
		require.False(t, task.EndedAt.IsZero())
	}
	require.Equal(t, []run.Status{run.StatusFailed, run.StatusSuccess, run.StatusSkipped, run.StatusFailed, run.StatusSkipped}, statuses)
	require.Equal(t, run.StatusFailed, got.Tasks[0].Steps[0].Status, "no step is left running")
	states, err := s.ClaimStates(ctx, "x", []run.Key{key})
	require.NoError(t, err)
	require.Equal(t, run.ClaimClosed, states[key])
	require.Empty(t, fixture.TakeAll(t, s))

	require.NoError(t, s.CloseLost(ctx, r.ID, "another reason"))
	require.Equal(t, got, fixture.Get(t, s, r.ID))
}

func testCloseLostQueued(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	r := fixture.Create(t, s, fixture.OneTask("/a/b"))
	require.NoError(t, s.CloseLost(t.Context(), r.ID, "gone"))
	got := fixture.Get(t, s, r.ID)
	require.Equal(t, run.PhaseFinished, got.Phase)
	require.Equal(t, run.StatusSkipped, got.Tasks[0].Status)
}
