package workflows

import (
	"strconv"
	"strings"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/internal/truncate"
	"github.com/drover-run/drover/run"
)

// visibility holds the run's state as Temporal's visibility store and web UI show
// it, until the workflow closes with the outcome of the run. Setting a search attribute costs an event and a write, so it is set only
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
	s.WriteString(string(r.phase) + " " + string(r.written.Result) + " " + r.written.Reason)
	for _, status := range run.Statuses() {
		s.WriteString(" " + strconv.Itoa(r.graph.Count(status)))
	}
	return s.String()
}

// maxDetailTasks and maxDetailName limit the failed tasks that the details name,
// and the bytes of each name. The details must stay far below the 20,000 bytes
// that Temporal accepts.
const (
	maxDetailTasks = 20
	maxDetailName  = 150
)

// details describes the run in Markdown. It is sent only if a client asks, so
// it adds nothing to the history. Of the texts that a user wrote, it has the
// names of the run and of its tasks only.
func (r *runner) details() string {
	var s strings.Builder
	id := string(r.in.Run)
	s.WriteString("Run " + span(r.plan.Name) + " is " + string(r.phase))
	if r.written.Result != run.ResultUnknown {
		s.WriteString(", result **" + string(r.written.Result) + "**")
	}
	if r.written.Reason != "" {
		s.WriteString(": " + span(r.written.Reason))
	}
	s.WriteString("\n\n| status | tasks |\n|---|---:|\n")
	for _, status := range run.Statuses() {
		if n := r.graph.Count(status); n > 0 {
			s.WriteString("| " + statusText(status) + " | " + strconv.Itoa(n) + " |\n")
		}
	}
	if n := r.graph.Len() - r.open; n > 0 {
		s.WriteString("| kept by the restart | " + strconv.Itoa(n) + " |\n")
	}
	if failed := r.taskNames(run.StatusFailed, maxDetailTasks); len(failed) > 0 {
		s.WriteString("\nFailed:")
		for _, name := range failed {
			s.WriteString(" " + span(name))
		}
		if more := r.graph.Count(run.StatusFailed) - len(failed); more > 0 {
			s.WriteString(" and " + strconv.Itoa(more) + " more")
		}
		s.WriteString("\n")
	}
	s.WriteString("\n```\ndrover runs get " + id + "\n")
	if !r.phase.Final() || r.written.Result == run.ResultFailed {
		s.WriteString("drover runs explain " + id + "\n")
	}
	if r.phase.Final() && (r.written.Result == run.ResultFailed || r.written.Result == run.ResultStopped) {
		s.WriteString("drover runs restart " + id + " --from failed\n")
	}
	s.WriteString("```\n")
	return s.String()
}

// statusText names a status. The records know which of the queued tasks run; the
// workflow does not.
func statusText(s run.Status) string {
	if s == run.StatusQueued {
		return "queued or running"
	}
	return strings.ReplaceAll(string(s), "_", " ")
}

// span returns a text, shortened, as a span of code: Markdown interprets nothing
// in it.
func span(s string) string {
	plain := func(r rune) rune {
		switch r {
		case '`':
			return '\''
		case '\n', '\r':
			return ' '
		}
		return r
	}
	return "`" + truncate.String(strings.Map(plain, s), maxDetailName, "...") + "`"
}

// changeClose is the change ID of workflows that close with the outcome of
// their run: before, all of them completed.
const changeClose = "close-with-the-result"

// close returns with what the workflow closes, so that Temporal's own lists are
// right. The workflow of a run that failed, or that could not be set up, fails;
// that of a run which was stopped or cancelled closes as cancelled; with or
// without warnings, a run that succeeded completes. The output is the detail of
// the error. The error is benign: a failed run is no fault of the worker, so it
// does not count in the metric of failed workflows.
func (r *runner) close(ctx workflow.Context) (contract.RunOutput, error) {
	out := contract.RunOutput{Phase: r.phase, Result: r.written.Result, Reason: r.written.Reason}
	failed := out.Phase == run.PhaseSetupError || out.Phase == run.PhaseFinished && out.Result == run.ResultFailed
	stopped := out.Phase == run.PhaseCancelled || out.Phase == run.PhaseFinished && out.Result == run.ResultStopped
	if !failed && !stopped || workflow.GetVersion(ctx, changeClose, workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		return out, nil
	}
	if stopped {
		return contract.RunOutput{}, temporal.NewCanceledError(out)
	}
	message := out.Reason
	switch {
	case out.Phase == run.PhaseSetupError:
		message = "the run could not be set up"
	case message == "":
		message = "the run failed"
	}
	return contract.RunOutput{}, runFailed(message, out)
}

// runFailed returns the error with which the workflow of a failed run closes, and
// that of a firing whose run failed.
func runFailed(message string, details ...any) error {
	return temporal.NewApplicationErrorWithOptions(message, contract.ErrorRunFailed, temporal.ApplicationErrorOptions{
		NonRetryable: true, Category: temporal.ApplicationErrorCategoryBenign, Details: details,
	})
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
