package runs

import (
	"context"

	"github.com/drover-run/drover/records/internal/sqlstore/rows"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// recordAction records the call that changes a locked run, and names it in the
// event of the change. If the change has no event, the action gets one of its own.
func recordAction(ctx context.Context, t *sqldb.Tx, r *rows.Run, kind run.ActionKind) error {
	actor := run.ActorOf(ctx)
	if !t.Attribute(r.ID, kind, actor) {
		e := r.Event(t.Now)
		e.Action, e.Actor = kind, actor
		t.Emit(e)
	}
	return insertAction(ctx, t, r.ID, run.Action{Kind: kind, Actor: actor})
}

// recordDecision records the call that approves or rejects a task of a locked run,
// with an event of the task.
func recordDecision(ctx context.Context, t *sqldb.Tx, r *rows.Run, x *rows.Task, a run.Action) error {
	e := x.Event(r, t.Now)
	e.Action, e.Actor = a.Kind, a.Actor
	t.Emit(e)
	a.Task = x.Name
	return insertAction(ctx, t, r.ID, a)
}

func insertAction(ctx context.Context, t *sqldb.Tx, id run.ID, a run.Action) error {
	// The run is locked, so no other transaction takes the number.
	var last int
	if err := t.QueryRow(ctx, `SELECT COALESCE(MAX(number), 0) FROM run_actions WHERE run_id = ?`, id).Scan(&last); err != nil {
		return err
	}
	_, err := t.Exec(ctx, `INSERT INTO run_actions (run_id, number, at, action, actor, task, reason) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		id, last+1, t.Now, a.Kind, a.Actor, a.Task, sqldb.Clip(a.Reason))
	return err
}

func queryActions(ctx context.Context, q sqldb.Querier, id run.ID) ([]run.Action, error) {
	var out []run.Action
	err := sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
		var a run.Action
		var at int64
		err := row.Scan(&at, &a.Kind, &a.Actor, &a.Task, &a.Reason)
		a.Time = sqldb.ToTime(at)
		out = append(out, a)
		return err
	}, `SELECT at, action, actor, task, reason FROM run_actions WHERE run_id = ? ORDER BY number`, id)
	return out, err
}
