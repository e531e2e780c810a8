package events

import (
	"context"
	"database/sql"
	"errors"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore/rows"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// EventFloor implements records.Store.
func (s *Store) EventFloor(ctx context.Context, id run.ID) (floor int64, err error) {
	err = s.db.Read(ctx, "read the floor of events", func(q sqldb.Querier) error {
		floor, err = eventFloor(ctx, q, id)
		return err
	})
	return floor, err
}

// eventFloor returns the floor for readers of a run, or of all events. It is 0
// for a run that was created after the last removed event.
func eventFloor(ctx context.Context, q sqldb.Querier, id run.ID) (int64, error) {
	var floor, at, created int64
	if err := q.QueryRow(ctx, `SELECT floor, at FROM event_floor`).Scan(&floor, &at); err != nil || id == "" {
		return floor, err
	}
	err := q.QueryRow(ctx, `SELECT created_at FROM runs WHERE id = ?`, id).Scan(&created)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return 0, rows.RunNotFound(id)
	case err != nil:
		return 0, err
	case created > at:
		return 0, nil
	}
	return floor, nil
}

// checkFloor refuses to read from a position whose events were removed.
func checkFloor(ctx context.Context, q sqldb.Querier, query run.EventQuery) error {
	floor, err := eventFloor(ctx, q, "")
	if err != nil || query.After >= floor {
		return err
	}
	if query.Run != "" {
		floor, err = eventFloor(ctx, q, query.Run)
		if run.CodeOf(err) == run.CodeNotFound {
			return nil // there is nothing to read
		}
		if err != nil || query.After >= floor {
			return err
		}
	}
	return run.GoneError(floor)
}

// RemoveEvents implements records.Store.
func (s *Store) RemoveEvents(ctx context.Context, keep records.KeepEvents, n int) (removed int, err error) {
	err = s.db.Write(ctx, "remove events", func(t *sqldb.Tx) error {
		removed = 0
		var floor, last, latest int64
		if err := t.QueryRow(ctx, `SELECT floor, at FROM event_floor`+t.Dialect.ForUpdate).Scan(&floor, &latest); err != nil {
			return err
		}
		if err := t.QueryRow(ctx, t.Dialect.LastEvent).Scan(&last); err != nil {
			return err
		}
		from, over := floor, false
		if err := sqldb.Each(ctx, t, func(row sqldb.Scanner) error {
			var number, at int64
			if err := row.Scan(&number, &at); err != nil {
				return err
			}
			// All events after a kept one are kept too.
			over = over || (keep.Since.IsZero() || at >= sqldb.FromTime(keep.Since)) && (keep.Newest == 0 || number > last-keep.Newest)
			if !over {
				floor, latest = number, max(latest, at)
				removed++
			}
			return nil
		}, `SELECT number, at FROM events WHERE number > ? ORDER BY number LIMIT ?`, floor, n); err != nil || removed == 0 {
			return err
		}
		if _, err := t.Exec(ctx, `DELETE FROM events WHERE number > ? AND number <= ?`, from, floor); err != nil {
			return err
		}
		_, err := t.Exec(ctx, `UPDATE event_floor SET floor = ?, at = ?`, floor, latest)
		return err
	})
	return removed, err
}

// DueEvents implements records.Due.
func (s *Store) DueEvents(ctx context.Context, keep records.KeepEvents, n int) (run.RetentionDue, error) {
	out := run.RetentionDue{Kind: run.RetentionEvents}
	err := s.db.Read(ctx, "find old events", func(q sqldb.Querier) error {
		out.First = nil
		var floor, last, oldest int64
		if err := q.QueryRow(ctx, `SELECT floor FROM event_floor`).Scan(&floor); err != nil {
			return err
		}
		if err := q.QueryRow(ctx, s.db.Dialect.LastEvent).Scan(&last); err != nil {
			return err
		}
		// The first event that is kept; all after it are kept too.
		kept := last + 1
		where, args := `number > ?`, []any{floor}
		if !keep.Since.IsZero() {
			where, args = where+` AND at >= ?`, append(args, sqldb.FromTime(keep.Since))
		}
		if keep.Newest > 0 {
			where, args = where+` AND number > ?`, append(args, last-keep.Newest)
		}
		err := q.QueryRow(ctx, `SELECT number FROM events WHERE `+where+` ORDER BY number LIMIT 1`, args...).Scan(&kept)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		const due = ` FROM events WHERE number > ? AND number < ?`
		if err := q.QueryRow(ctx, `SELECT COUNT(*), COALESCE(MIN(at), 0)`+due, floor, kept).Scan(&out.Count, &oldest); err != nil {
			return err
		}
		out.Oldest = sqldb.ToTime(oldest)
		return sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
			var i run.RetentionItem
			var at int64
			err := row.Scan(&i.Event, &i.Run, &at)
			i.Since = sqldb.ToTime(at)
			out.First = append(out.First, i)
			return err
		}, `SELECT number, run_id, at`+due+` ORDER BY number LIMIT ?`, floor, kept, n)
	})
	return out, err
}
