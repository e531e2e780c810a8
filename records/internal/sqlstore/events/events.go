package events

import (
	"context"
	"database/sql"

	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// ReadEvents implements records.Store.
func (s *Store) ReadEvents(ctx context.Context, q run.EventQuery, n int) ([]run.Event, error) {
	where, args := `number > ?`, []any{q.After}
	if q.Run != "" {
		where, args = where+` AND run_id = ?`, append(args, q.Run)
	}
	if path, all := sqldb.QueryPath(q.Group); !all {
		low, high := sqldb.Below(path)
		where, args = where+` AND (group_path = ? OR group_path >= ? AND group_path < ?)`, append(args, path, low, high)
	}
	if c := sqldb.InGroups(`group_path`, q.Within); c.Where != "" {
		where, args = where+` AND `+c.Where, append(args, c.Args...)
	}
	var out []run.Event
	err := s.db.Read(ctx, "read events", func(tx sqldb.Querier) error {
		out = nil
		if err := checkFloor(ctx, tx, q); err != nil {
			return err
		}
		return sqldb.Each(ctx, tx, func(row sqldb.Scanner) error {
			var e run.Event
			var at int64
			var code sql.NullInt64
			if err := row.Scan(&e.Number, &e.Type, &at, &e.Run, &e.Group, &e.Phase, &e.Result, &e.Reason, &e.Task, &e.Status,
				&e.Attempt, &e.Executor, &code, &e.Action, &e.Actor, &e.Stage); err != nil {
				return err
			}
			e.Time = sqldb.ToTime(at)
			if code.Valid {
				n := int(code.Int64)
				e.ExitCode = &n
			}
			out = append(out, e)
			return nil
		}, `SELECT number, type, at, run_id, group_path, phase, result, reason, task, status, attempt, executor, exit_code, action, actor, stage
			FROM events WHERE `+where+` ORDER BY number LIMIT ?`, append(args, n)...)
	})
	return out, err
}

// LastEvent implements records.Store.
func (s *Store) LastEvent(ctx context.Context) (last int64, err error) {
	err = s.db.Read(ctx, "read the last event's number", func(q sqldb.Querier) error {
		return q.QueryRow(ctx, s.db.Dialect.LastEvent).Scan(&last)
	})
	return last, err
}
