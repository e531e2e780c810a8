package changegroups

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore/rows"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
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

// WithRunLocks runs fn in a transaction. As long as fn returns needLocksError,
// it starts again with those runs locked first.
func WithRunLocks(ctx context.Context, db *sqldb.DB, doing string, fn func(t *sqldb.Tx, preempted []run.ID) error) error {
	var preempted []run.ID
	for range maxLockRetries {
		err := db.Write(ctx, doing, func(t *sqldb.Tx) error { return fn(t, slices.Clone(preempted)) })
		more, recheck := errors.AsType[needLocksError](err)
		if !recheck {
			return err
		}
		preempted = append(preempted, more...)
	}
	return run.Errorf(run.CodeUnavailable, "the change groups of the run change too fast; try again")
}

// TryAdmit reports whether a run may be admitted with its queue key. It first
// applies the on_busy policies of the run's groups. The groups are locked, and
// so is the run if it is stored already. Errors: changegroup_busy, and
// needLocksError.
func TryAdmit(ctx context.Context, t *sqldb.Tx, groups []string, s QueueKey) (bool, error) {
	// A reject policy wins, even if preemption in another group would free a
	// slot.
	for _, name := range groups {
		if LocksOf(t).groups[name].onBusy != run.OnBusyReject {
			continue
		}
		if b, ok, err := busyFor(ctx, t, name, s); err != nil || ok {
			return false, cmp.Or(err, b.refusal())
		}
	}
	for _, name := range groups {
		b, ok, err := busyFor(ctx, t, name, s)
		if err != nil {
			return false, err
		}
		if !ok {
			continue
		}
		if err := preempt(ctx, t, b, s.ID); err != nil {
			return false, err
		}
	}
	return groupsAdmit(ctx, t, groups, s)
}

func (b busy) refusal() error {
	others := ""
	if b.ahead > 0 {
		others = ", and others wait"
	}
	return run.Errorf(run.CodeChangeGroupBusy, "change group %s is busy: %d of %d slots are held%s", b.name, b.holding, b.maxRunning, others)
}

// preempt preempts runs of a busy group for another run.
func preempt(ctx context.Context, t *sqldb.Tx, b busy, to run.ID) error {
	preempted, err := runsToPreempt(ctx, t, b)
	if err != nil {
		return err
	}
	if err := tryLockRuns(ctx, t, preempted); err != nil {
		return err
	}
	for _, id := range preempted {
		if err := preemptRun(ctx, t, id, to, b.name); err != nil {
			return err
		}
	}
	return nil
}

// runsToPreempt returns the runs that a busy group preempts.
func runsToPreempt(ctx context.Context, t *sqldb.Tx, b busy) (ids []run.ID, err error) {
	switch b.onBusy {
	case run.OnBusyQueue, run.OnBusyReject:
		return nil, nil
	case run.OnBusyCancelQueued:
		return sqldb.QueryIDs(ctx, t, `SELECT run_id FROM run_changegroups WHERE name = ? AND state = 'waiting'`+NotDone+`
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
		return sqldb.QueryIDs(ctx, t, `SELECT g.run_id FROM run_changegroups g JOIN runs r ON r.id = g.run_id
			WHERE g.name = ? AND g.state = 'holding' AND g.state <> 'done' AND NOT r.stop_requested ORDER BY g.since, g.run_id LIMIT ?`, b.name, n)
	}
	return nil, nil
}

// tryLockRuns locks runs and their groups while other groups are locked already. It
// does not wait for a lock, since that could deadlock.
func tryLockRuns(ctx context.Context, t *sqldb.Tx, ids []run.ID) error {
	locks := LocksOf(t)
	ids = slices.DeleteFunc(slices.Clone(ids), func(id run.ID) bool { return locks.Runs[id] != nil })
	if len(ids) == 0 {
		return nil
	}
	runs, err := lockRuns(ctx, t, ids, t.Dialect.SkipLocked)
	if err != nil {
		return err
	}
	if len(runs) < len(ids) {
		return needLocksError(ids)
	}
	groups, err := groupsOfAll(ctx, t, ids)
	if err != nil {
		return err
	}
	var names []string
	for _, id := range ids {
		names = append(names, groups[id]...)
	}
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	names = slices.DeleteFunc(names, func(name string) bool { return locks.groups[name] != nil })
	if err := readGroups(ctx, t, names, t.Dialect.SkipLocked); err != nil {
		return err
	}
	for _, name := range names {
		if locks.groups[name] == nil {
			return needLocksError(ids)
		}
	}
	maps.Copy(locks.Runs, runs)
	return nil
}

// preemptRun preempts a run for another: it stops the run, or cancels it if it
// has not begun. The run and its groups are locked.
func preemptRun(ctx context.Context, t *sqldb.Tx, preempted, by run.ID, group string) error {
	locks := LocksOf(t)
	prev := locks.Runs[preempted]
	r := prev.Clone()
	reason := "run " + string(by) + " of change group " + group + " took its place"
	switch r.Phase {
	case run.PhaseQueued:
		if err := Cancel(ctx, t, r, reason); err != nil {
			return err
		}
	case run.PhaseRunning:
		if r.StopRequested {
			return nil
		}
		groups, err := GroupsOf(ctx, t, r)
		if err != nil {
			return err
		}
		BumpVersions(t, groups...)
		r.StopRequested, r.Reason = true, reason
		t.Emit(r.Event(t.Now))
		if err := t.Enqueue(ctx, r.ID, records.OutboxStop, 0); err != nil {
			return err
		}
	default:
		return nil
	}
	if err := rows.SaveRun(ctx, t, prev, r); err != nil {
		return err
	}
	locks.Runs[preempted] = r
	return nil
}

// LockRunsWithGroups locks runs that the transaction needs, and returns the names of
// their groups.
func LockRunsWithGroups(ctx context.Context, t *sqldb.Tx, ids []run.ID) ([]string, error) {
	locks := LocksOf(t)
	var err error
	if locks.Runs, err = lockRuns(ctx, t, ids, t.Dialect.ForUpdate); err != nil {
		return nil, err
	}
	var grouped []run.ID
	for id, r := range locks.Runs {
		if r.Grouped {
			grouped = append(grouped, id)
		}
	}
	var names []string
	of, err := groupsOfAll(ctx, t, grouped)
	for _, id := range grouped {
		names = append(names, of[id]...)
	}
	return names, err
}

// Cancel ends a queued run whose groups are locked. reason is "" if a client
// cancelled it.
func Cancel(ctx context.Context, t *sqldb.Tx, r *rows.Run, reason string) error {
	r.Phase, r.Ended, r.Reason = run.PhaseCancelled, t.Now, reason
	tasks, err := rows.QueryTasks(ctx, t, `run_id = ? ORDER BY number`, r.ID)
	if err != nil {
		return err
	}
	if err := rows.CloseTasks(ctx, t, r, tasks, func(*rows.Task) (run.Status, string) {
		return run.StatusCancelled, "the run was cancelled before it began"
	}); err != nil {
		return err
	}
	groups, err := GroupsOf(ctx, t, r)
	if err != nil {
		return err
	}
	if err := ReleaseSlots(ctx, t, r.ID, groups); err != nil {
		return err
	}
	t.Emit(r.Event(t.Now))
	return t.Enqueue(ctx, r.ID, records.OutboxCancel, 0)
}
