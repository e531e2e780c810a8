package runs

import (
	"context"
	"maps"
	"slices"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore/changegroups"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// maxAhead is how many waiting runs ahead of a run are counted, unless the group has
// more slots.
const maxAhead = 2_000

// GroupWaits implements records.Store.
func (s *Store) GroupWaits(ctx context.Context, id run.ID) ([]records.GroupWait, error) {
	var out []records.GroupWait
	err := s.db.Read(ctx, "read the group waits of a run", func(q sqldb.Querier) error {
		out = nil
		at := changegroups.KeyOfRun(id, 0, 0)
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

// TaskWaits implements records.Store.
func (s *Store) TaskWaits(ctx context.Context, id run.ID) (map[int][]records.GroupWait, error) {
	var out map[int][]records.GroupWait
	err := s.db.Read(ctx, "read what tasks of a run wait for", func(q sqldb.Querier) error {
		out = make(map[int][]records.GroupWait)
		groups := make(map[string]records.GroupWait)
		if err := sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
			var w records.GroupWait
			err := row.Scan(&w.Group, &w.MaxRunning)
			groups[w.Group] = w
			return err
		}, `SELECT g.name, g.max_running FROM changegroups g WHERE g.max_running > 0
			AND g.name IN (SELECT s.name FROM task_slots s WHERE s.run_id = ? AND s.state = 'waiting')`, id); err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(groups)) {
			w := groups[name]
			if err := readHolders(ctx, q, &w); err != nil {
				return err
			}
			if err := addTaskWaits(ctx, q, id, w, out); err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

// addTaskWaits adds the state of a group for each task of a run that waits in it. The first
// ones of the queue have their positions.
func addTaskWaits(ctx context.Context, q sqldb.Querier, id run.ID, w records.GroupWait, out map[int][]records.GroupWait) error {
	type place struct{ position, ahead int }
	places := make(map[int]place)
	next := place{position: 1}
	if err := sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
		var of run.ID
		var task, units int
		err := row.Scan(&of, &task, &units)
		if of == id {
			places[task] = next
		}
		next.position++
		next.ahead += units
		return err
	}, `SELECT s.run_id, s.task, s.units FROM task_slots s WHERE s.name = ? AND s.state = 'waiting'`+changegroups.OpenTask+`
		ORDER BY s.priority, s.since, s.run_id, s.task LIMIT ?`, w.Group, max(maxAhead, w.MaxRunning)); err != nil {
		return err
	}
	return sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
		var task int
		at := w
		err := row.Scan(&task, &at.Units)
		p, known := places[task]
		if !known {
			p = next
		}
		at.Position, at.Ahead, at.Later = p.position, p.ahead, !known
		out[task] = append(out[task], at)
		return err
	}, `SELECT s.task, s.units FROM task_slots s WHERE s.run_id = ? AND s.name = ? AND s.state = 'waiting'`+changegroups.OpenTask+` ORDER BY s.task`, id, w.Group)
}

// readWait reads the state of a group for a run with its queue key.
func readWait(ctx context.Context, q sqldb.Querier, at changegroups.QueueKey, w *records.GroupWait) error {
	if err := readHolders(ctx, q, w); err != nil {
		return err
	}
	limit := max(maxAhead, w.MaxRunning)
	waiters, slots, err := changegroups.Ahead(ctx, q, w.Group, at, limit)
	if err != nil {
		return err
	}
	w.Position, w.Ahead, w.Later = waiters+1, slots, waiters >= limit
	return nil
}

// readHolders reads how many slots of a group are held, and by whom.
func readHolders(ctx context.Context, q sqldb.Querier, w *records.GroupWait) error {
	var err error
	if w.Holding, err = changegroups.CountHolding(ctx, q, w.Group); err != nil {
		return err
	}
	w.Holders, err = sqldb.QueryIDs(ctx, q, `SELECT run_id FROM (
			SELECT run_id, since FROM run_changegroups WHERE name = ? AND state = 'holding'`+changegroups.NotDone+`
			UNION ALL SELECT s.run_id, s.since FROM task_slots s WHERE s.name = ? AND s.state = 'holding'`+changegroups.OpenTask+`) AS holders
		GROUP BY run_id ORDER BY min(since), run_id LIMIT ?`, w.Group, w.Group, records.NamedHolders)
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
