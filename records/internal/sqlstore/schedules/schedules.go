package schedules

import (
	"cmp"
	"context"
	"database/sql"
	"errors"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

const scheduleColumns = `s.name, s.run_name, s.group_path, s.options, s.version, s.created_at, s.updated_at`

func scanSchedule(row sqldb.Scanner, more ...any) (records.Schedule, error) {
	var s records.Schedule
	var options string
	var created, updated int64
	if err := row.Scan(append([]any{&s.Name, &s.RunName, &s.Group, &options, &s.Version, &created, &updated}, more...)...); err != nil {
		return s, err
	}
	s.CreatedAt, s.UpdatedAt = sqldb.ToTime(created), sqldb.ToTime(updated)
	var stored scheduleOptions
	err := sqldb.Unmarshal(options, &stored)
	s.ScheduleSpec, s.SecretsBy = stored.ScheduleSpec, stored.SecretsBy
	return s, err
}

// scheduleOptions is the stored form of what is not in a column of its own. A gateway that
// does not know secrets_by removes it when it replaces a schedule.
type scheduleOptions struct {
	run.ScheduleSpec

	SecretsBy string `json:"secrets_by,omitempty"`
}

// ListSchedules implements records.Store.
func (s *Store) ListSchedules(ctx context.Context, after string, n int, within ...string) (all []records.Schedule, err error) {
	where := sqldb.AllOf(sqldb.Condition{Where: `s.name > ?`, Args: []any{after}}, sqldb.InGroups(`s.group_path`, within))
	err = s.db.Read(ctx, "list schedules", func(q sqldb.Querier) error {
		all = nil
		return sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
			x, err := scanSchedule(row)
			all = append(all, x)
			return err
		}, `SELECT `+scheduleColumns+` FROM schedules s WHERE `+where.Where+` ORDER BY s.name LIMIT ?`, append(where.Args, n)...)
	})
	return all, err
}

// ScheduleGroup implements records.Store.
func (s *Store) ScheduleGroup(ctx context.Context, name string) (group string, err error) {
	err = s.db.Read(ctx, "read the group of a schedule", func(q sqldb.Querier) error {
		err := q.QueryRow(ctx, `SELECT group_path FROM schedules WHERE name = ?`, name).Scan(&group)
		if errors.Is(err, sql.ErrNoRows) {
			return scheduleNotFound(name)
		}
		return err
	})
	return group, err
}

// GetSchedule implements records.Store.
func (s *Store) GetSchedule(ctx context.Context, name string) (x records.Schedule, err error) {
	err = s.db.Read(ctx, "read a schedule", func(q sqldb.Querier) error {
		var text string
		var hidden sql.NullString
		x, err = scanSchedule(q.QueryRow(ctx, `SELECT `+scheduleColumns+`, d.spec, h.secrets FROM schedules s
			JOIN schedule_specs d ON d.schedule = s.name LEFT JOIN schedule_secrets h ON h.schedule = s.name WHERE s.name = ?`, name),
			&text, &hidden)
		if errors.Is(err, sql.ErrNoRows) {
			return scheduleNotFound(name)
		}
		if err != nil {
			return err
		}
		x.Spec = new(run.Spec)
		if err := sqldb.Unmarshal(text, x.Spec); err != nil {
			return err
		}
		return sqldb.OpenSecrets(s.db.Keys, sqldb.ScheduleLabel(name), hidden.String, &x.Spec.Secrets)
	})
	return x, err
}

func scheduleNotFound(name string) error {
	return run.Errorf(run.CodeNotFound, "there is no schedule %s", name)
}

// PutSchedule implements records.Store.
func (s *Store) PutSchedule(ctx context.Context, x run.ScheduleSpec, secretsBy string, version int64) error {
	row, err := prepareSchedule(x, secretsBy)
	if err != nil {
		return s.db.Wrap("prepare a schedule", err)
	}
	return s.db.Write(ctx, "put a schedule", func(t *sqldb.Tx) error {
		var done sql.Result
		var err error
		if version == 0 {
			done, err = t.Exec(ctx, `INSERT INTO schedules (name, run_name, group_path, options, version, created_at, updated_at)
				VALUES (?, ?, ?, ?, 1, ?, ?) ON CONFLICT DO NOTHING`, x.Name, x.Spec.Name, x.Spec.Group, row.options, t.Now, t.Now)
		} else {
			done, err = t.Exec(ctx, `UPDATE schedules SET run_name = ?, group_path = ?, options = ?, version = version + 1, updated_at = ?
				WHERE name = ? AND version = ?`, x.Spec.Name, x.Spec.Group, row.options, t.Now, x.Name, version)
		}
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n == 0 {
			return cmp.Or[error](err, run.Errorf(run.CodeConflict, "schedule %s was changed meanwhile", x.Name))
		}
		for _, table := range []string{"schedule_specs", "schedule_secrets"} {
			if _, err := t.Exec(ctx, `DELETE FROM `+table+` WHERE schedule = ?`, x.Name); err != nil {
				return err
			}
		}
		if _, err := t.Exec(ctx, `INSERT INTO schedule_specs (schedule, spec) VALUES (?, ?)`, x.Name, row.spec); err != nil {
			return err
		}
		if row.secrets == "" {
			return nil
		}
		_, err = t.Exec(ctx, `INSERT INTO schedule_secrets (schedule, secrets) VALUES (?, ?)`, x.Name, t.Keys.Seal(sqldb.ScheduleLabel(x.Name), row.secrets))
		return err
	})
}

