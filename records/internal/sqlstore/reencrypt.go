package sqlstore

import (
	"context"

	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// sealedColumns returns the columns that hold sealed values.
func sealedColumns() []sealedColumn {
	return []sealedColumn{
		{"run_secrets", "run_id", "secrets", func(key string) string { return sqldb.RunLabel(run.ID(key)) }},
		{"schedule_secrets", "schedule", "secrets", sqldb.ScheduleLabel},
		{"webhooks", "name", "secret", sqldb.WebhookLabel},
		{"fleets", "name", "secrets", sqldb.FleetLabel},
		{"fleet_revisions", "id", "settings", sqldb.FleetRevisionLabel},
		{"service_keys", "name", "value", sqldb.ServiceLabel},
	}
}

type sealedColumn struct {
	table, key, column string
	label              func(key string) string
}

// Reencrypt implements records.Store.
func (s *Store) Reencrypt(ctx context.Context, n int) (done int, err error) {
	current := s.db.Keys.Current()
	if current == "" {
		return 0, run.Errorf(run.CodeInvalid, "there is no key to seal with")
	}
	err = s.db.Write(ctx, "reencrypt secrets", func(t *sqldb.Tx) error {
		done = 0
		for _, c := range sealedColumns() {
			left := n - done
			if left == 0 {
				return nil
			}
			stored := map[string]string{}
			// substr compares bytes, which LIKE does not do in all databases.
			if err := sqldb.Each(ctx, t, func(row sqldb.Scanner) error {
				var key, value string
				err := row.Scan(&key, &value)
				stored[key] = value
				return err
			}, `SELECT `+c.key+`, `+c.column+` FROM `+c.table+` WHERE substr(`+c.column+`, 1, ?) <> ? ORDER BY `+c.key+` LIMIT ?`+t.Dialect.ForUpdate,
				len(current), current, left); err != nil {
				return err
			}
			for key, prev := range stored {
				text, err := s.db.Keys.Open(c.label(key), prev)
				if err != nil {
					return run.Errorf(run.CodeInternal, "%s cannot be read: %w", c.label(key), err)
				}
				if _, err := t.Exec(ctx, `UPDATE `+c.table+` SET `+c.column+` = ? WHERE `+c.key+` = ?`,
					s.db.Keys.Seal(c.label(key), text), key); err != nil {
					return err
				}
			}
			done += len(stored)
		}
		return nil
	})
	return done, err
}
