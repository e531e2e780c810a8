package webhooks

import (
	"cmp"
	"context"
	"database/sql"
	"errors"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

const webhookColumns = `name, url, secret, events, group_path, run_id, enabled, created_at, updated_at, version, epoch, delivered,
	batch_end, last_error, last_attempt, next_attempt, failures, format, settings, test_requested, test_done, test_error, test_at`

// scanWebhook leaves the secret sealed.
func scanWebhook(row sqldb.Scanner) (records.Delivery, error) {
	var d records.Delivery
	var secret, events, settings string
	var created, updated, last, next, tested int64
	if err := row.Scan(&d.Name, &d.URL, &secret, &events, &d.Group, &d.Run, &d.Enabled, &created, &updated, &d.Version, &d.Epoch,
		&d.Delivered, &d.BatchEnd, &d.LastError, &last, &next, &d.Failures,
		&d.Format, &settings, &d.Test.Requested, &d.Test.Done, &d.Test.Error, &tested); err != nil {
		return d, err
	}
	d.Secret = run.Secret(secret)
	d.CreatedAt, d.UpdatedAt, d.LastAttemptAt, d.NextAttemptAt = sqldb.ToTime(created), sqldb.ToTime(updated), sqldb.ToTime(last), sqldb.ToTime(next)
	d.Test.At = sqldb.ToTime(tested)
	if err := sqldb.Unmarshal(events, &d.Events); err != nil {
		return d, err
	}
	if len(d.Events) == 0 {
		d.Events = d.Format.EventTypes()
	}
	if settings == "" {
		return d, nil
	}
	return d, sqldb.Unmarshal(settings, &d.WebhookSettings)
}

func readWebhook(ctx context.Context, q sqldb.Querier, name, lock string) (records.Delivery, error) {
	d, err := scanWebhook(q.QueryRow(ctx, `SELECT `+webhookColumns+` FROM webhooks WHERE name = ?`+lock, name))
	if errors.Is(err, sql.ErrNoRows) {
		return d, run.Errorf(run.CodeNotFound, "there is no webhook %s", name)
	}
	return d, err
}

// ListWebhooks implements records.Store.
func (s *Store) ListWebhooks(ctx context.Context) (all []run.Webhook, err error) {
	err = s.db.Read(ctx, "list webhooks", func(q sqldb.Querier) error {
		all = nil
		return sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
			d, err := scanWebhook(row)
			all = append(all, d.Webhook)
			return err
		}, `SELECT `+webhookColumns+` FROM webhooks ORDER BY name`)
	})
	return all, err
}

// GetWebhook implements records.Store.
func (s *Store) GetWebhook(ctx context.Context, name string) (w run.Webhook, err error) {
	err = s.db.Read(ctx, "read a webhook", func(q sqldb.Querier) error {
		d, err := readWebhook(ctx, q, name, "")
		w = d.Webhook
		return err
	})
	return w, err
}

// PutWebhook implements records.Store.
func (s *Store) PutWebhook(ctx context.Context, w run.WebhookSpec) (out run.Webhook, created bool, err error) {
	err = s.db.Write(ctx, "put a webhook", func(t *sqldb.Tx) error {
		prev, err := readWebhook(ctx, t, w.Name, t.Dialect.ForUpdate)
		if created = run.CodeOf(err) == run.CodeNotFound; created {
			prev, created, err = makeWebhook(ctx, t, w)
		}
		if err != nil {
			return err
		}
		if !created {
			if err := changeWebhook(ctx, t, prev, w); err != nil {
				return err
			}
		}
		now, err := readWebhook(ctx, t, w.Name, "")
		if err != nil {
			return err
		}
		out = now.Webhook
		return enqueueWebhook(ctx, t, w.Name)
	})
	return out, created, err
}

