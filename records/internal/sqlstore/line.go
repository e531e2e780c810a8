package sqlstore

import (
	"context"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// standing ends every condition on queues, so that SQLite too uses the partial
// index without slots in state done.
const standing = ` AND state <> 'done'`

// spot is the queue key of a run: its order in the queues of all its groups.
type spot struct {
	id       run.ID
	priority int
	since    int64
}

// busy is a group that does not admit a run.
type busy struct {
	*groupRow
	holding int
	before  int // runs that wait ahead of the run, at most as many as the group has slots
}

// busyFor reports whether a locked group is busy for a run with its queue key:
// whether the runs that hold a slot and those that wait ahead leave no slot for
// it. So no run overtakes, and one run is always next.
func (t *tx) busyFor(ctx context.Context, name string, s spot) (busy, bool, error) {
	b := busy{groupRow: t.groups[name]}
	if b.maxRunning == 0 {
		return b, false, nil
	}
	var err error
	if b.holding, err = holding(ctx, t, name); err != nil {
		return b, false, err
	}
	b.before, err = before(ctx, t, name, s, b.maxRunning)
	return b, b.holding+b.before >= b.maxRunning, err
}

// holding counts the runs that hold a slot of a group.
func holding(ctx context.Context, q Querier, name string) (n int, err error) {
	err = q.QueryRow(ctx, `SELECT count(*) FROM run_changegroups WHERE name = ? AND state = 'holding'`+standing, name).Scan(&n)
	return n, err
}

// before counts the runs that wait in a group ahead of a queue key, up to
// limit.
func before(ctx context.Context, q Querier, name string, s spot, most int) (n int, err error) {
	err = q.QueryRow(ctx, `SELECT count(*) FROM (SELECT 1 FROM run_changegroups WHERE name = ? AND state = 'waiting'`+standing+`
		AND (priority, since, run_id) < (?, ?, ?) LIMIT ?) AS line`, name, s.priority, s.since, s.id, most).Scan(&n)
	return n, err
}

// mayEnter reports whether all of a run's groups, which are locked, admit it
// with its queue key.
func (t *tx) mayEnter(ctx context.Context, groups []string, s spot) (bool, error) {
	for _, name := range groups {
		if _, is, err := t.busyFor(ctx, name, s); err != nil || is {
			return false, err
		}
	}
	return true, nil
}

// stand writes the slot state of a run in its groups, with the time since when
// it holds.
func (t *tx) stand(ctx context.Context, id run.ID, p place, since int64) error {
	_, err := t.Exec(ctx, `UPDATE run_changegroups SET state = ?, since = ? WHERE run_id = ?`, p, since, id)
	return err
}

// tick returns the time of the transaction, increased by 1 ns with each call,
// so that runs that get a slot together keep their order.
func (t *tx) tick() int64 {
	t.ticks++
	return t.now + t.ticks - 1
}

// leave releases the slots that a final run held or waited for in its groups,
// which are locked. It enqueues grants for the runs that wait.
func (t *tx) leave(ctx context.Context, id run.ID, groups []string) error {
	if len(groups) == 0 {
		return nil
	}
	t.renew(groups...)
	if err := t.stand(ctx, id, placeDone, t.now); err != nil {
		return err
	}
	for _, name := range groups {
		if t.groups[name].maxRunning == 0 {
			continue
		}
		if err := t.tellWaiters(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// tellWaiters enqueues a grant for a group if a run waits in it.
func (t *tx) tellWaiters(ctx context.Context, name string) error {
	var waits bool
	if err := t.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM run_changegroups WHERE name = ? AND state = 'waiting'`+standing+`)`, name).
		Scan(&waits); err != nil || !waits {
		return err
	}
	return t.tell(ctx, run.ID(groupKey+name), records.OutboxGrant, 0)
}
