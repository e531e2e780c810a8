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

// Grant implements records.Store. Tasks come first: see QueueKey.
func (s *Store) Grant(ctx context.Context, name string) ([]records.Grant, bool, error) {
	queue, err := s.nextAdmissible(ctx, name)
	if err != nil || len(queue) == 0 {
		return nil, false, err
	}
	var granted []records.Grant
	err = s.db.Write(ctx, "grant slots of a change group", func(t *sqldb.Tx) error {
		granted = nil
		runs, err := lockWaiting(ctx, t, name, queue)
		if err != nil {
			return err
		}
		for _, w := range queue {
			admit := admitWaiting
			if w.Task != ofRun {
				admit = grantTask
			}
			admitted, err := admit(ctx, t, runs, w)
			if err != nil {
				return err
			}
			if admitted {
				granted = append(granted, records.Grant{Run: w.ID, Task: w.Task})
			}
		}
		return notifyGranted(ctx, t, runs, granted)
	})
	// Grants for other groups may have admitted all of a full batch meanwhile, or filled the
	// other groups of its runs, and others wait behind them. The next search sees that, so a
	// batch is in vain only if something changed.
	return granted, err == nil && len(queue) == grantBatch, err
}

// lockWaiting locks the runs of entries of a queue, and all groups of these entries.
func lockWaiting(ctx context.Context, t *sqldb.Tx, name string, queue []waiter) (map[run.ID]*rows.Run, error) {
	ids, groups := make([]run.ID, len(queue)), []string{name}
	for i, w := range queue {
		ids[i] = w.ID
		for _, d := range w.demands {
			groups = append(groups, d.group)
		}
	}
	runs, err := lockRuns(ctx, t, ids, t.Dialect.ForUpdate)
	if err != nil {
		return nil, err
	}
	for _, w := range queue {
		if r := runs[w.ID]; w.Task == ofRun && r != nil {
			of, err := GroupsOfTasks(ctx, t, r)
			if err != nil {
				return nil, err
			}
			groups = append(groups, of...)
		}
	}
	return runs, LockGroups(ctx, t, groups, nil)
}

// waiter is a run or a task that waits, with all that it needs.
type waiter struct {
	QueueKey

	demands []demand
}

// nextAdmissible returns the first that wait in a group and may be admitted, in
// order, up to grantBatch. It locks nothing, so the caller must check each of them
// again under locks. A change meanwhile enqueues another grant for the group. All that
// wait may be in the way, so it reads them in pages of their own, and no writer waits.
func (s *Store) nextAdmissible(ctx context.Context, name string) ([]waiter, error) {
	k := groupCache{limits: make(map[string]int), holding: make(map[string]int), full: make(map[string]bool)}
	read := 0
	out, err := s.nextOf(ctx, name, &k, grantBatch, &read, readTaskPage)
	if err != nil || len(out) == grantBatch {
		return out, err
	}
	runs, err := s.nextOf(ctx, name, &k, grantBatch-len(out), &read, readRunPage)
	return append(out, runs...), err
}

