package webhooks

import (
	"context"
	"database/sql"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// TestWebhook implements records.Store. The version of the webhook stays: a
// delivery that waits for its retry continues to wait.
func (s *Store) TestWebhook(ctx context.Context, name string) (w run.Webhook, err error) {
	err = s.db.Write(ctx, "test a webhook", func(t *sqldb.Tx) error {
		d, err := readWebhook(ctx, t, name, t.Dialect.ForUpdate)
		if err != nil {
			return err
		}
		if !d.Enabled {
			return run.Errorf(run.CodeConflict, "webhook %s is disabled", name)
		}
		if _, err := t.Exec(ctx, `UPDATE webhooks SET test_requested = test_requested + 1 WHERE name = ?`, name); err != nil {
			return err
		}
		d.Test.Requested++
		w = d.Webhook
		return enqueueWebhook(ctx, t, name)
	})
	return w, err
}

// EndWebhookTest implements records.Store.
func (s *Store) EndWebhookTest(ctx context.Context, name string, epoch, number int64, failure string) error {
	return s.db.Write(ctx, "end the test of a webhook", func(t *sqldb.Tx) error {
		done, err := t.Exec(ctx, `UPDATE webhooks SET test_done = ?, test_error = ?, test_at = ? WHERE name = ? AND epoch = ?`,
			number, sqldb.Clip(failure), t.Now, name, epoch)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n > 0 {
			return err
		}
		if _, err := readWebhook(ctx, t, name, ""); err != nil {
			return err
		}
		return webhookTaken(name)
	})
}

// FailedTasks implements records.Store.
func (s *Store) FailedTasks(ctx context.Context, id run.ID, n int) (out []records.FailedTask, err error) {
	err = s.db.Read(ctx, "read failed tasks", func(q sqldb.Querier) error {
		out = nil
		return sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
			var x records.FailedTask
			var exit sql.NullInt64
			var text string
			if err := row.Scan(&x.Name, &x.Reason, &exit, &text); err != nil {
				return err
			}
			if exit.Valid {
				code := int(exit.Int64)
				x.ExitCode = &code
			}
			var spec run.TaskSpec
			if err := sqldb.Unmarshal(text, &spec); err != nil {
				return err
			}
			x.AllowFailure = spec.AllowFailure
			out = append(out, x)
			return nil
		}, `SELECT t.name, t.reason, t.exit_code, s.spec FROM tasks t JOIN task_specs s ON s.run_id = t.run_id AND s.node = t.node
			WHERE t.run_id = ? AND t.status = ? ORDER BY t.number LIMIT ?`, id, run.StatusFailed, n)
	})
	return out, err
}
