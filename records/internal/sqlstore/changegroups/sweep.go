package changegroups

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// SweepSlots implements records.Store.
func (s *Store) SweepSlots(ctx context.Context, n int) (int, error) {
	swept, err := s.releaseStale(ctx, n)
	return swept, errors.Join(err, s.grantOverdue(ctx))
}

// releaseStale releases the slots of up to n tasks that have ended, or no longer exist.
func (s *Store) releaseStale(ctx context.Context, n int) (int, error) {
	stale := make(map[run.ID][]int)
	if err := s.db.Read(ctx, "find slots that were left behind", func(q sqldb.Querier) error {
		clear(stale)
		return sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
			var id run.ID
			var task int
			err := row.Scan(&id, &task)
			stale[id] = append(stale[id], task)
			return err
		}, `SELECT DISTINCT s.run_id, s.task FROM task_slots s WHERE NOT (TRUE`+OpenTask+`) LIMIT ?`, n)
	}); err != nil {
		return 0, err
	}
	swept, failed := 0, error(nil)
	for _, id := range slices.Sorted(maps.Keys(stale)) {
		if err := s.db.Write(ctx, "release slots that were left behind", func(t *sqldb.Tx) error {
			if _, err := lockRuns(ctx, t, []run.ID{id}, t.Dialect.ForUpdate); err != nil { // it may not exist
				return err
			}
			names, err := GroupsWithSlots(ctx, t, id, stale[id])
			if err != nil {
				return err
			}
			if err := LockGroups(ctx, t, names, nil); err != nil {
				return err
			}
			return ReleaseTasks(ctx, t, id, stale[id])
		}); err != nil { // the others must not wait for this run
			failed = errors.Join(failed, err)
			continue
		}
		swept += len(stale[id])
	}
	return swept, failed
}

// grantOverdue enqueues a grant for each group whose next waiting task could have its slots.
// Such a grant is on its way already, unless a process of an earlier version has handled it:
// that one grants slots to runs alone.
func (s *Store) grantOverdue(ctx context.Context) error {
	var names []string
	if err := s.db.Read(ctx, "find change groups of waiting tasks", func(q sqldb.Querier) error {
		names = nil
		return sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
			var name string
			err := row.Scan(&name)
			names = append(names, name)
			return err
		}, `SELECT DISTINCT s.name FROM task_slots s WHERE s.state = 'waiting' ORDER BY s.name`)
	}); err != nil {
		return err
	}
	var failed error
	for _, name := range names {
		next, err := s.nextAdmissible(ctx, name)
		if err == nil && len(next) > 0 {
			err = s.db.Write(ctx, "enqueue a grant of slots", func(t *sqldb.Tx) error {
				return t.EnqueueOnce(ctx, run.ID(sqldb.GroupKey+name), records.OutboxGrant)
			})
		}
		failed = errors.Join(failed, err) // the other groups must not wait for this one
	}
	return failed
}
