package activities_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/drover-run/drover/activities"
	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// progress is a fake of the records.
type progress struct {
	status  run.Progress
	changes records.Changes
	tasks   []run.TaskStatus
	holders map[int]records.Holder
	loaded  []int
	err     error
}

func (p *progress) LoadPlan(_ context.Context, _ run.ID, page int) (run.Plan, bool, error) {
	p.loaded = append(p.loaded, page)
	return run.Plan{Name: "x"}, page == 0, p.err
}

func (p *progress) Begin(context.Context, run.ID) (run.Progress, error) {
	return p.status, p.err
}

func (p *progress) Apply(_ context.Context, _ run.ID, c records.Changes) (run.Progress, []run.TaskStatus, error) {
	p.changes = c
	return p.status, p.tasks, p.err
}

func (p *progress) LostExecutors(_ context.Context, ids []string) (map[string]string, error) {
	return map[string]string{ids[0]: "it burnt"}, p.err
}

func (p *progress) Expand(_ context.Context, id run.ID, _ int) (records.Expanded, error) {
	if id == "empty" {
		return records.Expanded{First: 3}, nil
	}
	return records.Expanded{First: 3, Width: 2}, nil
}

func (p *progress) Holders(context.Context, run.ID) (map[int]records.Holder, error) {
	return p.holders, p.err
}

func TestRun_Begin(t *testing.T) {
	t.Parallel()
	p := &progress{status: run.Progress{Phase: run.PhaseRunning, Result: run.ResultUnknown, Approved: []int{2}}}
	a := activities.NewRun(p)
	out, err := a.Begin(t.Context(), contract.BeginInput{Run: "r", Plan: true})
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(contract.BeginResult{
		Status: run.Progress{Phase: run.PhaseRunning, Result: run.ResultUnknown, Approved: []int{2}},
		Page:   &contract.PlanPage{Plan: run.Plan{Name: "x"}, More: true},
	}, out))
	out, err = a.Begin(t.Context(), contract.BeginInput{Run: "r"})
	require.NoError(t, err)
	require.Nil(t, out.Page)
	p.status.Phase = run.PhaseCancelled
	out, err = a.Begin(t.Context(), contract.BeginInput{Run: "r", Plan: true})
	require.NoError(t, err)
	require.Nil(t, out.Page, "a run that is over has no use for its plan")
	require.Equal(t, []int{0}, p.loaded)
}

func TestRun_Apply_returns_only_differences(t *testing.T) {
	t.Parallel()
	p := &progress{
		status: run.Progress{Phase: run.PhaseRunning, StopRequested: true},
		tasks: []run.TaskStatus{
			{Task: 0, Attempt: 1, Dispatch: 1, Status: run.StatusQueued},
			{Task: 1, Attempt: 1, Dispatch: 2, Status: run.StatusQueued},
			{Task: 2, Attempt: 1, Dispatch: 1, Status: run.StatusRunning},
		},
	}
	result := &run.TaskResult{Status: run.StatusFailed}
	out, err := activities.NewRun(p).Apply(t.Context(), contract.ApplyInput{
		Run: "r", Result: run.ResultFailed, Reason: "why", Finish: true,
		Tasks: []run.TaskChange{
			{Task: 0, Attempt: 1, Dispatch: 1, Status: run.StatusQueued, Reason: "x", Result: result},
			{Task: 1, Attempt: 1, Dispatch: 1, Status: run.StatusQueued},
			{Task: 2, Attempt: 1, Dispatch: 1, Status: run.StatusSkipped, IfUnclaimed: true},
		},
	})
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(contract.ApplyResult{
		Status: run.Progress{Phase: run.PhaseRunning, StopRequested: true},
		Mismatched: []run.TaskStatus{
			{Task: 1, Attempt: 1, Dispatch: 2, Status: run.StatusQueued},
			{Task: 2, Attempt: 1, Dispatch: 1, Status: run.StatusRunning},
		},
	}, out))
	require.Empty(t, cmp.Diff(records.Changes{
		Result: run.ResultFailed, Reason: "why", Finish: true,
		Tasks: []run.TaskChange{
			{Task: 0, Attempt: 1, Dispatch: 1, Status: run.StatusQueued, Reason: "x", Result: result},
			{Task: 1, Attempt: 1, Dispatch: 1, Status: run.StatusQueued},
			{Task: 2, Attempt: 1, Dispatch: 1, Status: run.StatusSkipped, IfUnclaimed: true},
		},
	}, p.changes))
}

func TestRun_Holders(t *testing.T) {
	t.Parallel()
	p := &progress{holders: map[int]records.Holder{
		7: {Key: run.Key{Task: 7, Attempt: 2, Dispatch: 3}, Executor: "b"}, 2: {Key: run.Key{Task: 2, Attempt: 1, Dispatch: 1}, Executor: "a"},
	}}
	a := activities.NewRun(p)
	out, err := a.Holders(t.Context(), contract.HoldersInput{Run: "r"})
	require.NoError(t, err)
	require.Equal(t, []contract.Holder{{Task: 2, Attempt: 1, Dispatch: 1, Executor: "a"}, {Task: 7, Attempt: 2, Dispatch: 3, Executor: "b"}}, out.Holders)
	out, err = a.Holders(t.Context(), contract.HoldersInput{Run: "r", Tasks: []int{7, 8}})
	require.NoError(t, err)
	require.Equal(t, []contract.Holder{{Task: 7, Attempt: 2, Dispatch: 3, Executor: "b"}}, out.Holders)
}

func TestRun_errors_cross_by_code(t *testing.T) {
	t.Parallel()
	a := activities.NewRun(&progress{err: run.Errorf(run.CodeNotFound, "there is no run r")})
	_, begin := a.Begin(t.Context(), contract.BeginInput{Run: "r", Plan: true})
	_, load := a.LoadPlan(t.Context(), contract.LoadPlanInput{Run: "r"})
	_, apply := a.Apply(t.Context(), contract.ApplyInput{Run: "r"})
	_, holders := a.Holders(t.Context(), contract.HoldersInput{Run: "r"})
	for _, err := range []error{begin, load, apply, holders} {
		var application *temporal.ApplicationError
		require.ErrorAs(t, err, &application)
		require.Equal(t, string(run.CodeNotFound), application.Type())
		require.True(t, application.NonRetryable())
	}
}

// TestRun_Expand_for_earlier_workflows: a workflow of an earlier version takes an empty list
// for a fault, and its history must have that.
func TestRun_Expand_for_earlier_workflows(t *testing.T) {
	t.Parallel()
	a := activities.NewRun(&progress{})
	out, err := a.Expand(t.Context(), contract.ExpandInput{Run: "empty", Empty: true})
	require.NoError(t, err)
	require.Equal(t, contract.ExpandResult{First: 3}, out)
	out, err = a.Expand(t.Context(), contract.ExpandInput{Run: "empty"})
	require.NoError(t, err)
	require.Contains(t, out.Fault, "is an empty list")
	out, err = a.Expand(t.Context(), contract.ExpandInput{Run: "r"})
	require.NoError(t, err)
	require.Equal(t, contract.ExpandResult{First: 3, Width: 2}, out)
}
