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

// ofRun is the number of the task in the queue key of a run itself.
const ofRun = -1

// QueueKey is the queue key of a run or of one of its tasks: its order in the queues of all
// its groups. Tasks that wait come before runs that wait: their run has begun and may hold
// slots of its own, so a task that waited for a run could wait for ever.
type QueueKey struct {
	ID       run.ID
	Task     int // ofRun for the run itself
	Priority int
	Since    int64
}

// KeyOfRun returns the queue key of a run.
func KeyOfRun(id run.ID, priority int, since int64) QueueKey {
	return QueueKey{ID: id, Task: ofRun, Priority: priority, Since: since}
}

// busy is a group that does not admit a run.
type busy struct {
	*groupRow
	holding int // slots that are held
	ahead   int // slots for which others wait ahead, as far as they count
}

// busyFor reports whether a locked group is busy for a run or a task with its queue key:
// whether those that hold slots and those that wait ahead leave no slot for it. So none
// overtakes, and one is always next.
func busyFor(ctx context.Context, t *sqldb.Tx, d demand, s QueueKey) (busy, bool, error) {
	b := busy{groupRow: LocksOf(t).groups[d.group]}
	if b.maxRunning == 0 {
		return b, false, nil
	}
	var err error
	if b.holding, err = CountHolding(ctx, t, d.group); err != nil {
		return b, false, err
	}
	b.ahead, err = CountAhead(ctx, t, d.group, s, b.maxRunning)
	return b, !fits(b.holding+b.ahead, d.units, b.maxRunning), err
}

// fits reports whether a group has the units that are needed beside those that are taken.
// A need for more than the limit is one for all slots: it must not block the queue for ever.
func fits(taken, units, limit int) bool { return taken+min(units, limit) <= limit }

// CountHolding counts the slots of a group that runs and tasks hold.
func CountHolding(ctx context.Context, q sqldb.Querier, name string) (n int, err error) {
	err = q.QueryRow(ctx, `SELECT (SELECT count(*) FROM run_changegroups WHERE name = ? AND state = 'holding'`+NotDone+`)
		+ (SELECT coalesce(sum(`+unitsOfLimit+`), 0) FROM task_slots s JOIN changegroups g ON g.name = s.name WHERE s.name = ? AND s.state = 'holding'`+OpenTask+`)`, name, name).Scan(&n)
	return n, err
}

// CountAhead counts the slots of a group for which others wait ahead of a queue key. It
// looks at no more than limit tasks and limit runs.
func CountAhead(ctx context.Context, q sqldb.Querier, name string, at QueueKey, limit int) (int, error) {
	_, slots, err := Ahead(ctx, q, name, at, limit)
	return slots, err
}

// Ahead counts the runs and tasks that wait in a group ahead of a queue key, no more than
// limit of each, and the slots for which they wait.
func Ahead(ctx context.Context, q sqldb.Querier, name string, at QueueKey, limit int) (waiters, slots int, err error) {
	where, args := ``, []any{name}
	if at.Task != ofRun {
		where, args = ` AND (s.priority, s.since, s.run_id, s.task) < (?, ?, ?, ?)`, append(args, at.Priority, at.Since, at.ID, at.Task)
	}
	if err := q.QueryRow(ctx, `SELECT count(*), coalesce(sum(units), 0) FROM (SELECT s.units FROM task_slots s
		WHERE s.name = ? AND s.state = 'waiting'`+OpenTask+where+` LIMIT ?) AS queue`, append(args, limit)...).Scan(&waiters, &slots); err != nil || at.Task != ofRun {
		return waiters, slots, err
	}
	runs, err := runsAhead(ctx, q, name, at, limit)
	return waiters + runs, slots + runs, err
}

// runsAhead counts the runs that wait in a group ahead of a queue key of a run, up to limit.
func runsAhead(ctx context.Context, q sqldb.Querier, name string, at QueueKey, limit int) (n int, err error) {
	err = q.QueryRow(ctx, `SELECT count(*) FROM (SELECT 1 FROM run_changegroups WHERE name = ? AND state = 'waiting'`+NotDone+`
		AND (priority, since, run_id) < (?, ?, ?) LIMIT ?) AS queue`, name, at.Priority, at.Since, at.ID, limit).Scan(&n)
	return n, err
}

// demand is what a run or a task needs of a group.
type demand struct {
	group string
	units int
}

// demandsOfRun returns one slot of each group.
func demandsOfRun(groups []string) []demand {
	out := make([]demand, len(groups))
	for i, name := range groups {
		out[i] = demand{name, 1}
	}
	return out
}

// groupsAdmit reports whether all groups of a run or a task, which are locked, admit it
// with its queue key.
func groupsAdmit(ctx context.Context, t *sqldb.Tx, demands []demand, s QueueKey) (bool, error) {
	for _, d := range demands {
		if _, ok, err := busyFor(ctx, t, d, s); err != nil || ok {
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

// enqueueGrant enqueues a grant for a group if a run or a task waits in it.
func enqueueGrant(ctx context.Context, t *sqldb.Tx, name string) error {
	var waits bool
	if err := t.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM run_changegroups WHERE name = ? AND state = 'waiting'`+NotDone+`)
		OR EXISTS (SELECT 1 FROM task_slots s WHERE s.name = ? AND s.state = 'waiting'`+OpenTask+`)`, name, name).Scan(&waits); err != nil || !waits {
		return err
	}
	return t.Enqueue(ctx, run.ID(sqldb.GroupKey+name), records.OutboxGrant, 0)
}
