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

func (t *Tx) appendEvents(ctx context.Context) error {
	if len(t.events) == 0 {
		return nil
	}
	t.Commit.Events = true
	return Bulk(ctx, t, `INSERT INTO events (type, at, run_id, group_path, phase, result, reason, task, status, attempt, executor, exit_code) VALUES `,
		`(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, ``, len(t.events), func(i int, args []any) []any {
			e := &t.events[i]
			return append(args, e.Type, e.Time.UnixNano(), e.Run, e.Group, e.Phase, e.Result, e.Reason, e.Task, e.Status, e.Attempt,
				e.Executor, e.ExitCode)
		})
}
