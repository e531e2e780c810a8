package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// needLocksError is the error of a transaction that must start again with these runs
// locked.
type needLocksError []run.ID

// Error implements error. It is never shown.
func (n needLocksError) Error() string { return "more runs must be locked" }

// maxLockRetries bounds how often a transaction starts again because it must
// lock runs that others have locked. It is exceeded only if others change the
// same groups all the time.
const maxLockRetries = 50

// withRunLocks runs fn in a transaction. As long as fn returns needLocksError,
// displacing starts again with those runs locked first.
func (s *Store) withRunLocks(ctx context.Context, doing string, fn func(t *tx, preempted []run.ID) error) error {
	var preempted []run.ID
	for range maxLockRetries {
		err := s.write(ctx, doing, func(t *tx) error { return fn(t, slices.Clone(preempted)) })
		more, recheck := errors.AsType[needLocksError](err)
		if !recheck {
			return err
		}
		preempted = append(preempted, more...)
	}
	return run.Errorf(run.CodeUnavailable, "the change groups of the run change too fast; try again")
}

// tryAdmit reports whether a run may be admitted with its queue key. It first
// applies the on_busy policies of the run's groups. The groups are locked, and
// so is the run if it is stored already. Errors: changegroup_busy, and
// needLocksError.
func (t *tx) tryAdmit(ctx context.Context, groups []string, s queueKey) (bool, error) {
	// A reject policy wins, even if preemption in another group would free a
	// slot.
	for _, name := range groups {
		if locksOf(t).groups[name].onBusy != run.OnBusyReject {
			continue
		}
		if b, ok, err := t.busyFor(ctx, name, s); err != nil || ok {
			return false, cmp.Or(err, b.refusal())
		}
	}
	for _, name := range groups {
		b, ok, err := t.busyFor(ctx, name, s)
		if err != nil {
			return false, err
		}
		if !ok {
			continue
		}
		if err := t.preempt(ctx, b, s.id); err != nil {
			return false, err
		}
	}
	return t.groupsAdmit(ctx, groups, s)
}

func (b busy) refusal() error {
	others := ""
	if b.ahead > 0 {
		others = ", and others wait"
	}
	return run.Errorf(run.CodeChangeGroupBusy, "change group %s is busy: %d of %d slots are held%s", b.name, b.holding, b.maxRunning, others)
}

// preempt preempts runs of a busy group for another run.
func (t *tx) preempt(ctx context.Context, b busy, to run.ID) error {
	preempted, err := t.runsToPreempt(ctx, b)
	if err != nil {
		return err
	}
	if err := t.tryLockRuns(ctx, preempted); err != nil {
		return err
	}
	for _, id := range preempted {
		if err := t.preemptRun(ctx, id, to, b.name); err != nil {
			return err
		}
	}
	return nil
}

// runsToPreempt returns the runs that a busy group preempts.
func (t *tx) runsToPreempt(ctx context.Context, b busy) (ids []run.ID, err error) {
	switch b.onBusy {
	case run.OnBusyQueue, run.OnBusyReject:
		return nil, nil
	case run.OnBusyCancelQueued:
		return queryIDs(ctx, t, `SELECT run_id FROM run_changegroups WHERE name = ? AND state = 'waiting'`+notDone+`
			ORDER BY priority, since, run_id`, b.name)
	case run.OnBusyStopRunning:
		// Runs that are being stopped free their slots anyway.
		var stopping int
		if err := t.QueryRow(ctx, `SELECT count(*) FROM run_changegroups g JOIN runs r ON r.id = g.run_id
			WHERE g.name = ? AND g.state = 'holding' AND g.state <> 'done' AND r.stop_requested`, b.name).Scan(&stopping); err != nil {
			return nil, err
		}
		n := min(b.holding, b.holding+b.ahead+1-b.maxRunning) - stopping
		if n <= 0 {
			return nil, nil
		}
		return queryIDs(ctx, t, `SELECT g.run_id FROM run_changegroups g JOIN runs r ON r.id = g.run_id
			WHERE g.name = ? AND g.state = 'holding' AND g.state <> 'done' AND NOT r.stop_requested ORDER BY g.since, g.run_id LIMIT ?`, b.name, n)
	}
	return nil, nil
}

// tryLockRuns locks runs and their groups while other groups are locked already. It
// does not wait for a lock, since that could deadlock.
func (t *tx) tryLockRuns(ctx context.Context, ids []run.ID) error {
	ids = slices.DeleteFunc(slices.Clone(ids), func(id run.ID) bool { return locksOf(t).runs[id] != nil })
	if len(ids) == 0 {
		return nil
	}
	runs, err := t.lockRuns(ctx, ids, t.dialect.SkipLocked)
	if err != nil {
		return err
	}
	if len(runs) < len(ids) {
		return needLocksError(ids)
	}
	groups, err := t.groupsOfAll(ctx, ids)
	if err != nil {
		return err
	}
	var names []string
	for _, id := range ids {
		names = append(names, groups[id]...)
	}
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	names = slices.DeleteFunc(names, func(name string) bool { return locksOf(t).groups[name] != nil })
	if err := t.readGroups(ctx, names, t.dialect.SkipLocked); err != nil {
		return err
	}
	for _, name := range names {
		if locksOf(t).groups[name] == nil {
			return needLocksError(ids)
		}
	}
	maps.Copy(locksOf(t).runs, runs)
	return nil
}

// preemptRun preempts a run for another: it stops the run, or cancels it if it
// has not begun. The run and its groups are locked.
func (t *tx) preemptRun(ctx context.Context, preempted, by run.ID, group string) error {
	prev := locksOf(t).runs[preempted]
	r := prev.clone()
	reason := "run " + string(by) + " of change group " + group + " took its place"
	switch r.phase {
	case run.PhaseQueued:
		if err := t.cancel(ctx, r, reason); err != nil {
			return err
		}
	case run.PhaseRunning:
		if r.stopRequested {
			return nil
		}
		groups, err := t.groupsOf(ctx, r)
		if err != nil {
			return err
		}
		t.bumpVersions(groups...)
		r.stopRequested, r.reason = true, reason
		t.emit(r.event(t.now))
		if err := t.enqueue(ctx, r.id, records.OutboxStop, 0); err != nil {
			return err
		}
	default:
		return nil
	}
	if err := t.saveRun(ctx, prev, r); err != nil {
		return err
	}
	locksOf(t).runs[preempted] = r
	return nil
}

// lockRunsWithGroups locks runs that the transaction needs, and returns the names of
// their groups.
func (t *tx) lockRunsWithGroups(ctx context.Context, ids []run.ID) ([]string, error) {
	var err error
	if locksOf(t).runs, err = t.lockRuns(ctx, ids, t.dialect.ForUpdate); err != nil {
		return nil, err
	}
	var grouped []run.ID
	for id, r := range locksOf(t).runs {
		if r.grouped {
			grouped = append(grouped, id)
		}
	}
	var names []string
	of, err := t.groupsOfAll(ctx, grouped)
	for _, id := range grouped {
		names = append(names, of[id]...)
	}
	return names, err
}
