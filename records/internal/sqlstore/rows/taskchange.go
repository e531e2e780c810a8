package rows

import (
	"cmp"
	"context"
	"database/sql"

	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// CloseTasks makes all unfinished tasks final with the status and reason of
// end.
func CloseTasks(ctx context.Context, t *sqldb.Tx, r *Run, tasks []Task, end func(*Task) (run.Status, string)) error {
	var changed []*Task
	for i := range tasks {
		x := &tasks[i]
		if x.Status.Final() {
			continue
		}
		prev := x.Status
		x.Status, x.Reason = end(x)
		x.Ended = t.Now
		if err := x.closeSteps(t.Now); err != nil {
			return err
		}
		r.Counts.Move(prev, x.Status)
		changed = append(changed, x)
		t.Emit(x.Event(r, t.Now))
	}
	return SaveTasks(ctx, t, r.ID, changed)
}

// closeSteps ends the running steps of a task that is final: no frame will end
// them.
func (t *Task) closeSteps(now int64) error {
	if t.Steps == "" {
		return nil
	}
	var steps []run.StepResult
	if err := sqldb.Unmarshal(t.Steps, &steps); err != nil {
		return err
	}
	for i := range steps {
		if steps[i].Status == run.StatusRunning {
			steps[i].Status, steps[i].Ended = run.StatusStopped, sqldb.ToTime(now)
			if t.Status == run.StatusFailed {
				steps[i].Status = run.StatusFailed
			}
		}
	}
	var err error
	t.Steps, err = sqldb.Marshal(steps)
	return err
}

// rank orders statuses within one dispatch: a task never goes back.
func rank(s run.Status) int {
	switch s {
	case run.StatusNotStarted:
		return 0
	case run.StatusWaitingApproval:
		return 1
	case run.StatusWaitingChangeGroup:
		return 2
	case run.StatusQueued:
		return 3
	case run.StatusRunning:
		return 4
	case run.StatusSuccess, run.StatusFailed, run.StatusSkipped, run.StatusCancelled, run.StatusStopped:
		return 5
	}
	return 0
}

// Apply makes one change, unless the stored state is final or further on.
func (t *Task) Apply(c *run.TaskChange, now int64) error {
	newer := t.OlderThan(c.Attempt, c.Dispatch)
	switch {
	case t.Status.Final():
		return nil
	case c.IfUnclaimed && c.Status != run.StatusQueued && t.Status == run.StatusRunning:
		return nil
	case !newer && (t.Attempt != c.Attempt || t.Dispatch != c.Dispatch):
		return nil
	case !newer && rank(c.Status) < rank(t.Status):
		return nil
	}
	if c.Executor != "" && c.Status == run.StatusRunning && c.Reason == "" && !newer && t.Status == run.StatusRunning {
		// The change only names the executor of the task; the reason of its
		// silence stays.
		t.Executor = cmp.Or(t.Executor, c.Executor)
		return nil
	}
	if newer {
		t.Redispatch(c.Attempt, c.Dispatch)
	}
	if newer || c.Status == run.StatusQueued && t.Status != run.StatusQueued {
		t.Queued = now
	}
	t.Status, t.Reason = c.Status, sqldb.Clip(c.Reason)
	if t.Status == run.StatusRunning {
		t.Executor = cmp.Or(t.Executor, c.Executor)
	}
	if c.Result != nil {
		if err := t.setResult(c.Result); err != nil {
			return err
		}
	}
	if !t.Status.Final() {
		return nil
	}
	if t.Ended == 0 {
		t.Ended = now
	}
	return t.closeSteps(now)
}

// Redispatch clears the state of an earlier dispatch of a task.
func (t *Task) Redispatch(attempt, dispatch int) {
	t.TaskState = TaskState{Status: t.Status, Reason: t.Reason, Attempt: attempt, Dispatch: dispatch}
}

// setResult writes the result of a task.
func (t *Task) setResult(result *run.TaskResult) error {
	if t.Reason == "" {
		t.Reason = sqldb.Clip(result.Reason)
	}
	t.exitCode, t.timedOut, t.cause = sql.NullInt64{}, result.TimedOut, result.Cause
	if result.ExitCode != nil {
		t.exitCode = sql.NullInt64{Int64: int64(*result.ExitCode), Valid: true}
	}
	if t.Started == 0 {
		t.Started = sqldb.FromTime(result.Started)
	}
	t.Ended = sqldb.FromTime(result.Ended)
	if len(result.Steps) == 0 {
		return nil
	}
	var err error
	t.Steps, err = sqldb.Marshal(result.Steps)
	return err
}
