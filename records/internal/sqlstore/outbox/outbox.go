package outbox

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// TakeOutbox implements records.Store.
func (s *Store) TakeOutbox(ctx context.Context, n int, lease time.Duration) ([]records.OutboxRow, error) {
	// Reading costs less than locking, and mostly no row is due.
	if due, err := s.outboxDue(ctx); err != nil || !due {
		return nil, err
	}
	var out []records.OutboxRow
	err := s.db.Write(ctx, "take outbox rows", func(t *sqldb.Tx) error {
		out = nil
		err := sqldb.Each(ctx, t, func(row sqldb.Scanner) error {
			var o records.OutboxRow
			var created int64
			if err := row.Scan(&o.ID, &o.Run, &o.Kind, &o.Task, &o.Attempts, &created, &o.Executor, &o.Reason); err != nil {
				return err
			}
			o.Created = sqldb.ToTime(created)
			if name, ok := strings.CutPrefix(string(o.Run), sqldb.GroupKey); ok {
				o.Run, o.ChangeGroup = "", name
			}
			if name, ok := strings.CutPrefix(string(o.Run), sqldb.WebhookKey); ok {
				o.Run, o.Webhook = "", name
			}
			if id, ok := strings.CutPrefix(string(o.Run), sqldb.ExecutorKey); ok {
				o.Run, o.Executor = "", id
			}
			if name, ok := strings.CutPrefix(string(o.Run), sqldb.FleetKey); ok {
				o.Run, o.Fleet = "", name
			}
			out = append(out, o)
			return nil
		}, `WITH due AS (
				SELECT o.id FROM outbox o WHERE o.due_at <= ?
				AND NOT EXISTS (SELECT 1 FROM outbox p WHERE p.run_id = o.run_id AND p.id < o.id)
				ORDER BY o.due_at, o.id LIMIT ?`+t.Dialect.SkipLocked+`)
			UPDATE outbox SET due_at = ?, attempts = attempts + 1 WHERE id IN (SELECT id FROM due)
			RETURNING id, run_id, kind, task, attempts, created_at, executor, reason`, t.Now, n, t.Now+int64(lease))
		slices.SortFunc(out, func(a, b records.OutboxRow) int { return int(a.ID - b.ID) })
		return err
	})
	return out, err
}

func (s *Store) outboxDue(ctx context.Context) (due bool, err error) {
	err = s.db.Read(ctx, "check the outbox", func(q sqldb.Querier) error {
		return q.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM outbox WHERE due_at <= ?)`, s.db.Now().UnixNano()).Scan(&due)
	})
	return due, err
}

// CompleteOutbox implements records.Store.
func (s *Store) CompleteOutbox(ctx context.Context, id int64) error {
	return s.db.Write(ctx, "complete an outbox row", func(t *sqldb.Tx) error {
		var owner run.ID
		err := t.QueryRow(ctx, `DELETE FROM outbox WHERE id = ? RETURNING run_id`, id).Scan(&owner)
		if errors.Is(err, sql.ErrNoRows) {
			return nil // completed before, or deleted with its run
		}
		if err != nil {
			return err
		}
		// The next row of the run may be taken from now on.
		return t.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM outbox WHERE run_id = ?)`, owner).Scan(&t.Commit.Outbox)
	})
}

// RetryOutbox implements records.Store.
func (s *Store) RetryOutbox(ctx context.Context, id int64, delay time.Duration) error {
	return s.db.Write(ctx, "retry an outbox row", func(t *sqldb.Tx) error {
		_, err := t.Exec(ctx, `UPDATE outbox SET due_at = ? WHERE id = ?`, t.Now+int64(delay), id)
		return err
	})
}

// OutboxWake implements records.Outbox.
func (s *Store) OutboxWake() <-chan struct{} { return s.db.Hub.OutboxWake() }