// scheduleTexts holds the stored texts of a schedule.
type scheduleTexts struct{ options, spec, secrets string }

func prepareSchedule(x run.ScheduleSpec, secretsBy string) (row scheduleTexts, err error) {
	bare := *x.Spec
	bare.Secrets = nil
	if row.spec, err = sqldb.Marshal(bare); err != nil {
		return row, err
	}
	if row.secrets, err = sqldb.SecretsText(x.Spec.Secrets); err != nil {
		return row, err
	}
	x.Spec, x.Paused, x.Note = nil, nil, ""
	row.options, err = sqldb.Marshal(scheduleOptions{x, secretsBy})
	return row, err
}

// DeleteSchedule implements records.Store.
func (s *Store) DeleteSchedule(ctx context.Context, name string) error {
	return s.db.Write(ctx, "delete a schedule", func(t *sqldb.Tx) error {
		done, err := t.Exec(ctx, `DELETE FROM schedules WHERE name = ?`, name)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n == 0 {
			return cmp.Or(err, scheduleNotFound(name))
		}
		for _, table := range []string{"schedule_specs", "schedule_secrets", "schedule_firings"} {
			if _, err := t.Exec(ctx, `DELETE FROM `+table+` WHERE schedule = ?`, name); err != nil {
				return err
			}
		}
		return nil
	})
}

// PutFiring implements records.Store.
func (s *Store) PutFiring(ctx context.Context, schedule string, f records.Firing) error {
	return s.db.Write(ctx, "record a firing", func(t *sqldb.Tx) error {
		var known string
		err := t.QueryRow(ctx, `SELECT name FROM schedules WHERE name = ?`+t.Dialect.ForUpdate, schedule).Scan(&known)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := t.Exec(ctx, `INSERT INTO schedule_firings (schedule, firing, for_time, at, run_id, error) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (schedule, firing) DO UPDATE SET run_id = excluded.run_id, error = excluded.error`,
			schedule, f.Key, sqldb.FromTime(f.For), sqldb.FromTime(f.At), f.Run, sqldb.Clip(f.Error)); err != nil {
			return err
		}
		_, err = t.Exec(ctx, `DELETE FROM schedule_firings WHERE schedule = ? AND at <
			(SELECT at FROM schedule_firings WHERE schedule = ? ORDER BY at DESC LIMIT 1 OFFSET ?)
			AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = run_id AND r.phase IN ('queued', 'running'))`,
			schedule, schedule, run.MaxFirings-1)
		return err
	})
}

// Firings implements records.Store.
func (s *Store) Firings(ctx context.Context, schedule string, n int) ([]records.Firing, error) {
	return s.firings(ctx, `f.schedule = ? ORDER BY f.at DESC, f.firing DESC LIMIT ?`, schedule, n)
}

// OpenFirings implements records.Store.
func (s *Store) OpenFirings(ctx context.Context, schedule string) ([]records.Firing, error) {
	return s.firings(ctx, `f.schedule = ? AND r.phase IN ('queued', 'running') ORDER BY f.at, f.firing`, schedule)
}

func (s *Store) firings(ctx context.Context, where string, args ...any) (all []records.Firing, err error) {
	err = s.db.Read(ctx, "read firings", func(q sqldb.Querier) error {
		all = nil
		return sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
			var f records.Firing
			var desired, at int64
			if err := row.Scan(&f.Key, &desired, &at, &f.Run, &f.Error, &f.Phase, &f.Result); err != nil {
				return err
			}
			f.For, f.At = sqldb.ToTime(desired), sqldb.ToTime(at)
			all = append(all, f)
			return nil
		}, `SELECT f.firing, f.for_time, f.at, f.run_id, f.error, coalesce(r.phase, ''), coalesce(r.result, '')
			FROM schedule_firings f LEFT JOIN runs r ON r.id = f.run_id WHERE `+where, args...)
	})
	return all, err
}
