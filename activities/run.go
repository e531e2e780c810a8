// Package activities holds the side effects of workflows, one struct per
// concern.
package activities

import (
	"context"
	"maps"
	"slices"

	"github.com/drover-run/drover/activities/errcode"
	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// Progress is the part of the records that the activities of a run use.
type Progress interface {
	LoadPlan(ctx context.Context, id run.ID, page int) (run.Plan, bool, error)
	Begin(ctx context.Context, id run.ID) (run.Progress, error)
	Apply(ctx context.Context, id run.ID, c records.Changes) (run.Progress, []run.TaskStatus, error)
	Expand(ctx context.Context, id run.ID, task int) (records.Expanded, error)
	Holders(ctx context.Context, id run.ID) (map[int]records.Holder, error)
	LostExecutors(ctx context.Context, ids []string) (map[string]string, error)
}

var _ Progress = records.Store(nil)

// Run holds the activities by which the workflows of a run read and write the
// records. All of them are idempotent and take milliseconds, so that they may
// be local activities. Errors are those of errcode.ToTemporal.
type Run struct{ progress Progress }

// NewRun returns the activities over the records.
func NewRun(progress Progress) *Run { return &Run{progress: progress} }

// LoadPlan returns a page of the run's plan.
func (a *Run) LoadPlan(ctx context.Context, in contract.LoadPlanInput) (contract.PlanPage, error) {
	plan, more, err := a.progress.LoadPlan(ctx, in.Run, in.Page)
	return contract.PlanPage{Plan: plan, More: more}, errcode.ToTemporal(err)
}

// Begin sets the run to running if it may begin, and returns its state, with
// the first page of its plan if requested.
func (a *Run) Begin(ctx context.Context, in contract.BeginInput) (contract.BeginResult, error) {
	status, err := a.progress.Begin(ctx, in.Run)
	if err != nil {
		return contract.BeginResult{}, errcode.ToTemporal(err)
	}
	out := contract.BeginResult{Status: status}
	if !in.Plan || status.Phase.Final() {
		return out, nil
	}
	page, err := a.LoadPlan(ctx, contract.LoadPlanInput{Run: in.Run})
	out.Page = &page
	return out, err
}

// Apply writes the changes of a workflow and returns the tasks whose state
// differs from the request.
func (a *Run) Apply(ctx context.Context, in contract.ApplyInput) (contract.ApplyResult, error) {
	status, tasks, err := a.progress.Apply(ctx, in.Run, records.Changes{
		Tasks: in.Tasks, Result: in.Result, Reason: in.Reason, Finish: in.Finish,
	})
	if err != nil {
		return contract.ApplyResult{}, errcode.ToTemporal(err)
	}
	out := contract.ApplyResult{Status: status}
	for i, s := range tasks {
		if i >= len(in.Tasks) {
			break
		}
		c := in.Tasks[i]
		// A limit of the wait for an instance is told in the same way.
		if s.Attempt != c.Attempt || s.Dispatch != c.Dispatch || s.Status != c.Status || s.AcquireTimeout > 0 {
			s.Task = c.Task
			out.Mismatched = append(out.Mismatched, s)
		}
	}
	return out, nil
}

// Expand creates the tasks of a foreach.
func (a *Run) Expand(ctx context.Context, in contract.ExpandInput) (contract.ExpandResult, error) {
	x, err := a.progress.Expand(ctx, in.Run, in.Task)
	if err == nil && !in.Empty && x.Width == 0 && x.Fault == "" && x.Skipped == "" {
		x.Fault = "the list of foreach is an empty list, which the control worker that began the run does not accept"
	}
	return contract.ExpandResult{First: x.First, Width: x.Width, Fault: x.Fault, Skipped: x.Skipped}, errcode.ToTemporal(err)
}

// Holders returns the holders of the requested tasks, in ascending order, and
// which of the requested executors were removed.
func (a *Run) Holders(ctx context.Context, in contract.HoldersInput) (contract.HoldersResult, error) {
	found, err := a.progress.Holders(ctx, in.Run)
	if err != nil {
		return contract.HoldersResult{}, errcode.ToTemporal(err)
	}
	requested := make(map[int]bool, len(in.Tasks))
	for _, task := range in.Tasks {
		requested[task] = true
	}
	var out contract.HoldersResult
	for task, h := range found {
		if len(requested) == 0 || requested[task] {
			out.Holders = append(out.Holders, contract.Holder{
				Task: task, Attempt: h.Key.Attempt, Dispatch: h.Key.Dispatch, Executor: h.Executor, Set: h.Set,
			})
		}
	}
	slices.SortFunc(out.Holders, func(x, y contract.Holder) int { return x.Task - y.Task })
	if len(in.Executors) == 0 {
		return out, nil
	}
	lost, err := a.progress.LostExecutors(ctx, in.Executors)
	for _, id := range slices.Sorted(maps.Keys(lost)) {
		out.Removed = append(out.Removed, contract.ExecutorRemoved{Executor: id, Reason: lost[id]})
	}
	return out, errcode.ToTemporal(err)
}
