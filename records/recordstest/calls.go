package recordstest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

func callTests() map[string]func(t *testing.T, d *database) {
	return map[string]func(t *testing.T, d *database){
		"Start/manual":                testStart,
		"Start/wrong_phase":           testStartWrongPhase,
		"Cancel":                      testCancel,
		"Stop":                        testStop,
		"Approve":                     testApprove,
		"Approve/by_one_subject_only": testApproveOnce,
		"Annotate/run_and_task":       testAnnotate,
		"CloseLost":                   testCloseLost,
		"CloseLost/queued":            testCloseLostQueued,
	}
}

func manual(group string) *run.Spec {
	spec := oneTask(group)
	spec.Admission = run.AdmissionManual
	return spec
}

func testStart(t *testing.T, d *database) {
	s := d.store(t)
	r := create(t, s, manual("/a/b"))
	status, err := s.Begin(t.Context(), r.ID)
	require.NoError(t, err)
	require.Equal(t, run.PhaseQueued, status.Phase, "it is not admitted")
	require.NoError(t, s.StartRun(t.Context(), r.ID, nil))
	require.Equal(t, run.PhaseRunning, get(t, s, r.ID).Phase, "the next read returns it as running")
	requireCode(t, run.CodeWrongPhase, s.StartRun(t.Context(), r.ID, nil))
	require.Equal(t, []records.OutboxKind{records.OutboxStart, records.OutboxAdmit}, drain(t, s))
	begin(t, s, r.ID)
	requireCode(t, run.CodeWrongPhase, s.StartRun(t.Context(), r.ID, nil))
	require.False(t, get(t, s, r.ID).StartedAt.IsZero())
}

func testStartWrongPhase(t *testing.T, d *database) {
	s := d.store(t)
	r := create(t, s, oneTask("/a/b"))
	requireCode(t, run.CodeWrongPhase, s.StartRun(t.Context(), r.ID, nil))
	begin(t, s, r.ID)
	requireCode(t, run.CodeWrongPhase, s.StartRun(t.Context(), r.ID, nil))
}

func testCancel(t *testing.T, d *database) {
	s := d.store(t)
	r := create(t, s, wide("/a/b", 20))
	require.NoError(t, s.CancelRun(t.Context(), r.ID, nil))
	got := get(t, s, r.ID)
	require.Equal(t, run.PhaseCancelled, got.Phase)
	require.Equal(t, run.ResultUnknown, got.Result)
	require.False(t, got.EndedAt.IsZero())
	require.Equal(t, map[run.Status]int{run.StatusCancelled: 20}, got.TaskCounts)
	for _, task := range got.Tasks {
		require.Equal(t, run.StatusCancelled, task.Status)
		require.NotEmpty(t, task.Reason)
		require.False(t, task.EndedAt.IsZero())
	}
	require.Equal(t, []records.OutboxKind{records.OutboxStart, records.OutboxCancel}, drain(t, s))
	requireCode(t, run.CodeWrongPhase, s.CancelRun(t.Context(), r.ID, nil))

	status, err := s.Begin(t.Context(), r.ID)
	require.NoError(t, err)
	require.Equal(t, run.PhaseCancelled, status.Phase)
	status, tasks := apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{queued(3, 1, 1)}, Result: run.ResultFailed, Finish: true})
	require.Equal(t, run.Progress{Phase: run.PhaseCancelled, Result: run.ResultUnknown}, status)
	require.Equal(t, []run.TaskStatus{{Task: 3, Status: run.StatusCancelled}}, tasks)

	other := create(t, s, oneTask("/a/b"))
	begin(t, s, other.ID)
	requireCode(t, run.CodeWrongPhase, s.CancelRun(t.Context(), other.ID, nil))
}

func testStop(t *testing.T, d *database) {
	s := d.store(t)
	r := create(t, s, oneTask("/a/b"))
	requireCode(t, run.CodeWrongPhase, s.StopRun(t.Context(), r.ID, nil))
	begin(t, s, r.ID)
	require.NoError(t, s.StopRun(t.Context(), r.ID, nil))
	require.NoError(t, s.StopRun(t.Context(), r.ID, nil))
	require.Equal(t, []records.OutboxKind{records.OutboxStart, records.OutboxStop}, drain(t, s))
	status, err := s.Begin(t.Context(), r.ID)
	require.NoError(t, err)
	require.True(t, status.StopRequested)
	apply(t, s, r.ID, records.Changes{
		Tasks:  []run.TaskChange{{Task: 0, Status: run.StatusSkipped, Reason: "the run was stopped"}},
		Result: run.ResultStopped, Finish: true,
	})
	requireCode(t, run.CodeWrongPhase, s.StopRun(t.Context(), r.ID, nil))
	require.Equal(t, run.ResultStopped, get(t, s, r.ID).Result)
}

