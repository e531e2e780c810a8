package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/drover-run/drover/internal/truncate"
	"github.com/drover-run/drover/run"
)

// taskRow is a row of the table tasks.
type taskRow struct {
	number      int
	node        int
	name        string
	specName    string
	axis        string
	pool        string
	annotations string
	taskState
	stored taskState // as in the database
}

// taskState is the part of a task that changes while it runs.
type taskState struct {
	status   run.Status
	reason   string
	executor string
	attempt  int
	dispatch int
	exitCode sql.NullInt64
	timedOut bool
	queued   int64
	started  int64
	ended    int64
	steps    string // JSON of []run.StepResult
}

const taskColumns = `number, node, name, spec_name, axis, pool, annotations, status, reason, executor, attempt, dispatch,
	exit_code, timed_out, queued_at, started_at, ended_at, steps`

func (t *taskRow) scan(row scanner) error {
	err := row.Scan(&t.number, &t.node, &t.name, &t.specName, &t.axis, &t.pool, &t.annotations, &t.status, &t.reason, &t.executor,
		&t.attempt, &t.dispatch, &t.exitCode, &t.timedOut, &t.queued, &t.started, &t.ended, &t.steps)
	t.stored = t.taskState
	return err
}

// taskNamed and taskNumbered read one task. Errors: not_found.
func taskNamed(ctx context.Context, q Querier, id run.ID, name string) (*taskRow, error) {
	var t taskRow
	err := t.scan(q.QueryRow(ctx, `SELECT `+taskColumns+` FROM tasks WHERE run_id = ? AND name = ?`, id, name))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, run.Errorf(run.CodeNotFound, "run %s has no task %s", id, name)
	}
	return &t, err
}

func taskNumbered(ctx context.Context, q Querier, id run.ID, number int) (*taskRow, error) {
	var t taskRow
	err := t.scan(q.QueryRow(ctx, `SELECT `+taskColumns+` FROM tasks WHERE run_id = ? AND number = ?`, id, number))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, run.Errorf(run.CodeNotFound, "run %s has no task %d", id, number)
	}
	return &t, err
}

// queryTasks reads the tasks of a run that the rest of the statement selects.
func queryTasks(ctx context.Context, q Querier, where string, args ...any) ([]taskRow, error) {
	rows, err := q.Query(ctx, `SELECT `+taskColumns+` FROM tasks WHERE `+where, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []taskRow
	for rows.Next() {
		var t taskRow
		if err := t.scan(rows); err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, rows.Err()
}

// saveTasks writes the states of tasks of one run.
func (t *tx) saveTasks(ctx context.Context, id run.ID, tasks []*taskRow) error {
	const set = `status = ?, reason = ?, executor = ?, attempt = ?, dispatch = ?, exit_code = ?, timed_out = ?,
		queued_at = ?, started_at = ?, ended_at = ?, steps = ?`
	for _, x := range tasks {
		t.observeTask(x)
	}
	if len(tasks) < someRows {
		for _, x := range tasks {
			if _, err := t.Exec(ctx, `UPDATE tasks SET `+set+` WHERE run_id = ? AND number = ?`, x.status, x.reason, x.executor,
				x.attempt, x.dispatch, x.exitCode, x.timedOut, x.queued, x.started, x.ended, x.steps, id, x.number); err != nil {
				return err
			}
		}
		return nil
	}
	// The casts give PostgreSQL the types of the parameters.
	const tuple = `(CAST(? AS TEXT), CAST(? AS INTEGER), CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS INTEGER), CAST(? AS INTEGER),
		CAST(? AS INTEGER), CAST(? AS BOOLEAN), CAST(? AS BIGINT), CAST(? AS BIGINT), CAST(? AS BIGINT), CAST(? AS TEXT))`
	return bulk(ctx, t, `WITH v (run_id, number, status, reason, executor, attempt, dispatch, exit_code, timed_out, queued_at, started_at, ended_at, steps)
		AS (VALUES `, tuple, `) UPDATE tasks SET status = v.status, reason = v.reason, executor = v.executor, attempt = v.attempt,
		dispatch = v.dispatch, exit_code = v.exit_code, timed_out = v.timed_out, queued_at = v.queued_at, started_at = v.started_at,
		ended_at = v.ended_at, steps = v.steps FROM v WHERE tasks.run_id = v.run_id AND tasks.number = v.number`,
		len(tasks), func(i int, args []any) []any {
			x := tasks[i]
			return append(args, id, x.number, x.status, x.reason, x.executor, x.attempt, x.dispatch, x.exitCode, x.timedOut,
				x.queued, x.started, x.ended, x.steps)
		})
}

// task returns the client view of a task. spec is the one of its node.
func (t *taskRow) task(spec *run.TaskSpec) (run.Task, error) {
	if spec == nil {
		return run.Task{}, run.Errorf(run.CodeInternal, "task %s has no specification", t.name)
	}
	out := run.Task{
		Number: t.number, Name: t.name, Status: t.status, AllowFailure: spec.AllowFailure, Reason: t.reason, Pool: t.pool,
		Executor: t.executor, Attempt: t.attempt, Dispatch: t.dispatch, TimedOut: t.timedOut, QueuedAt: toTime(t.queued), StartedAt: toTime(t.started),
		EndedAt: toTime(t.ended), Depends: spec.Depends, Approval: spec.Approval,
	}
	if t.exitCode.Valid {
		code := int(t.exitCode.Int64)
		out.ExitCode = &code
	}
	if err := unmarshal(t.annotations, &out.Annotations); err != nil {
		return out, err
	}
	var results []run.StepResult
	if err := unmarshal(t.steps, &results); err != nil {
		return out, err
	}
	out.Steps = make([]run.StepState, len(spec.Steps))
	for i, step := range spec.Steps {
		out.Steps[i] = run.StepState{Name: step.Name, Type: step.Type(), StepResult: run.StepResult{Status: run.StatusNotStarted}}
		if i < len(results) && results[i].Status != "" {
			out.Steps[i].StepResult = results[i]
		}
	}
	return out, nil
}

func (t *taskRow) event(r *runRow, at int64) run.Event {
	e := run.Event{
		Type: run.EventTask, Time: toTime(at), Run: r.id, Group: r.group, Phase: r.phase, Result: r.result, Reason: t.reason,
		Task: t.name, Status: t.status, Attempt: t.attempt, Executor: t.executor,
	}
	if t.exitCode.Valid {
		code := int(t.exitCode.Int64)
		e.ExitCode = &code
	}
	return e
}

// olderThan reports whether the state is of an earlier attempt or dispatch.
func (s *taskState) olderThan(attempt, dispatch int) bool {
	return s.attempt < attempt || s.attempt == attempt && s.dispatch < dispatch
}

// clip makes a reason storable: it cuts it to run.MaxReason and removes invalid
// characters.
func clip(reason string) string {
	reason = truncate.String(reason, run.MaxReason, "")
	return strings.ReplaceAll(strings.ToValidUTF8(reason, ""), "\x00", "")
}
