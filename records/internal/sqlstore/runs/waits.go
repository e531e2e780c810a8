package runs

import (
	"context"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore/changegroups"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

const (
	// namedHolders is how many of the runs that hold a slot are listed.
	namedHolders = 3
	// maxAhead is how many waiting runs ahead of a run are counted, unless the group has
	// more slots.
	maxAhead = 2_000
)

// GroupWaits implements records.Store.
func (s *Store) GroupWaits(ctx context.Context, id run.ID) ([]records.GroupWait, error) {
	var out []records.GroupWait
	err := s.db.Read(ctx, "read the group waits of a run", func(q sqldb.Querier) error {
		out = nil
		at := changegroups.QueueKey{ID: id}
		if err := sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
			var w records.GroupWait
			err := row.Scan(&w.Group, &w.MaxRunning, &at.Priority, &at.Since)
			out = append(out, w)
			return err
		}, `SELECT g.name, g.max_running, r.priority, r.since FROM run_changegroups r JOIN changegroups g ON g.name = r.name
			WHERE r.run_id = ? AND r.state = 'waiting' AND g.max_running > 0 ORDER BY g.name`, id); err != nil {
			return err
		}
		if len(out) == 0 {
			_, err := summary(ctx, q, id)
			return err
		}
		for i := range out {
			if err := readWait(ctx, q, at, &out[i]); err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

// readWait reads the state of a group for a run with its queue key.
func readWait(ctx context.Context, q sqldb.Querier, at changegroups.QueueKey, w *records.GroupWait) error {
	var err error
	if w.Holding, err = changegroups.CountHolding(ctx, q, w.Group); err != nil {
		return err
	}
	limit := max(maxAhead, w.MaxRunning)
	ahead, err := changegroups.CountAhead(ctx, q, w.Group, at, limit)
	if err != nil {
		return err
	}
	w.Position, w.Later = ahead+1, ahead == limit
	w.Holders, err = sqldb.QueryIDs(ctx, q, `SELECT run_id FROM run_changegroups WHERE name = ? AND state = 'holding'`+changegroups.NotDone+`
		ORDER BY since, run_id LIMIT ?`, w.Group, namedHolders)
	return err
}

// QueuePositions implements records.Store.
func (s *Store) QueuePositions(ctx context.Context, id run.ID) (map[int]int, error) {
	var out map[int]int
	err := s.db.Read(ctx, "read queue positions", func(q sqldb.Querier) error {
		out = make(map[int]int)
		return sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
			var number, position int
			err := row.Scan(&number, &position)
			out[number] = position
			return err
			// The list of statuses is that of an index of tasks.
		}, `SELECT number, place FROM (
				SELECT t.run_id, t.number, row_number() OVER (PARTITION BY t.pool, t.labels ORDER BY r.priority, t.queued_at, t.run_id, t.number) AS place
				FROM tasks t JOIN runs r ON r.id = t.run_id WHERE t.status IN ('queued', 'running') AND t.status = 'queued'
				AND t.pool IN (SELECT m.pool FROM tasks m WHERE m.run_id = ? AND m.status = 'queued')) AS line
			WHERE run_id = ?`, id, id)
	})
	return out, err
}
