package changegroups

import (
	"context"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// NotDone ends every condition on queues, so that SQLite too uses the partial
// index without slots in state done.
const NotDone = ` AND state <> 'done'`

// QueueKey is the queue key of a run: its order in the queues of all its groups.
type QueueKey struct {
	ID       run.ID
	Priority int
	Since    int64
}

// busy is a group that does not admit a run.
type busy struct {
	*groupRow
	holding int
	ahead   int // runs that wait ahead of the run, at most as many as the group has slots
}

// busyFor reports whether a locked group is busy for a run with its queue key:
// whether the runs that hold a slot and those that wait ahead leave no slot for
// it. So no run overtakes, and one run is always next.
func busyFor(ctx context.Context, t *sqldb.Tx, name string, s QueueKey) (busy, bool, error) {
	b := busy{groupRow: LocksOf(t).groups[name]}
	if b.maxRunning == 0 {
		return b, false, nil
	}
	var err error
	if b.holding, err = CountHolding(ctx, t, name); err != nil {
		return b, false, err
	}
	b.ahead, err = CountAhead(ctx, t, name, s, b.maxRunning)
	return b, b.holding+b.ahead >= b.maxRunning, err
}

// CountHolding counts the runs that hold a slot of a group.
func CountHolding(ctx context.Context, q sqldb.Querier, name string) (n int, err error) {
	err = q.QueryRow(ctx, `SELECT count(*) FROM run_changegroups WHERE name = ? AND state = 'holding'`+NotDone, name).Scan(&n)
	return n, err
}

// CountAhead counts the runs that wait in a group ahead of a queue key, up to
// limit.
func CountAhead(ctx context.Context, q sqldb.Querier, name string, s QueueKey, limit int) (n int, err error) {
	err = q.QueryRow(ctx, `SELECT count(*) FROM (SELECT 1 FROM run_changegroups WHERE name = ? AND state = 'waiting'`+NotDone+`
		AND (priority, since, run_id) < (?, ?, ?) LIMIT ?) AS queue`, name, s.Priority, s.Since, s.ID, limit).Scan(&n)
	return n, err
}

// groupsAdmit reports whether all of a run's groups, which are locked, admit it
// with its queue key.
func groupsAdmit(ctx context.Context, t *sqldb.Tx, groups []string, s QueueKey) (bool, error) {
	for _, name := range groups {
		if _, ok, err := busyFor(ctx, t, name, s); err != nil || ok {
			return false, err
		}
	}
	return true, nil
}

// SetSlotState writes the slot state of a run in its groups, with the time since when
// it holds.
func SetSlotState(ctx context.Context, t *sqldb.Tx, id run.ID, p SlotState, since int64) error {
	_, err := t.Exec(ctx, `UPDATE run_changegroups SET state = ?, since = ? WHERE run_id = ?`, p, since, id)
	return err
}

// nextTime returns the time of the transaction, increased by 1 ns with each call,
// so that runs that get a slot together keep their order.
func nextTime(t *sqldb.Tx) int64 {
	locks := LocksOf(t)
	locks.ticks++
	return t.Now + locks.ticks - 1
}

// ReleaseSlots releases the slots that a final run held or waited for in its groups,
// which are locked. It enqueues grants for the runs that wait.
func ReleaseSlots(ctx context.Context, t *sqldb.Tx, id run.ID, groups []string) error {
	if len(groups) == 0 {
		return nil
	}
	BumpVersions(t, groups...)
	if err := SetSlotState(ctx, t, id, SlotDone, t.Now); err != nil {
		return err
	}
	for _, name := range groups {
		if LocksOf(t).groups[name].maxRunning == 0 {
			continue
		}
		if err := enqueueGrant(ctx, t, name); err != nil {
			return err
		}
	}
	return nil
}

// enqueueGrant enqueues a grant for a group if a run waits in it.
func enqueueGrant(ctx context.Context, t *sqldb.Tx, name string) error {
	var waits bool
	if err := t.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM run_changegroups WHERE name = ? AND state = 'waiting'`+NotDone+`)`, name).
		Scan(&waits); err != nil || !waits {
		return err
	}
	return t.Enqueue(ctx, run.ID(sqldb.GroupKey+name), records.OutboxGrant, 0)
}