func approvable(approvers int) *run.Spec {
	spec := oneTask("/a/b")
	spec.Tasks["build"].Approval.Approvers = approvers
	return spec
}

func testApprove(t *testing.T, d *database) {
	s := d.store(t)
	ctx := t.Context()
	r := create(t, s, approvable(2))
	begin(t, s, r.ID)
	drain(t, s)
	requireCode(t, run.CodeNotWaitingApproval, s.ApproveTask(ctx, r.ID, "build", "ann", nil))
	requireCode(t, run.CodeNotFound, s.ApproveTask(ctx, r.ID, "other", "ann", nil))
	apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{{Task: 0, Status: run.StatusWaitingApproval}}})

	version := get(t, s, r.ID).Version
	require.NoError(t, s.ApproveTask(ctx, r.ID, "build", "bob", nil))
	require.Greater(t, get(t, s, r.ID).Version, version)
	requireCode(t, run.CodeNotWaitingApproval, s.ApproveTask(ctx, r.ID, "build", "bob", nil))
	require.Empty(t, drain(t, s))
	require.NoError(t, s.ApproveTask(ctx, r.ID, "build", "ann", nil))
	rows := takeAll(t, s)
	require.Len(t, rows, 1)
	require.Equal(t, records.OutboxApprove, rows[0].Kind)
	require.Equal(t, 0, rows[0].Task)
	requireCode(t, run.CodeNotWaitingApproval, s.ApproveTask(ctx, r.ID, "build", "cyd", nil))
	require.Equal(t, []string{"bob", "ann"}, get(t, s, r.ID).Tasks[0].ApprovedBy)
	status, _ := apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{queued(0, 1, 1)}})
	require.Equal(t, []int{0}, status.Approved)
	requireCode(t, run.CodeNotWaitingApproval, s.ApproveTask(ctx, r.ID, "build", "cyd", nil))
}

func testApproveOnce(t *testing.T, d *database) {
	s := d.store(t)
	r := create(t, s, approvable(1))
	begin(t, s, r.ID)
	drain(t, s)
	apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{{Task: 0, Status: run.StatusWaitingApproval}}})
	wins := race(t, 8, func(i int) error { return s.ApproveTask(t.Context(), r.ID, "build", "subject-"+itoa(int64(i)), nil) },
		run.CodeNotWaitingApproval)
	require.Equal(t, 1, wins)
	require.Equal(t, []records.OutboxKind{records.OutboxApprove}, drain(t, s))
}

func testAnnotate(t *testing.T, d *database) {
	s := d.store(t)
	ctx := t.Context()
	spec := oneTask("/a/b")
	spec.Annotations = map[string]string{"commit": "1", "keep": "x"}
	r := create(t, s, spec)
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
	requireCode(t, run.CodeNotFound, s.Annotate(ctx, r.ID, "other", nil, nil))
	got := get(t, s, r.ID)
	require.Equal(t, map[string]string{"commit": "2"}, got.Annotations)
	require.Equal(t, map[string]string{"cost": "3"}, got.Tasks[0].Annotations)
	require.Equal(t, r.Version+2, got.Version)
	require.NoError(t, s.Annotate(ctx, r.ID, "", nil, nil))
	require.Empty(t, get(t, s, r.ID).Annotations)
}

func testCloseLost(t *testing.T, d *database) {
	s := d.store(t)
	ctx := t.Context()
	r := create(t, s, wide("/a/b", 5))
	begin(t, s, r.ID)
	apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{
		queued(0, 1, 1), queued(1, 1, 1), queued(2, 1, 1), queued(3, 2, 1),
	}})
	key := run.Key{Run: r.ID, Task: 0, Attempt: 1, Dispatch: 1}
	claim(t, s, key)
	require.NoError(t, s.ApplyFrames(ctx, batch(key, "x", 1, run.FrameStepStart)))
	done := run.Key{Run: r.ID, Task: 1, Attempt: 1, Dispatch: 1}
	claim(t, s, done)
	apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{ended(1, 1, 1, run.StatusSuccess)}})

	require.NoError(t, s.CloseLost(ctx, r.ID, "its workflow was terminated"))
	got := get(t, s, r.ID)
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
	require.Empty(t, takeAll(t, s))

	require.NoError(t, s.CloseLost(ctx, r.ID, "another reason"))
	require.Equal(t, got, get(t, s, r.ID))
}

func testCloseLostQueued(t *testing.T, d *database) {
	s := d.store(t)
	r := create(t, s, oneTask("/a/b"))
	require.NoError(t, s.CloseLost(t.Context(), r.ID, "gone"))
	got := get(t, s, r.ID)
	require.Equal(t, run.PhaseFinished, got.Phase)
	require.Equal(t, run.StatusSkipped, got.Tasks[0].Status)
}
