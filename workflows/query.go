package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// setQuery answers the query state.
func (r *runner) setQuery(ctx workflow.Context) error {
	return workflow.SetQueryHandlerWithOptions(ctx, contract.QueryState, func() (contract.StateView, error) {
		return r.view(), nil
	}, workflow.QueryHandlerOptions{Description: "The state of the run."})
}

func (r *runner) view() contract.StateView {
	v := contract.StateView{Run: r.in.Run, Phase: r.phase, Result: r.written.Result, Reason: r.written.Reason, Batches: r.batches.views()}
	if r.graph == nil {
		return v
	}
	v.Counts = map[run.Status]int{}
	for _, s := range run.Statuses() {
		if n := r.graph.Count(s); n > 0 {
			v.Counts[s] = n
		}
	}
	v.Failed = r.taskNames(run.StatusFailed, contract.MaxViewTasks)
	for task := 0; task < r.graph.Len() && len(v.Open) < contract.MaxViewTasks; task++ {
		if s := r.graph.Status(task); !s.Final() {
			v.Open = append(v.Open, r.taskSet.view(task, r.graph.Name(task), s))
		}
	}
	return v
}

// view describes a task, with the state of its task run if there is one.
func (c *taskSet) view(task int, name string, status run.Status) contract.TaskView {
	v := contract.TaskView{Task: task, Name: name, Status: status}
	if j := c.taskRuns[task]; j != nil {
		v.Attempt, v.Dispatch, v.Executor = j.Attempt, j.Dispatch, j.holder
	}
	return v
}

// setQuery answers the query state.
func (b *batchRunner) setQuery(ctx workflow.Context) error {
	return workflow.SetQueryHandlerWithOptions(ctx, contract.QueryState, func() (contract.StateView, error) {
		return b.view(), nil
	}, workflow.QueryHandlerOptions{Description: "The tasks of the batch that did not end."})
}

func (b *batchRunner) view() contract.StateView {
	v := contract.StateView{Run: b.in.Run, Phase: run.PhaseRunning, Counts: map[run.Status]int{run.StatusQueued: len(b.taskSet.taskRuns)}}
	b.taskSet.each(func(j *taskRun) {
		if len(v.Open) < contract.MaxViewTasks {
			v.Open = append(v.Open, b.taskSet.view(j.Task, j.Name, run.StatusQueued))
		}
	})
	return v
}
