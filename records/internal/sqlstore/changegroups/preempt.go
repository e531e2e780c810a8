package changegroups

import (
	"context"
	"maps"
	"slices"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore/rows"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// One transaction preempts a limited number of runs, since other writers wait for it.
const (
	// maxPreempted bounds the runs that a transaction preempts.
	maxPreempted = 500
	// maxPreemptedTasks bounds the tasks of the runs that it cancels.
	maxPreemptedTasks = run.MaxTasks
)

// crowdedError is the error of a transaction that would preempt too many runs.
type crowdedError struct {
	group string
	at    QueueKey // of the run for which they are preempted
	by    run.ID   // that run, "" if it is not stored yet
	first []run.ID // some of the runs
}

// Error implements error. It is never shown.
func (*crowdedError) Error() string { return "too many runs must be preempted" }

// preempt preempts runs of a busy group for a run with its queue key.
func preempt(ctx context.Context, t *sqldb.Tx, b busy, s QueueKey) error {
	locks := LocksOf(t)
	preempted, err := runsToPreempt(ctx, t, b, s, maxPreempted+1)
	if err != nil {
		return err
	}
	crowded := &crowdedError{group: b.name, at: s, first: preempted[:min(len(preempted), maxPreempted)]}
	if locks.Runs[s.ID] != nil {
		crowded.by = s.ID
	}
	if locks.preempted += len(preempted); locks.preempted > maxPreempted {
		return crowded
	}
	if err := tryLockRuns(ctx, t, preempted); err != nil {
		return err
	}
	for _, id := range preempted {
		locks.cancelled += tasksToCancel(locks.Runs[id])
	}
	if locks.cancelled > maxPreemptedTasks {
		return crowded
	}
	for _, id := range preempted {
		if err := preemptRun(ctx, t, id, s.ID, b.name); err != nil {
			return err
		}
	}
	return nil
}

// tasksToCancel returns how many tasks the preemption of a run cancels.
func tasksToCancel(r *rows.Run) int {
	if r.Phase != run.PhaseQueued {
		return 0
	}
	return r.Counts.Open()
}

// preemptSome preempts some of the runs of a crowded group, in a transaction of its own. It
// returns the token with the versions that its groups have then.
func preemptSome(ctx context.Context, db *sqldb.DB, e *crowdedError, token run.Token) (run.Token, error) {
	var next run.Token
	err := db.Write(ctx, "preempt runs of a change group", func(t *sqldb.Tx) error {
		next = maps.Clone(token)
		groups, err := LockRunsWithGroups(ctx, t, e.first)
		if err != nil {
			return err
		}
		if err := LockGroups(ctx, t, append(groups, e.group), token); err != nil {
			return err
		}
		if err := CheckToken(t, token); err != nil {
			return err
		}
		b, ok, err := busyFor(ctx, t, demand{e.group, 1}, e.at)
		if err != nil || !ok {
			return err
		}
		// Which runs are preempted may have changed until they were locked.
		preempted, err := runsToPreempt(ctx, t, b, e.at, maxPreempted)
		if err != nil {
			return err
		}
		locks, cancelled := LocksOf(t), 0
		for _, id := range preempted {
			r := locks.Runs[id]
			if r == nil {
				continue
			}
			if cancelled += tasksToCancel(r); cancelled > maxPreemptedTasks {
				break
			}
			if err := preemptRun(ctx, t, id, e.by, e.group); err != nil {
				return err
			}
		}
		for name := range next {
			if slices.Contains(locks.bumped, name) {
				next[name]++
			}
		}
		return nil
	})
	return next, err
}

// runsToPreempt returns the runs that a busy group preempts for a run with its queue key, up
// to limit.
func runsToPreempt(ctx context.Context, t *sqldb.Tx, b busy, at QueueKey, limit int) (ids []run.ID, err error) {
	switch b.onBusy {
	case run.OnBusyQueue, run.OnBusyReject:
		return nil, nil
	case run.OnBusyCancelQueued:
		return sqldb.QueryIDs(ctx, t, `SELECT run_id FROM run_changegroups WHERE name = ? AND state = 'waiting'`+NotDone+`
			ORDER BY priority, since, run_id LIMIT ?`, b.name, limit)
	case run.OnBusyStopRunning:
		// Runs that are being stopped free their slots anyway. The slots of tasks do not count:
		// no run is stopped to make room for a task, and what a stopped run frees goes to tasks
		// that wait before it goes to a run.
		var holding, stopping int
		if err := t.QueryRow(ctx, `SELECT count(*), coalesce(sum(CASE WHEN r.stop_requested THEN 1 ELSE 0 END), 0) FROM run_changegroups g JOIN runs r ON r.id = g.run_id
			WHERE g.name = ? AND g.state = 'holding' AND g.state <> 'done'`, b.name).Scan(&holding, &stopping); err != nil {
			return nil, err
		}
		ahead, err := runsAhead(ctx, t, b.name, at, b.maxRunning)
		if err != nil {
			return nil, err
		}
		n := min(holding, holding+ahead+1-b.maxRunning) - stopping
		if n <= 0 {
			return nil, nil
		}
		return sqldb.QueryIDs(ctx, t, `SELECT g.run_id FROM run_changegroups g JOIN runs r ON r.id = g.run_id
			WHERE g.name = ? AND g.state = 'holding' AND g.state <> 'done' AND NOT r.stop_requested ORDER BY g.since, g.run_id LIMIT ?`, b.name, min(n, limit))
	}
	return nil, nil
}

// preemptRun preempts a run for another, "" for one that is not stored yet: it stops the
// run, or cancels it if it has not begun. The run and its groups are locked.
func preemptRun(ctx context.Context, t *sqldb.Tx, preempted, by run.ID, group string) error {
	locks := LocksOf(t)
	prev := locks.Runs[preempted]
	r := prev.Clone()
	reason := "run " + string(by) + " of change group " + group + " took its place"
	if by == "" {
		reason = "a new run of change group " + group + " took its place"
	}
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
		ofTasks, err := GroupsOfTasks(ctx, t, r)
		if err != nil {
			return err
		}
		BumpVersions(t, slices.Concat(groups, ofTasks)...)
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
