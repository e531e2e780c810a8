package sqlstore

import (
	"context"
	"slices"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// grantBatch bounds the runs that are let in by one transaction.
const grantBatch = 50

// Grant implements records.Store.
func (s *Store) Grant(ctx context.Context, name string) ([]run.ID, bool, error) {
	var granted []run.ID
	more := false
	err := s.write(ctx, "granting slots of a change group", func(t *tx) error {
		granted, more = nil, false
		ids, err := t.candidates(ctx, name)
		if err != nil || len(ids) == 0 {
			return err
		}
		more = len(ids) == grantBatch
		runs, err := t.lockRuns(ctx, ids)
		if err != nil {
			return err
		}
		groups := []string{name}
		members := make(map[run.ID][]string, len(runs))
		for _, r := range runs {
			if members[r.id], err = groupsOf(ctx, t, r); err != nil {
				return err
			}
			groups = append(groups, members[r.id]...)
		}
		if err := t.lockGroups(ctx, groups); err != nil {
			return err
		}
		for _, id := range ids {
			in, err := t.letWaiting(ctx, runs[id], members[id])
			if err != nil {
				return err
			}
			if in {
				granted = append(granted, id)
			}
		}
		if len(granted) == 0 {
			more = false
			return nil
		}
		return t.bump(ctx)
	})
	return granted, more, err
}

// candidates returns the first of those who wait in a group, as many as it has
// slots free: nobody else may be let in. The group is not locked yet.
func (t *tx) candidates(ctx context.Context, name string) ([]run.ID, error) {
	var limit, holding int
	if err := t.QueryRow(ctx, `SELECT coalesce((SELECT max_running FROM changegroups WHERE name = ?), 0),
		(SELECT count(*) FROM run_changegroups WHERE name = ? AND state = 'holding')`, name, name).Scan(&limit, &holding); err != nil {
		return nil, err
	}
	n := grantBatch
	if limit > 0 {
		n = min(n, limit-holding)
	}
	if n <= 0 {
		return nil, nil
	}
	var ids []run.ID
	err := each(ctx, t, func(row scanner) error {
		var id run.ID
		err := row.Scan(&id)
		ids = append(ids, id)
		return err
	}, `SELECT run_id FROM run_changegroups WHERE name = ? AND state = 'waiting' ORDER BY priority, since, run_id LIMIT ?`, name, n)
	return ids, err
}

// lockRuns locks runs, in the order of their ids. Those that are gone are left
// out.
func (t *tx) lockRuns(ctx context.Context, ids []run.ID) (map[run.ID]*runRow, error) {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	runs := make(map[run.ID]*runRow, len(ids))
	if len(ids) == 0 {
		return runs, nil
	}
	err := each(ctx, t, func(row scanner) error {
		var r runRow
		err := r.scan(row)
		runs[r.id] = &r
		return err
	}, `SELECT `+runColumns+` FROM runs r WHERE r.id IN (`+tuples(`?`, len(ids))+`) ORDER BY r.id`+t.dialect.ForUpdate, texts(ids)...)
	return runs, err
}

// letWaiting lets a run in that waits, if it may be, and tells its workflow.
// The run and its groups are locked.
func (t *tx) letWaiting(ctx context.Context, was *runRow, groups []string) (bool, error) {
	if was == nil || was.phase != run.PhaseQueued {
		return false, nil
	}
	var state place
	var since int64
	if err := t.QueryRow(ctx, `SELECT min(state), min(since) FROM run_changegroups WHERE run_id = ?`, was.id).Scan(&state, &since); err != nil || state != placeWaiting {
		return false, err
	}
	obstacles, err := t.obstacles(ctx, groups, was.priority, since, was.id)
	if err != nil || len(obstacles) > 0 {
		return false, err
	}
	r := was.clone()
	if err := t.letIn(ctx, r); err != nil {
		return false, err
	}
	if err := t.saveRun(ctx, was, r); err != nil {
		return false, err
	}
	return true, t.tell(ctx, r.id, records.OutboxAdmit, 0)
}

// letIn gives a run its slots and makes it running.
func (t *tx) letIn(ctx context.Context, r *runRow) error {
	r.phase, r.started, r.admitted = run.PhaseRunning, t.now, true
	t.emit(r.event(t.now))
	return t.stand(ctx, r.id, placeHolding)
}

// needed says that a transaction must be begun anew with these runs locked.
type needed []run.ID

// Error implements error. It is never shown.
func (n needed) Error() string { return "more runs must be locked" }

// admission lets a run in, or finds its place in the line after what the
// groups' policies say was done. locked has the other runs that the transaction
// has locked; where more are needed, the error is of type needed. The run and
// its groups are locked, and so are the groups of those that are locked.
func (t *tx) admission(ctx context.Context, id run.ID, groups []string, priority int, locked map[run.ID]*runRow) (in bool, err error) {
	obstacles, err := t.obstacles(ctx, groups, priority, t.now, id)
	if err != nil || len(obstacles) == 0 {
		return len(obstacles) == 0, err
	}
	var missing needed
	for _, b := range obstacles {
		victims, err := t.victims(ctx, b, id)
		if err != nil {
			return false, err
		}
		for _, v := range victims {
			if locked[v] == nil {
				missing = append(missing, v)
			}
		}
	}
	if len(missing) > 0 {
		return false, missing
	}
	for _, b := range obstacles {
		victims, err := t.victims(ctx, b, id)
		if err != nil {
			return false, err
		}
		for _, v := range victims {
			if err := t.displace(ctx, locked, v, id, b.name); err != nil {
				return false, err
			}
		}
	}
	obstacles, err = t.obstacles(ctx, groups, priority, t.now, id)
	return len(obstacles) == 0, err
}

// victims returns the runs that must give way in a busy group. Errors:
// changegroup_busy.
func (t *tx) victims(ctx context.Context, b busy, id run.ID) ([]run.ID, error) {
	query, args := "", []any{b.name, id}
	switch b.onBusy {
	case run.OnBusyQueue:
		return nil, nil
	case run.OnBusyReject:
		return nil, run.Errorf(run.CodeChangeGroupBusy, "change group %s is busy: %d of %d slots are held and %d runs wait before this one",
			b.name, b.holding, b.maxRunning, b.before)
	case run.OnBusyCancelQueued:
		query = `SELECT run_id FROM run_changegroups WHERE name = ? AND state = 'waiting' AND run_id <> ?`
	case run.OnBusyStopRunning:
		// Those that are being stopped make room already.
		var stopping int
		if err := t.QueryRow(ctx, `SELECT count(*) FROM run_changegroups g JOIN runs r ON r.id = g.run_id
			WHERE g.name = ? AND g.state = 'holding' AND r.stop_wanted`, b.name).Scan(&stopping); err != nil {
			return nil, err
		}
		n := min(b.holding, b.holding+b.before+1-b.maxRunning) - stopping
		if n <= 0 {
			return nil, nil
		}
		query = `SELECT g.run_id FROM run_changegroups g JOIN runs r ON r.id = g.run_id
			WHERE g.name = ? AND g.state = 'holding' AND g.run_id <> ? AND NOT r.stop_wanted ORDER BY g.since, g.run_id LIMIT ?`
		args = append(args, n)
	}
	var ids []run.ID
	err := each(ctx, t, func(row scanner) error {
		var v run.ID
		err := row.Scan(&v)
		ids = append(ids, v)
		return err
	}, query, args...)
	return ids, err
}

// displace stops a run, or cancels it where it has not begun, for another.
func (t *tx) displace(ctx context.Context, locked map[run.ID]*runRow, victim, by run.ID, group string) error {
	was := locked[victim]
	r := was.clone()
	reason := "a newer run of change group " + group + " took its place"
	if by != "" {
		reason = "run " + string(by) + " of change group " + group + " took its place"
	}
	switch r.phase { //nolint:exhaustive // the others are final
	case run.PhaseQueued:
		if err := t.cancel(ctx, r, reason); err != nil {
			return err
		}
		r.reason = reason
	case run.PhaseRunning:
		if r.stopWanted {
			return nil
		}
		r.stopWanted, r.reason = true, reason
		t.emit(r.event(t.now))
		if err := t.tell(ctx, r.id, records.OutboxStop, 0); err != nil {
			return err
		}
	default:
		return nil
	}
	if err := t.saveRun(ctx, was, r); err != nil {
		return err
	}
	*was = *r
	return nil
}

// lockVictims locks the runs that a transaction found that it needs, and
// returns the names of their groups.
func (t *tx) lockVictims(ctx context.Context, victims []run.ID) (map[run.ID]*runRow, []string, error) {
	locked, err := t.lockRuns(ctx, victims)
	if err != nil {
		return nil, nil, err
	}
	var groups []string
	for _, r := range locked {
		names, err := groupsOf(ctx, t, r)
		if err != nil {
			return nil, nil, err
		}
		groups = append(groups, names...)
	}
	return locked, groups, nil
}
