package logs

import (
	"context"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// objectOf is the value of the column first_frame of garbage for the row b of
// log_batches: the first frame of a batch, or the negated last frame of a
// packed log.
const objectOf = `CASE WHEN b.packed THEN -b.last_frame ELSE b.first_frame END`

// DiscardLogs records as garbage the bytes that have no reference once a run
// has no logs. Its own bytes stay if a run that restarted it kept them. Bytes
// that it kept from a deleted run are removed with the last run that refers to
// them.
func DiscardLogs(ctx context.Context, t *sqldb.Tx, id run.ID) error {
	t.Commit.Garbage = true
	if t.Dialect.LockSharing != "" {
		// Two deletions that refer to the same bytes must see each other.
		var shares bool
		if err := t.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM log_batches WHERE run_id = ? AND source_run <> '')
			OR EXISTS (SELECT 1 FROM log_batches WHERE source_run = ? AND source_run <> '')`, id, id).Scan(&shares); err != nil {
			return err
		}
		if shares {
			if err := LockSharing(ctx, t); err != nil {
				return err
			}
		}
	}
	if _, err := t.Exec(ctx, `INSERT INTO log_garbage (run_id, task, attempt, dispatch, first_frame)
		SELECT b.run_id, b.task, b.attempt, b.dispatch, `+objectOf+` FROM log_batches b WHERE b.run_id = ? AND b.source_run = ''
		AND NOT EXISTS (SELECT 1 FROM log_batches o WHERE o.source_run = b.run_id AND o.source_task = b.task AND o.source_run <> ''
			AND o.attempt = b.attempt AND o.dispatch = b.dispatch AND o.first_frame = b.first_frame)
		ON CONFLICT DO NOTHING`, id); err != nil {
		return err
	}
	_, err := t.Exec(ctx, `INSERT INTO log_garbage (run_id, task, attempt, dispatch, first_frame)
		SELECT b.source_run, b.source_task, b.attempt, b.dispatch, `+objectOf+` FROM log_batches b WHERE b.run_id = ? AND b.source_run <> ''
		AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = b.source_run)
		AND NOT EXISTS (SELECT 1 FROM log_batches o WHERE o.source_run = b.source_run AND o.source_task = b.source_task AND o.source_run <> ''
			AND o.attempt = b.attempt AND o.dispatch = b.dispatch AND o.first_frame = b.first_frame AND o.run_id <> b.run_id)
		ON CONFLICT DO NOTHING`, id)
	return err
}

// LockSharing keeps others from changing which runs share bytes.
func LockSharing(ctx context.Context, t *sqldb.Tx) error {
	if t.Dialect.LockSharing == "" {
		return nil
	}
	_, err := t.Exec(ctx, t.Dialect.LockSharing)
	return err
}

// discard records one piece of a log as garbage.
func discard(ctx context.Context, t *sqldb.Tx, g records.GarbageBatch) error {
	t.Commit.Garbage = true
	_, err := t.Exec(ctx, `INSERT INTO log_garbage (run_id, task, attempt, dispatch, first_frame) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		g.Key.Run, g.Key.Task, g.Key.Attempt, g.Key.Dispatch, garbageNumber(g))
	return err
}

// discardUnreferenced records as garbage the object of a batch that was sent again,
// unless a row refers to it: once its log is packed, no row ever will.
func discardUnreferenced(ctx context.Context, t *sqldb.Tx, k run.Key, first int64) error {
	var named bool
	if err := t.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM log_batches WHERE run_id = ? AND task = ? AND attempt = ? AND dispatch = ?
		AND first_frame = ? AND NOT packed)`, k.Run, k.Task, k.Attempt, k.Dispatch, first).Scan(&named); err != nil || named {
		return err
	}
	return discard(ctx, t, records.GarbageBatch{Key: k, Frame: first})
}

func garbageNumber(g records.GarbageBatch) int64 {
	if g.Packed {
		return -g.Frame
	}
	return g.Frame
}

// TakeGarbage implements records.Store.
func (s *Store) TakeGarbage(ctx context.Context, n int) ([]records.GarbageBatch, error) {
	var out []records.GarbageBatch
	err := s.db.Read(ctx, "read garbage", func(q sqldb.Querier) error {
		out = nil
		return sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
			var g records.GarbageBatch
			err := row.Scan(&g.Key.Run, &g.Key.Task, &g.Key.Attempt, &g.Key.Dispatch, &g.Frame)
			if g.Frame < 0 {
				g.Frame, g.Packed = -g.Frame, true
			}
			out = append(out, g)
			return err
		}, `SELECT run_id, task, attempt, dispatch, first_frame FROM log_garbage LIMIT ?`, n)
	})
	return out, err
}

// CompleteGarbage implements records.Store.
func (s *Store) CompleteGarbage(ctx context.Context, done []records.GarbageBatch) error {
	return s.db.Write(ctx, "delete collected garbage", func(t *sqldb.Tx) error {
		for _, g := range done {
			if _, err := t.Exec(ctx, `DELETE FROM log_garbage WHERE run_id = ? AND task = ? AND attempt = ? AND dispatch = ? AND first_frame = ?`,
				g.Key.Run, g.Key.Task, g.Key.Attempt, g.Key.Dispatch, garbageNumber(g)); err != nil {
				return err
			}
		}
		return nil
	})
}

// GarbageWake implements records.Garbage.
func (s *Store) GarbageWake() <-chan struct{} { return s.db.Hub.GarbageWake() }
