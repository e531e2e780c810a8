package changegroups

import (
	"context"
	"slices"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore/rows"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

const (
	// grantBatch bounds the runs that one transaction admits.
	grantBatch = 50
	// queuePage is how many waiting runs one query reads.
	queuePage = 200
)

// Grant implements records.Store.
func (s *Store) Grant(ctx context.Context, name string) ([]run.ID, bool, error) {
	queue, err := s.nextAdmissible(ctx, name)
	if err != nil || len(queue) == 0 {
		return nil, false, err
	}
	ids := make([]run.ID, len(queue))
	for i := range queue {
		ids[i] = queue[i].ID
	}
	var granted []run.ID
	err = s.db.Write(ctx, "grant slots of a change group", func(t *sqldb.Tx) error {
		granted = nil
		runs, err := lockRuns(ctx, t, ids, t.Dialect.ForUpdate)
		if err != nil {
			return err
		}
		members, err := groupsOfAll(ctx, t, ids)
		if err != nil {
			return err
		}
		groups := []string{name}
		for _, id := range ids {
			groups = append(groups, members[id]...)
		}
		if err := LockGroups(ctx, t, groups, nil); err != nil {
			return err
		}
		for _, at := range queue {
			admitted, err := admitWaiting(ctx, t, runs[at.ID], at, members[at.ID])
			if err != nil {
				return err
			}
			if admitted {
				granted = append(granted, at.ID)
			}
		}
		return nil
	})
	// Grants for other groups may have admitted all of a full batch meanwhile, or filled the
	// other groups of its runs, and others wait behind them. The next search sees that, so a
	// batch is in vain only if something changed.
	return granted, err == nil && len(queue) == grantBatch, err
}

// nextAdmissible returns the first waiting runs of a group that may be admitted, in
// order, up to grantBatch. It locks nothing, so the caller must check each run
// again under locks. A change meanwhile enqueues another grant for the group. All waiting
// runs may be in the way, so it reads them in pages of their own, and no writer waits.
func (s *Store) nextAdmissible(ctx context.Context, name string) ([]QueueKey, error) {
	k := groupCache{limits: make(map[string]int), holding: make(map[string]int), full: make(map[string]bool)}
	var out []QueueKey
	var last *QueueKey
	for read := 0; len(out) < grantBatch; {
		var page, fitting []QueueKey
		err := s.db.Read(ctx, "read the queue of a change group", func(q sqldb.Querier) error {
			if err := k.load(ctx, q, name); err != nil {
				return err
			}
			n := queuePage
			if limit := k.limits[name]; limit > 0 { // the group itself admits no more
				n = min(n, limit-k.holding[name]-read)
			}
			var err error
			if page, err = readQueuePage(ctx, q, name, last, max(0, n)); err != nil {
				return err
			}
			fitting, err = admissible(ctx, q, page, &k)
			return err
		})
		if err != nil || len(page) == 0 {
			return out, err
		}
		last = &page[len(page)-1]
		read += len(page)
		out = append(out, fitting[:min(len(fitting), grantBatch-len(out))]...)
	}
	return out, nil
}

// groupCache caches the states of groups while a queue is read.
type groupCache struct {
	limits  map[string]int
	holding map[string]int // of groups with a limit
	// full holds the groups that admit no later run: the order is the same in
	// all queues.
	full map[string]bool
}

// admissible returns the runs of a page that may be admitted, up to grantBatch.
func admissible(ctx context.Context, q sqldb.Querier, page []QueueKey, k *groupCache) ([]QueueKey, error) {
	ids := make([]run.ID, len(page))
	for i := range page {
		ids[i] = page[i].ID
	}
	members := make(map[run.ID][]string, len(ids))
	if err := readMembers(ctx, q, ids, members); err != nil {
		return nil, err
	}
	var out []QueueKey
	for _, at := range page {
		fits, err := k.fits(ctx, q, members[at.ID], at)
		if err != nil {
			return nil, err
		}
		if !fits {
			continue
		}
		if out = append(out, at); len(out) == grantBatch {
			break
		}
	}
	return out, nil
}

// fits reports whether groups admit a run with its queue key.
func (k *groupCache) fits(ctx context.Context, q sqldb.Querier, groups []string, at QueueKey) (bool, error) {
	if slices.ContainsFunc(groups, func(name string) bool { return k.full[name] }) {
		return false, nil
	}
	fits := true
	for _, name := range groups {
		if err := k.load(ctx, q, name); err != nil {
			return false, err
		}
		if k.limits[name] == 0 {
			continue
		}
		n, err := CountAhead(ctx, q, name, at, k.limits[name])
		if err != nil {
			return false, err
		}
		if k.holding[name]+n >= k.limits[name] {
			k.full[name], fits = true, false
		}
	}
	return fits, nil
}

// load reads the limit of a group that is not cached, and, if it has one, how
// many runs hold a slot of it.
func (k *groupCache) load(ctx context.Context, q sqldb.Querier, name string) error {
	if _, known := k.limits[name]; known {
		return nil
	}
	var limit int
	if err := q.QueryRow(ctx, `SELECT coalesce((SELECT max_running FROM changegroups WHERE name = ?), 0)`, name).Scan(&limit); err != nil {
		return err
	}
	k.limits[name] = limit
	if limit == 0 {
		return nil
	}
	n, err := CountHolding(ctx, q, name)
	k.holding[name] = n
	return err
}

// readQueuePage returns up to n runs that wait in a group, after a queue key.
func readQueuePage(ctx context.Context, q sqldb.Querier, name string, after *QueueKey, n int) ([]QueueKey, error) {
	where, args := ``, []any{name}
	if after != nil {
		where, args = ` AND (priority, since, run_id) > (?, ?, ?)`, append(args, after.Priority, after.Since, after.ID)
	}
	var page []QueueKey
	err := sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
		var s QueueKey
		err := row.Scan(&s.ID, &s.Priority, &s.Since)
		page = append(page, s)
		return err
	}, `SELECT run_id, priority, since FROM run_changegroups WHERE name = ? AND state = 'waiting'`+NotDone+where+`
		ORDER BY priority, since, run_id LIMIT ?`, append(args, n)...)
	return page, err
}

// admitWaiting admits a waiting run, if it still waits and its groups have slots,
// and notifies its workflow. The run and its groups are locked.
func admitWaiting(ctx context.Context, t *sqldb.Tx, prev *rows.Run, at QueueKey, groups []string) (bool, error) {
	if prev == nil || prev.Phase != run.PhaseQueued {
		return false, nil
	}
	var waits bool
	if err := t.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM run_changegroups WHERE run_id = ? AND state = 'waiting')`, prev.ID).
		Scan(&waits); err != nil || !waits {
		return false, err
	}
	if admitted, err := groupsAdmit(ctx, t, groups, at); err != nil || !admitted {
		return false, err
	}
	r := prev.Clone()
	if err := AdmitRun(ctx, t, r); err != nil {
		return false, err
	}
	BumpVersions(t, groups...)
	if err := rows.SaveRun(ctx, t, prev, r); err != nil {
		return false, err
	}
	return true, t.Enqueue(ctx, r.ID, records.OutboxAdmit, 0)
}

// AdmitRun grants a run its slots and makes it running.
func AdmitRun(ctx context.Context, t *sqldb.Tx, r *rows.Run) error {
	r.Phase, r.Started, r.Admitted = run.PhaseRunning, t.Now, true
	t.Emit(r.Event(t.Now))
	if !r.Grouped {
		return nil
	}
	return SetSlotState(ctx, t, r.ID, SlotHolding, nextTime(t))
}
