package sqlstore

import (
	"context"
	"slices"

	"github.com/drover-run/drover/records"
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
	var granted []run.ID
	more := false
	err := s.write(ctx, "grant slots of a change group", func(t *tx) error {
		granted, more = nil, false
		queue, err := t.nextAdmissible(ctx, name)
		if err != nil || len(queue) == 0 {
			return err
		}
		ids := make([]run.ID, len(queue))
		for i := range queue {
			ids[i] = queue[i].id
		}
		runs, err := t.lockRuns(ctx, ids, t.dialect.ForUpdate)
		if err != nil {
			return err
		}
		members, err := t.groupsOfAll(ctx, ids)
		if err != nil {
			return err
		}
		groups := []string{name}
		for _, id := range ids {
			groups = append(groups, members[id]...)
		}
		if err := t.lockGroups(ctx, groups); err != nil {
			return err
		}
		for _, at := range queue {
			admitted, err := t.admitWaiting(ctx, runs[at.id], at, members[at.id])
			if err != nil {
				return err
			}
			if admitted {
				granted = append(granted, at.id)
			}
		}
		more = len(queue) == grantBatch && len(granted) > 0
		return nil
	})
	return granted, more, err
}

// nextAdmissible returns the first waiting runs of a group that may be admitted, in
// order, up to grantBatch. It locks nothing, so the caller must check each run
// again under locks. A change meanwhile enqueues another grant for the group.
func (t *tx) nextAdmissible(ctx context.Context, name string) ([]queueKey, error) {
	k := groupCache{limits: make(map[string]int), holding: make(map[string]int), full: make(map[string]bool)}
	if err := k.load(ctx, t, name); err != nil {
		return nil, err
	}
	left := -1 // how many runs the group itself may still admit
	if k.limits[name] > 0 {
		left = max(0, k.limits[name]-k.holding[name])
	}
	var out []queueKey
	var last *queueKey
	for left != 0 && len(out) < grantBatch {
		n := queuePage
		if left > 0 {
			n = min(n, left)
		}
		page, err := readQueuePage(ctx, t, name, last, n)
		if err != nil || len(page) == 0 {
			return out, err
		}
		last = &page[len(page)-1]
		left -= len(page)
		fitting, err := t.admissible(ctx, page, &k)
		if err != nil {
			return nil, err
		}
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
func (t *tx) admissible(ctx context.Context, page []queueKey, k *groupCache) ([]queueKey, error) {
	ids := make([]run.ID, len(page))
	for i := range page {
		ids[i] = page[i].id
	}
	members, err := t.groupsOfAll(ctx, ids)
	if err != nil {
		return nil, err
	}
	var out []queueKey
	for _, at := range page {
		fits, err := k.fits(ctx, t, members[at.id], at)
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
func (k *groupCache) fits(ctx context.Context, q Querier, groups []string, at queueKey) (bool, error) {
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
		n, err := countAhead(ctx, q, name, at, k.limits[name])
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
func (k *groupCache) load(ctx context.Context, q Querier, name string) error {
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
	n, err := countHolding(ctx, q, name)
	k.holding[name] = n
	return err
}

// readQueuePage returns up to n runs that wait in a group, after a queue key.
func readQueuePage(ctx context.Context, q Querier, name string, after *queueKey, n int) ([]queueKey, error) {
	where, args := ``, []any{name}
	if after != nil {
		where, args = ` AND (priority, since, run_id) > (?, ?, ?)`, append(args, after.priority, after.since, after.id)
	}
	var page []queueKey
	err := each(ctx, q, func(row scanner) error {
		var s queueKey
		err := row.Scan(&s.id, &s.priority, &s.since)
		page = append(page, s)
		return err
	}, `SELECT run_id, priority, since FROM run_changegroups WHERE name = ? AND state = 'waiting'`+notDone+where+`
		ORDER BY priority, since, run_id LIMIT ?`, append(args, n)...)
	return page, err
}

// admitWaiting admits a waiting run, if it still waits and its groups have slots,
// and notifies its workflow. The run and its groups are locked.
func (t *tx) admitWaiting(ctx context.Context, prev *runRow, at queueKey, groups []string) (bool, error) {
	if prev == nil || prev.phase != run.PhaseQueued {
		return false, nil
	}
	var waits bool
	if err := t.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM run_changegroups WHERE run_id = ? AND state = 'waiting')`, prev.id).
		Scan(&waits); err != nil || !waits {
		return false, err
	}
	if admitted, err := t.groupsAdmit(ctx, groups, at); err != nil || !admitted {
		return false, err
	}
	r := prev.clone()
	if err := t.admitRun(ctx, r); err != nil {
		return false, err
	}
	t.bumpVersions(groups...)
	if err := t.saveRun(ctx, prev, r); err != nil {
		return false, err
	}
	return true, t.enqueue(ctx, r.id, records.OutboxAdmit, 0)
}

// admitRun grants a run its slots and makes it running.
func (t *tx) admitRun(ctx context.Context, r *runRow) error {
	r.phase, r.started, r.admitted = run.PhaseRunning, t.now, true
	t.emit(r.event(t.now))
	if !r.grouped {
		return nil
	}
	return t.setSlotState(ctx, r.id, slotHolding, t.nextTime())
}
