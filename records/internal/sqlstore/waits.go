package sqlstore

import (
	"context"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// namedHolders is how many of those that hold a slot are named.
const namedHolders = 3

// Waits implements records.Store.
func (s *Store) Waits(ctx context.Context, id run.ID) ([]records.GroupWait, error) {
	var out []records.GroupWait
	err := s.read(ctx, "reading what a run waits for", func(q Querier) error {
		out = nil
		type line struct {
			records.GroupWait
			priority int
			since    int64
		}
		var lines []line
		if err := each(ctx, q, func(row scanner) error {
			var l line
			err := row.Scan(&l.Group, &l.MaxRunning, &l.priority, &l.since)
			lines = append(lines, l)
			return err
		}, `SELECT g.name, g.max_running, r.priority, r.since FROM run_changegroups r JOIN changegroups g ON g.name = r.name
			WHERE r.run_id = ? AND r.state = 'waiting' AND g.max_running > 0 ORDER BY g.name`, id); err != nil {
			return err
		}
		for _, l := range lines {
			if err := q.QueryRow(ctx, `SELECT (SELECT count(*) FROM run_changegroups WHERE name = ? AND state = 'holding'),
				(SELECT count(*) FROM run_changegroups WHERE name = ? AND state = 'waiting' AND (priority, since, run_id) < (?, ?, ?))`,
				l.Group, l.Group, l.priority, l.since, id).Scan(&l.Holding, &l.Place); err != nil {
				return err
			}
			l.Place++
			if err := each(ctx, q, func(row scanner) error {
				var holder run.ID
				err := row.Scan(&holder)
				l.Holders = append(l.Holders, holder)
				return err
			}, `SELECT run_id FROM run_changegroups WHERE name = ? AND state = 'holding' ORDER BY since, run_id LIMIT ?`, l.Group, namedHolders); err != nil {
				return err
			}
			out = append(out, l.GroupWait)
		}
		return nil
	})
	return out, err
}

// Places implements records.Store.
func (s *Store) Places(ctx context.Context, id run.ID) (map[int]int, error) {
	var out map[int]int
	err := s.read(ctx, "reading places in line", func(q Querier) error {
		out = make(map[int]int)
		var pools []string
		if err := each(ctx, q, func(row scanner) error {
			var pool string
			err := row.Scan(&pool)
			pools = append(pools, pool)
			return err
		}, `SELECT DISTINCT pool FROM tasks WHERE run_id = ? AND status = 'queued' ORDER BY pool`, id); err != nil {
			return err
		}
		for _, pool := range pools {
			place := 0
			if err := each(ctx, q, func(row scanner) error {
				var owner run.ID
				var number int
				err := row.Scan(&owner, &number)
				place++
				if owner == id {
					out[number] = place
				}
				return err
			}, `SELECT t.run_id, t.number FROM tasks t JOIN runs r ON r.id = t.run_id WHERE t.pool = ? AND t.status = 'queued'
				ORDER BY r.priority, t.queued_at, t.run_id, t.number`, pool); err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}
