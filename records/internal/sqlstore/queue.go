package sqlstore

import (
	"context"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// notDone ends every condition on queues, so that SQLite too uses the partial
// index without slots in state done.
const notDone = ` AND state <> 'done'`

// queueKey is the queue key of a run: its order in the queues of all its groups.
type queueKey struct {
	id       run.ID
	priority int
	since    int64
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
func (t *tx) busyFor(ctx context.Context, name string, s queueKey) (busy, bool, error) {
	b := busy{groupRow: locksOf(t).groups[name]}
	if b.maxRunning == 0 {
		return b, false, nil
	}
	var err error
	if b.holding, err = countHolding(ctx, t, name); err != nil {
		return b, false, err
	}
	b.ahead, err = countAhead(ctx, t, name, s, b.maxRunning)
	return b, b.holding+b.ahead >= b.maxRunning, err
}

// countHolding counts the runs that hold a slot of a group.
func countHolding(ctx context.Context, q Querier, name string) (n int, err error) {
	err = q.QueryRow(ctx, `SELECT count(*) FROM run_changegroups WHERE name = ? AND state = 'holding'`+notDone, name).Scan(&n)
	return n, err
}

// countAhead counts the runs that wait in a group ahead of a queue key, up to
// limit.
func countAhead(ctx context.Context, q Querier, name string, s queueKey, limit int) (n int, err error) {
	err = q.QueryRow(ctx, `SELECT count(*) FROM (SELECT 1 FROM run_changegroups WHERE name = ? AND state = 'waiting'`+notDone+`
		AND (priority, since, run_id) < (?, ?, ?) LIMIT ?) AS line`, name, s.priority, s.since, s.id, limit).Scan(&n)
	return n, err
}

// groupsAdmit reports whether all of a run's groups, which are locked, admit it
// with its queue key.
func (t *tx) groupsAdmit(ctx context.Context, groups []string, s queueKey) (bool, error) {
	for _, name := range groups {
		if _, ok, err := t.busyFor(ctx, name, s); err != nil || ok {
			return false, err
		}
	}
	return true, nil
}

// setSlotState writes the slot state of a run in its groups, with the time since when
// it holds.
func (t *tx) setSlotState(ctx context.Context, id run.ID, p slotState, since int64) error {
	_, err := t.Exec(ctx, `UPDATE run_changegroups SET state = ?, since = ? WHERE run_id = ?`, p, since, id)
	return err
}

// nextTime returns the time of the transaction, increased by 1 ns with each call,
// so that runs that get a slot together keep their order.
func (t *tx) nextTime() int64 {
	locksOf(t).ticks++
	return t.now + locksOf(t).ticks - 1
}

// releaseSlots releases the slots that a final run held or waited for in its groups,
// which are locked. It enqueues grants for the runs that wait.
func (t *tx) releaseSlots(ctx context.Context, id run.ID, groups []string) error {
	if len(groups) == 0 {
		return nil
	}
	t.bumpVersions(groups...)
	if err := t.setSlotState(ctx, id, slotDone, t.now); err != nil {
		return err
	}
	for _, name := range groups {
		if locksOf(t).groups[name].maxRunning == 0 {
			continue
		}
		if err := t.enqueueGrant(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// enqueueGrant enqueues a grant for a group if a run waits in it.
func (t *tx) enqueueGrant(ctx context.Context, name string) error {
	var waits bool
	if err := t.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM run_changegroups WHERE name = ? AND state = 'waiting'`+notDone+`)`, name).
		Scan(&waits); err != nil || !waits {
		return err
	}
	return t.enqueue(ctx, run.ID(groupKey+name), records.OutboxGrant, 0)
}
