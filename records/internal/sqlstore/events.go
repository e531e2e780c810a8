package sqlstore

import (
	"context"
	"database/sql"

	"github.com/drover-run/drover/run"
)

// emit adds an event to the transaction.
func (t *tx) emit(e run.Event) {
	t.markChanged(e.Run)
	t.events = append(t.events, e)
}

func (t *tx) appendEvents(ctx context.Context) error {
	if len(t.events) == 0 {
		return nil
	}
	t.commit.Events = true
	return bulk(ctx, t, `INSERT INTO events (type, at, run_id, group_path, phase, result, reason, task, status, attempt, executor, exit_code) VALUES `,
		`(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, ``, len(t.events), func(i int, args []any) []any {
			e := &t.events[i]
			return append(args, e.Type, e.Time.UnixNano(), e.Run, e.Group, e.Phase, e.Result, e.Reason, e.Task, e.Status, e.Attempt,
				e.Executor, e.ExitCode)
		})
}

// ReadEvents implements records.Store.
func (s *Store) ReadEvents(ctx context.Context, q run.EventQuery, n int) ([]run.Event, error) {
	where, args := `number > ?`, []any{q.After}
	if q.Run != "" {
		where, args = where+` AND run_id = ?`, append(args, q.Run)
	}
	if path, all := queryPath(q.Group); !all {
		low, high := below(path)
		where, args = where+` AND (group_path = ? OR group_path >= ? AND group_path < ?)`, append(args, path, low, high)
	}
	var out []run.Event
	err := s.read(ctx, "read events", func(tx Querier) error {
		out = nil
		if err := checkFloor(ctx, tx, q); err != nil {
			return err
		}
		return each(ctx, tx, func(row scanner) error {
			var e run.Event
			var at int64
			var code sql.NullInt64
			if err := row.Scan(&e.Number, &e.Type, &at, &e.Run, &e.Group, &e.Phase, &e.Result, &e.Reason, &e.Task, &e.Status,
				&e.Attempt, &e.Executor, &code); err != nil {
				return err
			}
			e.Time = toTime(at)
			if code.Valid {
				n := int(code.Int64)
				e.ExitCode = &n
			}
			out = append(out, e)
			return nil
		}, `SELECT number, type, at, run_id, group_path, phase, result, reason, task, status, attempt, executor, exit_code
			FROM events WHERE `+where+` ORDER BY number LIMIT ?`, append(args, n)...)
	})
	return out, err
}

// LastEvent implements records.Store.
func (s *Store) LastEvent(ctx context.Context) (last int64, err error) {
	err = s.read(ctx, "read the last event's number", func(q Querier) error {
		return q.QueryRow(ctx, s.dialect.LastEvent).Scan(&last)
	})
	return last, err
}
