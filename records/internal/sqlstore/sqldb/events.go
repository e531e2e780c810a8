package sqldb

import (
	"context"

	"github.com/drover-run/drover/run"
)

// Emit adds an event to the transaction.
func (t *Tx) Emit(e run.Event) {
	t.MarkChanged(e.Run)
	t.events = append(t.events, e)
}

// Attribute names the call of a client that causes the last event of a run in the
// transaction. It reports false if the run has no event.
func (t *Tx) Attribute(id run.ID, kind run.ActionKind, actor string) bool {
	for i := len(t.events) - 1; i >= 0; i-- {
		if e := &t.events[i]; e.Type == run.EventRun && e.Run == id {
			e.Action, e.Actor = kind, actor
			return true
		}
	}
	return false
}

func (t *Tx) appendEvents(ctx context.Context) error {
	if len(t.events) == 0 {
		return nil
	}
	t.Commit.Events = true
	return Bulk(ctx, t, `INSERT INTO events (type, at, run_id, group_path, phase, result, reason, task, status, attempt, executor, exit_code,
		action, actor, stage, failed_tasks) VALUES `,
		`(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, ``, len(t.events), func(i int, args []any) []any {
			e := &t.events[i]
			return append(args, e.Type, e.Time.UnixNano(), e.Run, e.Group, e.Phase, e.Result, e.Reason, e.Task, e.Status, e.Attempt,
				e.Executor, e.ExitCode, e.Action, e.Actor, e.Stage, e.FailedTasks)
		})
}