// makeWebhook inserts a webhook. If another transaction has inserted it
// meanwhile, it returns that one.
func makeWebhook(ctx context.Context, t *sqldb.Tx, w run.WebhookSpec) (prev records.Delivery, created bool, err error) {
	counted, err := t.Exec(ctx, `UPDATE webhook_count SET n = n + 1 WHERE n < ?`, run.MaxWebhooks)
	if err != nil {
		return prev, false, err
	}
	remaining, err := counted.RowsAffected()
	if err != nil {
		return prev, false, err
	}
	if prev, err = readWebhook(ctx, t, w.Name, ""); run.CodeOf(err) != run.CodeNotFound {
		if err == nil && remaining > 0 {
			_, err = t.Exec(ctx, `UPDATE webhook_count SET n = n - 1`)
		}
		return prev, false, err
	}
	if remaining == 0 {
		return prev, false, run.Errorf(run.CodeExhausted, "there are %d webhooks, which is the limit", run.MaxWebhooks)
	}
	row, err := sealSpec(t, nil, w)
	if err != nil {
		return prev, false, err
	}
	first, _ := w.Start()
	if first == 0 {
		if err := t.QueryRow(ctx, t.Dialect.LastEvent).Scan(&first); err != nil {
			return prev, false, err
		}
		first++
	}
	_, err = t.Exec(ctx, `INSERT INTO webhooks (name, url, secret, events, group_path, run_id, enabled, created_at, updated_at, delivered, format, settings)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		w.Name, row.url, row.secret, row.events, w.Group, w.Run, w.Enabled, t.Now, t.Now, first-1, row.format, row.settings)
	return prev, true, err
}

// changeWebhook applies the changes of a client. It resets the failures: a
// batch that waits for a retry is tried at once, and cut again.
func changeWebhook(ctx context.Context, t *sqldb.Tx, prev records.Delivery, w run.WebhookSpec) error {
	row, err := sealSpec(t, &prev, w)
	if err != nil {
		return err
	}
	delivered := prev.Delivered
	switch first, _ := w.Start(); {
	case w.From == run.FromNow:
		if err := t.QueryRow(ctx, t.Dialect.LastEvent).Scan(&delivered); err != nil {
			return err
		}
	case first > 0:
		delivered = first - 1
	}
	_, err = t.Exec(ctx, `UPDATE webhooks SET url = ?, secret = ?, events = ?, group_path = ?, run_id = ?, enabled = ?, updated_at = ?,
		version = version + 1, delivered = ?, batch_end = 0, last_error = '', next_attempt = 0, failures = 0, format = ?, settings = ? WHERE name = ?`,
		row.url, row.secret, row.events, w.Group, w.Run, w.Enabled, t.Now, delivered, row.format, row.settings, w.Name)
	return err
}

// DeleteWebhook implements records.Store.
func (s *Store) DeleteWebhook(ctx context.Context, name string) error {
	return s.db.Write(ctx, "delete a webhook", func(t *sqldb.Tx) error {
		if _, err := readWebhook(ctx, t, name, t.Dialect.ForUpdate); err != nil {
			return err
		}
		if _, err := t.Exec(ctx, `DELETE FROM webhooks WHERE name = ?`, name); err != nil {
			return err
		}
		if _, err := t.Exec(ctx, `UPDATE webhook_count SET n = n - 1`); err != nil {
			return err
		}
		return enqueueWebhook(ctx, t, name)
	})
}

// AcquireWebhook implements records.Store.
func (s *Store) AcquireWebhook(ctx context.Context, name string) (d records.Delivery, err error) {
	err = s.db.Write(ctx, "acquire a webhook", func(t *sqldb.Tx) error {
		if _, err := t.Exec(ctx, `UPDATE webhooks SET epoch = epoch + 1 WHERE name = ?`, name); err != nil {
			return err
		}
		if d, err = readWebhook(ctx, t, name, ""); err != nil {
			return err
		}
		return sqldb.OpenWebhook(t.Keys, &d)
	})
	return d, err
}

// ReadWebhook implements records.Store.
func (s *Store) ReadWebhook(ctx context.Context, name string, epoch int64) (d records.Delivery, err error) {
	err = s.db.Read(ctx, "read a webhook", func(q sqldb.Querier) error {
		if d, err = readWebhook(ctx, q, name, ""); err != nil {
			return err
		}
		if d.Epoch != epoch {
			return webhookTaken(name)
		}
		return sqldb.OpenWebhook(s.db.Keys, &d)
	})
	return d, err
}

// AdvanceWebhook implements records.Store.
func (s *Store) AdvanceWebhook(ctx context.Context, name string, epoch, version int64, to records.DeliveryProgress) error {
	return s.db.Write(ctx, "advance a webhook", func(t *sqldb.Tx) error {
		set := `delivered = ?, batch_end = ?, last_error = ?, next_attempt = ?, failures = ?`
		args := []any{to.Delivered, to.BatchEnd, sqldb.Clip(to.LastError), sqldb.FromTime(to.NextAttempt), to.Failures}
		if !to.LastAttempt.IsZero() {
			set, args = set+`, last_attempt = ?`, append(args, sqldb.FromTime(to.LastAttempt))
		}
		done, err := t.Exec(ctx, `UPDATE webhooks SET `+set+` WHERE name = ? AND epoch = ? AND version = ?`, append(args, name, epoch, version)...)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n > 0 {
			return err
		}
		if d, err := readWebhook(ctx, t, name, ""); err != nil || d.Epoch != epoch {
			return cmp.Or(err, webhookTaken(name))
		}
		return run.Errorf(run.CodeConflict, "webhook %s was changed meanwhile", name)
	})
}

// WatchWebhook implements records.Store.
func (s *Store) WatchWebhook(name string) (signal <-chan struct{}, stop func()) {
	return s.db.Hub.Watch(run.ID(sqldb.WebhookKey + name))
}

func webhookTaken(name string) error {
	return run.Errorf(run.CodeConflict, "another worker delivers webhook %s now", name)
}

// enqueueWebhook wakes the worker that delivers the webhook, and enqueues a start
// of its workflow.
func enqueueWebhook(ctx context.Context, t *sqldb.Tx, name string) error {
	key := run.ID(sqldb.WebhookKey + name)
	t.MarkChanged(key)
	return t.Enqueue(ctx, key, records.OutboxWebhook, 0)
}