// nextOf returns up to n admissible ones of those that readPage reads. read counts all that
// were read.
func (s *Store) nextOf(ctx context.Context, name string, k *groupCache, n int, read *int, readPage pageReader) ([]waiter, error) {
	var out []waiter
	var last *QueueKey
	for len(out) < n {
		var page, fitting []waiter
		err := s.db.Read(ctx, "read the queue of a change group", func(q sqldb.Querier) error {
			if err := k.load(ctx, q, name); err != nil {
				return err
			}
			size := queuePage
			if limit := k.limits[name]; limit > 0 { // the group itself admits no more
				size = min(size, limit-k.holding[name]-*read)
			}
			var err error
			if page, err = readPage(ctx, q, name, last, max(0, size)); err != nil {
				return err
			}
			fitting, err = k.admissible(ctx, q, page, n-len(out))
			return err
		})
		if err != nil || len(page) == 0 {
			return out, err
		}
		last = &page[len(page)-1].QueueKey
		*read += len(page)
		out = append(out, fitting...)
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

// admissible returns those of a page that may be admitted, up to n.
func (k *groupCache) admissible(ctx context.Context, q sqldb.Querier, page []waiter, n int) ([]waiter, error) {
	var out []waiter
	for _, w := range page {
		fits, err := k.fits(ctx, q, w)
		if err != nil {
			return nil, err
		}
		if !fits {
			continue
		}
		if out = append(out, w); len(out) == n {
			break
		}
	}
	return out, nil
}

// fits reports whether groups admit a run or a task.
func (k *groupCache) fits(ctx context.Context, q sqldb.Querier, w waiter) (bool, error) {
	if slices.ContainsFunc(w.demands, func(d demand) bool { return k.full[d.group] }) {
		return false, nil
	}
	all := true
	for _, d := range w.demands {
		if err := k.load(ctx, q, d.group); err != nil {
			return false, err
		}
		limit := k.limits[d.group]
		if limit == 0 {
			continue
		}
		n, err := CountAhead(ctx, q, d.group, w.QueueKey, limit)
		if err != nil {
			return false, err
		}
		if !fits(k.holding[d.group]+n, d.units, limit) {
			k.full[d.group], all = true, false
		}
	}
	return all, nil
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

// pageReader returns up to n that wait in a group, after a queue key.
type pageReader func(ctx context.Context, q sqldb.Querier, name string, after *QueueKey, n int) ([]waiter, error)

// readRunPage reads the runs that wait in a group.
func readRunPage(ctx context.Context, q sqldb.Querier, name string, after *QueueKey, n int) ([]waiter, error) {
	where, args := ``, []any{name}
	if after != nil {
		where, args = ` AND (priority, since, run_id) > (?, ?, ?)`, append(args, after.Priority, after.Since, after.ID)
	}
	var page []waiter
	var ids []run.ID
	if err := sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
		w := waiter{QueueKey: KeyOfRun("", 0, 0)}
		err := row.Scan(&w.ID, &w.Priority, &w.Since)
		page, ids = append(page, w), append(ids, w.ID)
		return err
	}, `SELECT run_id, priority, since FROM run_changegroups WHERE name = ? AND state = 'waiting'`+NotDone+where+`
		ORDER BY priority, since, run_id LIMIT ?`, append(args, n)...); err != nil {
		return nil, err
	}
	members := make(map[run.ID][]string, len(ids))
	if err := readMembers(ctx, q, ids, members); err != nil {
		return nil, err
	}
	for i := range page {
		page[i].demands = demandsOfRun(members[page[i].ID])
	}
	return page, nil
}

// admitWaiting admits a waiting run, if it still waits and its groups have slots,
// and notifies its workflow. The run and its groups are locked.
func admitWaiting(ctx context.Context, t *sqldb.Tx, runs map[run.ID]*rows.Run, w waiter) (bool, error) {
	prev := runs[w.ID]
	if prev == nil || prev.Phase != run.PhaseQueued {
		return false, nil
	}
	var waits bool
	if err := t.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM run_changegroups WHERE run_id = ? AND state = 'waiting')`, prev.ID).
		Scan(&waits); err != nil || !waits {
		return false, err
	}
	if admitted, err := groupsAdmit(ctx, t, w.demands, w.QueueKey); err != nil || !admitted {
		return false, err
	}
	r := prev.Clone()
	if err := AdmitRun(ctx, t, r); err != nil {
		return false, err
	}
	ofTasks, err := GroupsOfTasks(ctx, t, r)
	if err != nil {
		return false, err
	}
	BumpVersions(t, ofTasks...)
	for _, d := range w.demands {
		BumpVersions(t, d.group)
	}
	if err := rows.SaveRun(ctx, t, prev, r); err != nil {
		return false, err
	}
	runs[w.ID] = r
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
