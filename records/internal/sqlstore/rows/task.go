package rows

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// Task is a row of the table tasks.
type Task struct {
	Number      int
	Node        int
	Name        string
	SpecName    string
	Axis        string
	Pool        string
	Annotations string
	// Conditions is "" if the task has none, ConditionsOpen until they are
	// evaluated, and then the decision as JSON.
	Conditions string
	// Labels are those that its executor must have itself, as JSON, "" for none.
	Labels  string
	Finally bool // it begins when all tasks without it have ended
	TaskState
	stored TaskState // as in the database
}

// ConditionsOpen says that the conditions of a task are not evaluated yet.
const ConditionsOpen = "open"

// TaskState is the part of a task that changes while it runs.
type TaskState struct {
	Status   run.Status
	Reason   string
	Executor string
	Attempt  int
	Dispatch int
	exitCode sql.NullInt64
	timedOut bool
	cause    run.Cause
	Queued   int64
	Started  int64
	Ended    int64
	Steps    string // JSON of []run.StepResult
}

const taskColumns = `number, node, name, spec_name, axis, pool, annotations, conditions, labels, finally, status, reason, executor, attempt, dispatch,
	exit_code, timed_out, cause, queued_at, started_at, ended_at, steps`

func (t *Task) scan(row sqldb.Scanner) error {
	err := row.Scan(&t.Number, &t.Node, &t.Name, &t.SpecName, &t.Axis, &t.Pool, &t.Annotations, &t.Conditions, &t.Labels, &t.Finally, &t.Status, &t.Reason, &t.Executor,
		&t.Attempt, &t.Dispatch, &t.exitCode, &t.timedOut, &t.cause, &t.Queued, &t.Started, &t.Ended, &t.Steps)
	t.stored = t.TaskState
	return err
}

// TaskNamed reads the task with a name. Errors: not_found.
func TaskNamed(ctx context.Context, q sqldb.Querier, id run.ID, name string) (*Task, error) {
	var t Task
	err := t.scan(q.QueryRow(ctx, `SELECT `+taskColumns+` FROM tasks WHERE run_id = ? AND name = ?`, id, name))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, run.Errorf(run.CodeNotFound, "run %s has no task %s", id, name)
	}
	return &t, err
}

// TaskNumbered reads the task with a number. Errors: not_found.
func TaskNumbered(ctx context.Context, q sqldb.Querier, id run.ID, number int) (*Task, error) {
	var t Task
	err := t.scan(q.QueryRow(ctx, `SELECT `+taskColumns+` FROM tasks WHERE run_id = ? AND number = ?`, id, number))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, run.Errorf(run.CodeNotFound, "run %s has no task %d", id, number)
	}
	return &t, err
}

