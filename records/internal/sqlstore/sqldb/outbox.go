package sqldb

import (
	"context"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// Enqueue appends an outbox row.
func (t *Tx) Enqueue(ctx context.Context, id run.ID, kind records.OutboxKind, task int) error {
	t.Commit.Outbox = true
	_, err := t.Exec(ctx, `INSERT INTO outbox (run_id, kind, task, created_at, due_at) VALUES (?, ?, ?, ?, ?)`,
		id, kind, task, t.Now, t.Now)
	return err
}

// EnqueueOnce appends an outbox row unless one of the same kind waits: repairs are repeated, and
// the rows must not grow while Temporal is away.
func (t *Tx) EnqueueOnce(ctx context.Context, id run.ID, kind records.OutboxKind) error {
	var waits bool
	if err := t.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM outbox WHERE run_id = ? AND kind = ?)`, id, kind).Scan(&waits); err != nil || waits {
		return err
	}
	return t.Enqueue(ctx, id, kind, 0)
}

// GroupKey is the prefix of a change group's name in the column of run ids of
// the outbox.
const GroupKey = "changegroup:"

// ExecutorKey is the prefix of an executor's id in the column of run ids of the
// outbox.
const ExecutorKey = "executor:"

// FleetKey is the prefix of a fleet's name in the column of run ids of the
// outbox, and among watched ids.
const FleetKey = "fleet:"

// WebhookKey is the prefix of a webhook's name in the column of run ids of the
// outbox, and among watched ids.
const WebhookKey = "webhook:"
