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
	// linePage is how many waiting runs one query reads.
	linePage = 200
)

// Grant implements records.Store.
func (s *Store) Grant(ctx context.Context, name string) ([]run.ID, bool, error) {
	var granted []run.ID
	more := false
	err := s.write(ctx, "grant slots of a change group", func(t *tx) error {
		granted, more = nil, false
		line, err := t.next(ctx, name)
		if err != nil || len(line) == 0 {
			return err
		}
		ids := make([]run.ID, len(line))
		for i := range line {
			ids[i] = line[i].id
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
		for _, at := range line {
			in, err := t.letWaiting(ctx, runs[at.id], at, members[at.id])
			if err != nil {
				return err
			}
			if in {
				granted = append(granted, at.id)
			}
		}
		more = len(line) == grantBatch && len(granted) > 0
		return nil
	})
	return granted, more, err
}

// next returns the first waiting runs of a group that may be admitted, in
// order, up to grantBatch. It locks nothing, so the caller must check each run
// again under locks. A change meanwhile enqueues another grant for the group.
func (t *tx) next(ctx context.Context, name string) ([]spot, error) {
	k := knowledge{limits: make(map[string]int), holding: make(map[string]int), full: make(map[string]bool)}
	if err := k.learn(ctx, t, name); err != nil {
		return nil, err
	}
	left := -1 // how many runs the group itself may still admit
	if k.limits[name] > 0 {
		left = max(0, k.limits[name]-k.holding[name])
	}
	var out []spot
	var last *spot
	for left != 0 && len(out) < grantBatch {
		n := linePage
		if left > 0 {
			n = min(n, left)
		}
		page, err := linePageAfter(ctx, t, name, last, n)
		if err != nil || len(page) == 0 {
			return out, err
		}
		last = &page[len(page)-1]
		left -= len(page)
		fitting, err := t.fitting(ctx, page, &k)
		if err != nil {
			return nil, err
		}
		out = append(out, fitting[:min(len(fitting), grantBatch-len(out))]...)
	}
	return out, nil
}

// knowledge caches the states of groups while a queue is read.
type knowledge struct {
	limits  map[string]int
	holding map[string]int // of groups with a limit
	// full holds the groups that admit no later run: the order is the same in
	// all queues.
	full map[string]bool
}

// fitting returns the runs of a page that may be admitted, up to grantBatch.
func (t *tx) fitting(ctx context.Context, page []spot, k *knowledge) ([]spot, error) {
	ids := make([]run.ID, len(page))
	for i := range page {
		ids[i] = page[i].id
	}
	members, err := t.groupsOfAll(ctx, ids)
	if err != nil {
		return nil, err
	}
	var out []spot
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
func (k *knowledge) fits(ctx context.Context, q Querier, groups []string, at spot) (bool, error) {
	if slices.ContainsFunc(groups, func(name string) bool { return k.full[name] }) {
		return false, nil
	}
	fits := true
	for _, name := range groups {
		if err := k.learn(ctx, q, name); err != nil {
			return false, err
		}
		if k.limits[name] == 0 {
			continue
		}
		n, err := before(ctx, q, name, at, k.limits[name])
		if err != nil {
			return false, err
		}
		if k.holding[name]+n >= k.limits[name] {
			k.full[name], fits = true, false
		}
	}
	return fits, nil
}

// learn reads the limit of a group that is not cached, and, if it has one, how
// many runs hold a slot of it.
func (k *knowledge) learn(ctx context.Context, q Querier, name string) error {
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
	n, err := holding(ctx, q, name)
	k.holding[name] = n
	return err
}

// linePageAfter returns up to n runs that wait in a group, after a queue key.
func linePageAfter(ctx context.Context, q Querier, name string, after *spot, n int) ([]spot, error) {
	where, args := ``, []any{name}
	if after != nil {
		where, args = ` AND (priority, since, run_id) > (?, ?, ?)`, append(args, after.priority, after.since, after.id)
	}
	var page []spot
	err := each(ctx, q, func(row scanner) error {
		var s spot
		err := row.Scan(&s.id, &s.priority, &s.since)
		page = append(page, s)
		return err
	}, `SELECT run_id, priority, since FROM run_changegroups WHERE name = ? AND state = 'waiting'`+standing+where+`
		ORDER BY priority, since, run_id LIMIT ?`, append(args, n)...)
	return page, err
}

// letWaiting admits a waiting run, if it still waits and its groups have slots,
// and notifies its workflow. The run and its groups are locked.
func (t *tx) letWaiting(ctx context.Context, was *runRow, at spot, groups []string) (bool, error) {
	if was == nil || was.phase != run.PhaseQueued {
		return false, nil
	}
	var waits bool
	if err := t.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM run_changegroups WHERE run_id = ? AND state = 'waiting')`, was.id).
		Scan(&waits); err != nil || !waits {
		return false, err
	}
	if in, err := t.mayEnter(ctx, groups, at); err != nil || !in {
		return false, err
	}
	r := was.clone()
	if err := t.letIn(ctx, r); err != nil {
		return false, err
	}
	t.renew(groups...)
	if err := t.saveRun(ctx, was, r); err != nil {
		return false, err
	}
	return true, t.tell(ctx, r.id, records.OutboxAdmit, 0)
}

// letIn grants a run its slots and makes it running.
func (t *tx) letIn(ctx context.Context, r *runRow) error {
	r.phase, r.started, r.admitted = run.PhaseRunning, t.now, true
	t.emit(r.event(t.now))
	if !r.grouped {
		return nil
	}
	return t.stand(ctx, r.id, placeHolding, t.tick())
}
