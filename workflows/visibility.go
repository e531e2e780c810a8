package workflows

import (
	"strconv"
	"strings"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// visibility holds the run's state as Temporal's visibility store and web UI show
// it. Setting a search attribute costs an event and a write, so it is set only
// if it differs from the current value. The process that starts the workflow
// sets the first values.
type visibility struct {
	phase  string
	result string
	counts string
}

var (
	phaseKey  = temporal.NewSearchAttributeKeyKeyword(contract.AttributePhase)
	resultKey = temporal.NewSearchAttributeKeyKeyword(contract.AttributeResult)
)

// load reads the current values.
func (b *visibility) load(ctx workflow.Context) {
	current := workflow.GetTypedSearchAttributes(ctx)
	b.phase, _ = current.GetKeyword(phaseKey)
	b.result, _ = current.GetKeyword(resultKey)
}

// publish updates the attributes and details that have changed.
func (r *runner) publish(ctx workflow.Context) {
	var updates []temporal.SearchAttributeUpdate
	if phase := string(r.phase); phase != r.visibility.phase {
		updates = append(updates, phaseKey.ValueSet(phase))
		r.visibility.phase = phase
	}
	if result := string(r.written.Result); result != r.visibility.result && r.written.Result != run.ResultUnknown {
		updates = append(updates, resultKey.ValueSet(result))
		r.visibility.result = result
	}
	if len(updates) > 0 {
		if err := workflow.UpsertTypedSearchAttributes(ctx, updates...); err != nil {
			r.log.Warn("failed to publish the state of the run", "error", err)
		}
	}
	if r.graph == nil {
		return
	}
	if counts := r.counts(); counts != r.visibility.counts {
		r.visibility.counts = counts
		workflow.SetCurrentDetails(ctx, r.details())
	}
}

// counts returns the state in a form that is cheap to compare.
func (r *runner) counts() string {
	var s strings.Builder
	s.WriteString(string(r.phase))
	for _, status := range run.Statuses() {
		s.WriteString(" " + strconv.Itoa(r.graph.Count(status)))
	}
	return s.String()
}

// maxDetailTasks limits the failed tasks that the details name.
const maxDetailTasks = 20

// details describes the run in Markdown.
func (r *runner) details() string {
	var s strings.Builder
	s.WriteString("**" + r.plan.Name + "** `" + string(r.in.Run) + "` is " + string(r.phase))
	if r.written.Result != run.ResultUnknown {
		s.WriteString(", result **" + string(r.written.Result) + "**")
	}
	if r.written.Reason != "" {
		s.WriteString(" (" + r.written.Reason + ")")
	}
	s.WriteString("\n\n")
	for _, status := range run.Statuses() {
		if n := r.graph.Count(status); n > 0 {
			s.WriteString("- " + strings.ReplaceAll(string(status), "_", " ") + ": " + strconv.Itoa(n) + "\n")
		}
	}
	if n := r.graph.Len() - r.open; n > 0 {
		s.WriteString("- kept by the restart: " + strconv.Itoa(n) + "\n")
	}
	if failed := r.taskNames(run.StatusFailed, maxDetailTasks); len(failed) > 0 {
		s.WriteString("\nFailed: " + strings.Join(failed, ", ") + "\n")
	}
	return s.String()
}

// taskNames returns the names of up to n tasks with a status.
func (r *runner) taskNames(status run.Status, n int) []string {
	if r.graph.Count(status) == 0 {
		return nil
	}
	var names []string
	for task := 0; task < r.graph.Len() && len(names) < n; task++ {
		if r.graph.Status(task) == status {
			names = append(names, r.graph.Name(task))
		}
	}
	return names
}

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
