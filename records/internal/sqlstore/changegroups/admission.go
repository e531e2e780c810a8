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
// it starts again with those runs locked first. If fn would preempt too many runs, they are
// preempted in transactions of their own before it starts again; fn gets the token as it is
// after them.
func WithRunLocks(ctx context.Context, db *sqldb.DB, doing string, token run.Token,
	fn func(t *sqldb.Tx, preempted []run.ID, token run.Token) error,
) error {
	var preempted []run.ID
	for retries := 0; retries < maxLockRetries; {
		err := db.Write(ctx, doing, func(t *sqldb.Tx) error { return fn(t, slices.Clone(preempted), token) })
		if more, ok := errors.AsType[needLocksError](err); ok {
			preempted = append(preempted, more...)
			retries++
			continue
		}
		crowded, ok := errors.AsType[*crowdedError](err)
		if !ok {
			return err
		}
		if token, err = preemptSome(ctx, db, crowded, token); err != nil {
			return err
		}
		preempted = nil
	}
	return run.Errorf(run.CodeUnavailable, "the change groups of the run change too fast; try again")
}

// TryAdmit reports whether a run may be admitted with its queue key. It first
// applies the on_busy policies of the run's groups. The groups are locked, and
// so is the run if it is stored already. Errors: changegroup_busy,
// needLocksError and crowdedError.
func TryAdmit(ctx context.Context, t *sqldb.Tx, groups []string, s QueueKey) (bool, error) {
	// A reject policy wins, even if preemption in another group would free a
	// slot.
	for _, name := range groups {
		if LocksOf(t).groups[name].onBusy != run.OnBusyReject {
			continue
		}
		if b, ok, err := busyFor(ctx, t, demand{name, 1}, s); err != nil || ok {
			return false, cmp.Or(err, b.refusal())
		}
	}
	for _, name := range groups {
		b, ok, err := busyFor(ctx, t, demand{name, 1}, s)
		if err != nil {
			return false, err
		}
		if !ok {
			continue
		}
		if err := preempt(ctx, t, b, s); err != nil {
			return false, err
		}
	}
	return groupsAdmit(ctx, t, demandsOfRun(groups), s)
}

func (b busy) refusal() error {
	others := ""
	if b.ahead > 0 {
		others = ", and others wait"
	}
	return run.Errorf(run.CodeChangeGroupBusy, "change group %s is busy: %d of %d slots are held%s", b.name, b.holding, b.maxRunning, others)
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
		ofTasks, err := GroupsOfTasks(ctx, t, runs[id])
		if err != nil {
			return err
		}
		names = slices.Concat(names, groups[id], ofTasks)
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

// LockRunsWithGroups locks runs that the transaction needs, and returns the names of
// their groups and of those that their tasks name.
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
	if err != nil {
		return nil, err
	}
	for _, r := range locks.Runs {
		named, err := GroupsOfTasks(ctx, t, r)
		if err != nil {
			return nil, err
		}
		names = append(names, named...)
	}
	return names, nil
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
	if err := EndRunOfTasks(ctx, t, r); err != nil {
		return err
	}
	t.Emit(r.Event(t.Now))
	return t.Enqueue(ctx, r.ID, records.OutboxCancel, 0)
}