// QueryTasks reads the tasks of a run that the rest of the statement selects.
func QueryTasks(ctx context.Context, q sqldb.Querier, where string, args ...any) ([]Task, error) {
	rows, err := q.Query(ctx, `SELECT `+taskColumns+` FROM tasks WHERE `+where, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Task
	for rows.Next() {
		var t Task
		if err := t.scan(rows); err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, rows.Err()
}

// SaveTasks writes the states of tasks of one run.
func SaveTasks(ctx context.Context, t *sqldb.Tx, id run.ID, tasks []*Task) error {
	const set = `status = ?, reason = ?, executor = ?, attempt = ?, dispatch = ?, exit_code = ?, timed_out = ?, cause = ?,
		queued_at = ?, started_at = ?, ended_at = ?, steps = ?`
	for _, x := range tasks {
		observeTask(t, x)
	}
	if len(tasks) < sqldb.SomeRows {
		for _, x := range tasks {
			if _, err := t.Exec(ctx, `UPDATE tasks SET `+set+` WHERE run_id = ? AND number = ?`, x.Status, x.Reason, x.Executor,
				x.Attempt, x.Dispatch, x.exitCode, x.timedOut, x.cause, x.Queued, x.Started, x.Ended, x.Steps, id, x.Number); err != nil {
				return err
			}
		}
		return nil
	}
	// The casts give PostgreSQL the types of the parameters.
	const tuple = `(CAST(? AS TEXT), CAST(? AS INTEGER), CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS INTEGER), CAST(? AS INTEGER),
		CAST(? AS INTEGER), CAST(? AS BOOLEAN), CAST(? AS TEXT), CAST(? AS BIGINT), CAST(? AS BIGINT), CAST(? AS BIGINT), CAST(? AS TEXT))`
	return sqldb.Bulk(ctx, t, `WITH v (run_id, number, status, reason, executor, attempt, dispatch, exit_code, timed_out, cause, queued_at, started_at, ended_at, steps)
		AS (VALUES `, tuple, `) UPDATE tasks SET status = v.status, reason = v.reason, executor = v.executor, attempt = v.attempt,
		dispatch = v.dispatch, exit_code = v.exit_code, timed_out = v.timed_out, cause = v.cause, queued_at = v.queued_at, started_at = v.started_at,
		ended_at = v.ended_at, steps = v.steps FROM v WHERE tasks.run_id = v.run_id AND tasks.number = v.number`,
		len(tasks), func(i int, args []any) []any {
			x := tasks[i]
			return append(args, id, x.Number, x.Status, x.Reason, x.Executor, x.Attempt, x.Dispatch, x.exitCode, x.timedOut, x.cause,
				x.Queued, x.Started, x.Ended, x.Steps)
		})
}

// Task returns the client view of a task. spec is the one of its node.
func (t *Task) Task(spec *run.TaskSpec) (run.Task, error) {
	if spec == nil {
		return run.Task{}, run.Errorf(run.CodeInternal, "task %s has no specification", t.Name)
	}
	out := run.Task{
		Number: t.Number, Name: t.Name, Status: t.Status, AllowFailure: spec.AllowFailure, Finally: spec.Finally, Reason: t.Reason, Pool: t.Pool,
		Executor: t.Executor, Attempt: t.Attempt, Dispatch: t.Dispatch, TimedOut: t.timedOut, QueuedAt: sqldb.ToTime(t.Queued), StartedAt: sqldb.ToTime(t.Started),
		EndedAt: sqldb.ToTime(t.Ended), Depends: spec.Depends, MaxParallel: spec.MaxParallel, Approval: spec.Approval, ChangeGroups: spec.ChangeGroups,
	}
	if t.exitCode.Valid {
		code := int(t.exitCode.Int64)
		out.ExitCode = &code
	}
	if t.Status == run.StatusFailed {
		out.Cause = t.cause
	}
	if err := errors.Join(sqldb.Unmarshal(t.Annotations, &out.Annotations), sqldb.Unmarshal(t.Labels, &out.Labels)); err != nil {
		return out, err
	}
	var results []run.StepResult
	if err := sqldb.Unmarshal(t.Steps, &results); err != nil {
		return out, err
	}
	out.Steps = make([]run.StepState, len(spec.Steps))
	for i, step := range spec.Steps {
		out.Steps[i] = run.StepState{Name: step.Name, Type: step.Type(), StepResult: run.StepResult{Status: run.StatusNotStarted}}
		if i < len(results) && results[i].Status != "" {
			out.Steps[i].StepResult = results[i]
		}
	}
	out.Stage = run.CurrentStage(&out)
	if out.Reason == "" {
		out.Reason = run.HoldReason(spec, &out)
	}
	return out, nil
}

// Event returns the event of the task's status.
func (t *Task) Event(r *Run, at int64) run.Event {
	e := run.Event{
		Type: run.EventTask, Time: sqldb.ToTime(at), Run: r.ID, Group: r.Group, Phase: r.Phase, Result: r.Result, Reason: t.Reason,
		Task: t.Name, Status: t.Status, Attempt: t.Attempt, Executor: t.Executor,
	}
	if t.exitCode.Valid {
		code := int(t.exitCode.Int64)
		e.ExitCode = &code
	}
	if t.Status == run.StatusRunning {
		var steps []run.StepResult
		_ = sqldb.Unmarshal(t.Steps, &steps) // a read of the task reports the error
		e.Stage = run.LatestStage(steps)
	}
	return e
}

// OlderThan reports whether the state is of an earlier attempt or dispatch.
func (s *TaskState) OlderThan(attempt, dispatch int) bool {
	return s.Attempt < attempt || s.Attempt == attempt && s.Dispatch < dispatch
}

// FinalStatuses returns the statuses that a task does not leave.
func FinalStatuses() []run.Status {
	return slices.DeleteFunc(run.Statuses(), func(s run.Status) bool { return !s.Final() })
}

// TaskSpecs returns the specifications of a run's tasks by node.
func TaskSpecs(ctx context.Context, q sqldb.Querier, id run.ID) (map[int]*run.TaskSpec, error) {
	specs := make(map[int]*run.TaskSpec)
	err := sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
		var node int
		var text string
		if err := row.Scan(&node, &text); err != nil {
			return err
		}
		spec := new(run.TaskSpec)
		specs[node] = spec
		return sqldb.Unmarshal(text, spec)
	}, `SELECT node, spec FROM task_specs WHERE run_id = ?`, id)
	return specs, err
}

// TaskSpec returns the specification of the tasks of a node.
func TaskSpec(ctx context.Context, q sqldb.Querier, id run.ID, node int) (*run.TaskSpec, error) {
	var text string
	if err := q.QueryRow(ctx, `SELECT spec FROM task_specs WHERE run_id = ? AND node = ?`, id, node).Scan(&text); err != nil {
		return nil, err
	}
	spec := new(run.TaskSpec)
	return spec, sqldb.Unmarshal(text, spec)
}
