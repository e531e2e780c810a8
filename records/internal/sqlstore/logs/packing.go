package logs

import (
	"context"
	"database/sql"
	"time"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore/rows"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// packLater records a log that is to be packed after its last frame.
func packLater(ctx context.Context, t *sqldb.Tx, k run.Key) error {
	_, err := t.Exec(ctx, `INSERT INTO log_packing (run_id, task, attempt, dispatch, due_at) VALUES (?, ?, ?, ?, 0) ON CONFLICT DO NOTHING`,
		k.Run, k.Task, k.Attempt, k.Dispatch)
	return err
}

// packNow makes a log due. A leased log becomes due when the lease ends, or
// when it was switched.
func packNow(ctx context.Context, t *sqldb.Tx, k run.Key) error {
	t.Commit.Packing = true
	_, err := t.Exec(ctx, `INSERT INTO log_packing (run_id, task, attempt, dispatch, due_at) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (run_id, task, attempt, dispatch) DO UPDATE SET due_at = CASE WHEN log_packing.due_at = 0 THEN excluded.due_at ELSE log_packing.due_at END`,
		k.Run, k.Task, k.Attempt, k.Dispatch, t.Now)
	return err
}

// PackRemoved makes the logs due that an executor being removed, or its set,
// has claimed: no executor sends the rest of them.
func PackRemoved(ctx context.Context, t *sqldb.Tx, executor, set string) error {
	t.Commit.Packing = true
	where, arg := `c.executor = ?`, executor
	if set != "" {
		where, arg = `c.executor IN (SELECT id FROM executors WHERE set_name = ?)`, set
	}
	_, err := t.Exec(ctx, `UPDATE log_packing SET due_at = ? WHERE due_at = 0 AND EXISTS (SELECT 1 FROM claims c
		WHERE c.run_id = log_packing.run_id AND c.task = log_packing.task AND c.attempt = log_packing.attempt AND c.dispatch = log_packing.dispatch
		AND `+where+`)`, t.Now, arg)
	return err
}

// ForgetPacking makes the logs of a run due that has none any more. TakePacking
// deletes their rows after their leases, since the holder of a lease may still
// write an object.
func ForgetPacking(ctx context.Context, t *sqldb.Tx, id run.ID) error {
	t.Commit.Packing = true
	_, err := t.Exec(ctx, `UPDATE log_packing SET due_at = ? WHERE run_id = ? AND due_at = 0`, t.Now, id)
	return err
}

// PackingWake implements records.Packing.
func (s *Store) PackingWake() <-chan struct{} { return s.db.Hub.PackingWake() }

// PackStale implements records.Packing.
func (s *Store) PackStale(ctx context.Context, before time.Time) (n int, err error) {
	err = s.db.Write(ctx, "find logs without an end", func(t *sqldb.Tx) error {
		final := sqldb.OneOf(`t.status`, rows.FinalStatuses())
		done, err := t.Exec(ctx, `UPDATE log_packing SET due_at = ? WHERE due_at = 0 AND NOT EXISTS (SELECT 1 FROM tasks t
			WHERE t.run_id = log_packing.run_id AND t.number = log_packing.task AND t.attempt = log_packing.attempt
			AND t.dispatch = log_packing.dispatch AND NOT (`+final.Where+` AND t.ended_at < ?))`,
			append(append([]any{t.Now}, final.Args...), before.UnixNano())...)
		if err != nil {
			return err
		}
		rows, err := done.RowsAffected()
		n, t.Commit.Packing = int(rows), rows > 0
		return err
	})
	return n, err
}

// packingRow is a row of log_packing.
type packingRow struct {
	key       run.Key
	lastFrame int64
}

// TakePacking implements records.Packing.
func (s *Store) TakePacking(ctx context.Context, n int, lease time.Duration) ([]records.PackingLog, error) {
	// Reading costs less than locking, and mostly no log is due.
	var due bool
	if err := s.db.Read(ctx, "find logs to pack", func(q sqldb.Querier) error {
		return q.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM log_packing WHERE due_at > 0 AND due_at <= ?)`, s.db.Now().UnixNano()).Scan(&due)
	}); err != nil || !due {
		return nil, err
	}
	var out []records.PackingLog
	err := s.db.Write(ctx, "take logs to pack", func(t *sqldb.Tx) error {
		out = nil
		var due []packingRow
		if err := sqldb.Each(ctx, t, func(row sqldb.Scanner) error {
			var p packingRow
			err := row.Scan(&p.key.Run, &p.key.Task, &p.key.Attempt, &p.key.Dispatch, &p.lastFrame)
			due = append(due, p)
			return err
		}, `SELECT run_id, task, attempt, dispatch, last_frame FROM log_packing WHERE due_at > 0 AND due_at <= ? ORDER BY due_at LIMIT ?`+
			t.Dialect.SkipLocked, t.Now, n); err != nil {
			return err
		}
		for _, p := range due {
			log, err := takePacking(ctx, t, p, lease)
			if err != nil {
				return err
			}
			if log != nil {
				out = append(out, *log)
			}
		}
		return nil
	})
	return out, err
}

// takePacking returns nil if there is nothing to pack.
func takePacking(ctx context.Context, t *sqldb.Tx, p packingRow, lease time.Duration) (*records.PackingLog, error) {
	batches, err := ownBatches(ctx, t, p.key)
	if err != nil {
		return nil, err
	}
	log := &records.PackingLog{Key: p.key, Batches: batches}
	if len(batches) > 0 {
		log.Last = batches[len(batches)-1].Last
	}
	packed := len(batches) > 0 && batches[0].Packed
	if p.lastFrame > 0 && p.lastFrame != log.Last && (!packed || batches[0].Last != p.lastFrame) {
		// The previous holder of the lease may have written this object.
		if err := discard(ctx, t, records.GarbageBatch{Key: p.key, Frame: p.lastFrame, Packed: true}); err != nil {
			return nil, err
		}
	}
	if len(batches) == 0 || packed && len(batches) == 1 {
		return nil, completePacking(ctx, t, p.key)
	}
	_, err = t.Exec(ctx, `UPDATE log_packing SET due_at = ?, last_frame = ? WHERE run_id = ? AND task = ? AND attempt = ? AND dispatch = ?`,
		t.Now+int64(lease), log.Last, p.key.Run, p.key.Task, p.key.Attempt, p.key.Dispatch)
	return log, err
}

func completePacking(ctx context.Context, t *sqldb.Tx, k run.Key) error {
	_, err := t.Exec(ctx, `DELETE FROM log_packing WHERE run_id = ? AND task = ? AND attempt = ? AND dispatch = ?`, k.Run, k.Task, k.Attempt, k.Dispatch)
	return err
}

func ownBatches(ctx context.Context, t *sqldb.Tx, k run.Key) ([]records.Batch, error) {
	return queryBatches(ctx, t, `run_id = ? AND task = ? AND attempt = ? AND dispatch = ? AND source_run = ''`, k.Run, k.Task, k.Attempt, k.Dispatch)
}

// SwitchPacked implements records.Packing.
func (s *Store) SwitchPacked(ctx context.Context, p records.PackingLog, bytes int64) error {
	stale := run.Errorf(run.CodeConflict, "log %s was packed otherwise meanwhile", p.Key)
	ok := false
	err := s.db.Write(ctx, "switch to a packed log", func(t *sqldb.Tx) error {
		ok = false
		var id run.ID
		// As in all transactions that write both, the run is locked before its
		// logs.
		locked, err := sqldb.QueryIDs(ctx, t, `SELECT id FROM runs WHERE id = ?`+t.Dialect.ForUpdate, p.Key.Run)
		if err != nil {
			return err
		}
		if err := LockSharing(ctx, t); err != nil {
			return err
		}
		held, err := sqldb.QueryIDs(ctx, t, `SELECT run_id FROM log_packing WHERE run_id = ? AND task = ? AND attempt = ? AND dispatch = ? AND last_frame = ?`,
			p.Key.Run, p.Key.Task, p.Key.Attempt, p.Key.Dispatch, p.Last)
		if err != nil || len(held) == 0 {
			return err // another holder has the lease, and discards this object
		}
		if len(locked) == 1 {
			id = locked[0]
		}
		if id != "" {
			if ok, err = switchPacked(ctx, t, p, bytes); err != nil || ok {
				return err
			}
		}
		if err := discard(ctx, t, records.GarbageBatch{Key: p.Key, Frame: p.Last, Packed: true}); err != nil {
			return err
		}
		return completePacking(ctx, t, p.Key)
	})
	if err == nil && !ok {
		return stale
	}
	return err
}

// switchPacked reports whether all batches still exist.
func switchPacked(ctx context.Context, t *sqldb.Tx, p records.PackingLog, bytes int64) (bool, error) {
	k := p.Key
	own, err := ownBatches(ctx, t, k)
	if err != nil {
		return false, err
	}
	next, end, later := int64(1), false, 0
	for _, b := range own {
		if b.Last > p.Last {
			later++
			continue
		}
		if b.First != next || b.Packed && b.Last == p.Last {
			return false, nil
		}
		next, end = b.Last+1, b.End
	}
	if next != p.Last+1 {
		return false, nil
	}
	for _, b := range own[:len(own)-later] {
		g := records.GarbageBatch{Key: k, Frame: b.First, Packed: b.Packed}
		if b.Packed {
			g.Frame = b.Last
		}
		if err := discard(ctx, t, g); err != nil {
			return false, err
		}
	}
	if err := replaceBatches(ctx, t, p, bytes, end); err != nil {
		return false, err
	}
	if later == 0 {
		return true, completePacking(ctx, t, k)
	}
	due := int64(0)
	if own[len(own)-1].End {
		due, t.Commit.Packing = t.Now, true
	}
	_, err = t.Exec(ctx, `UPDATE log_packing SET due_at = ?, last_frame = 0 WHERE run_id = ? AND task = ? AND attempt = ? AND dispatch = ?`,
		due, k.Run, k.Task, k.Attempt, k.Dispatch)
	return true, err
}

// replaceBatches replaces the rows of a log's batches by one row of the packed
// log, for each run that refers to them.
func replaceBatches(ctx context.Context, t *sqldb.Tx, p records.PackingLog, bytes int64, end bool) error {
	const insert = `INSERT INTO log_batches (run_id, task, attempt, dispatch, first_frame, last_frame, task_end, source_run, source_task, packed, bytes, remaining)
		VALUES (?, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?)`
	k := p.Key
	var remaining sql.NullInt64 // kept for the frames that come later
	if err := t.QueryRow(ctx, `SELECT remaining FROM log_batches WHERE run_id = ? AND task = ? AND attempt = ? AND dispatch = ? AND last_frame = ?`,
		k.Run, k.Task, k.Attempt, k.Dispatch, p.Last).Scan(&remaining); err != nil {
		return err
	}
	if _, err := t.Exec(ctx, `DELETE FROM log_batches WHERE run_id = ? AND task = ? AND attempt = ? AND dispatch = ? AND last_frame <= ?`,
		k.Run, k.Task, k.Attempt, k.Dispatch, p.Last); err != nil {
		return err
	}
	if _, err := t.Exec(ctx, insert, k.Run, k.Task, k.Attempt, k.Dispatch, p.Last, end, "", 0, true, bytes, remaining); err != nil {
		return err
	}
	var sharers []run.Key
	if err := sqldb.Each(ctx, t, func(row sqldb.Scanner) error {
		s := k
		err := row.Scan(&s.Run, &s.Task)
		sharers = append(sharers, s)
		return err
	}, `SELECT DISTINCT run_id, task FROM log_batches WHERE source_run = ? AND source_run <> '' AND source_task = ? AND attempt = ? AND dispatch = ?`,
		k.Run, k.Task, k.Attempt, k.Dispatch); err != nil {
		return err
	}
	if _, err := t.Exec(ctx, `DELETE FROM log_batches WHERE source_run = ? AND source_run <> '' AND source_task = ? AND attempt = ? AND dispatch = ?
		AND last_frame <= ?`, k.Run, k.Task, k.Attempt, k.Dispatch, p.Last); err != nil {
		return err
	}
	for _, s := range sharers {
		if _, err := t.Exec(ctx, insert, s.Run, s.Task, s.Attempt, s.Dispatch, p.Last, end, k.Run, k.Task, true, bytes, nil); err != nil {
			return err
		}
	}
	return nil
}
