package sqlstore

import (
	"context"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// standing ends every condition on the places in a line: with it SQLite too
// sees that the index without those who are done will do.
const standing = ` AND state <> 'done'`

// spot is a place in the lines of all groups of a run.
type spot struct {
	id       run.ID
	priority int
	since    int64
}

// busy is a group that does not let a run in.
type busy struct {
	*groupRow
	holding int
	before  int // waiting before the run, at most as many as the group has slots
}

// busyFor reports how a locked group stands for a run at its spot: whether
// those that hold a slot and those that wait before it leave none for it. So
// nobody overtakes, and somebody always is next.
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

// before counts the runs that wait in a group before a spot, up to most.
func before(ctx context.Context, q Querier, name string, s spot, most int) (n int, err error) {
	err = q.QueryRow(ctx, `SELECT count(*) FROM (SELECT 1 FROM run_changegroups WHERE name = ? AND state = 'waiting'`+standing+`
		AND (priority, since, run_id) < (?, ?, ?) LIMIT ?) AS line`, name, s.priority, s.since, s.id, most).Scan(&n)
	return n, err
}

// mayEnter reports whether all of a run's groups, which are locked, let it in
// at its spot.
func (t *tx) mayEnter(ctx context.Context, groups []string, s spot) (bool, error) {
	for _, name := range groups {
		if _, is, err := t.busyFor(ctx, name, s); err != nil || is {
			return false, err
		}
	}
	return true, nil
}

// stand writes how a run stands in its groups, from a moment on.
func (t *tx) stand(ctx context.Context, id run.ID, p place, since int64) error {
	_, err := t.Exec(ctx, `UPDATE run_changegroups SET state = ?, since = ? WHERE run_id = ?`, p, since, id)
	return err
}

// tick returns the time of the transaction, each time a little later: so those
// who get a slot together stay in the order in which they got it.
func (t *tx) tick() int64 {
	t.ticks++
	return t.now + t.ticks - 1
}

// leave gives back what a run held or waited for in its groups, which are
// locked, as it becomes final. Those who wait are told.
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

// tellWaiters has a group's slots granted, if anybody waits for one.
func (t *tx) tellWaiters(ctx context.Context, name string) error {
	var waits bool
	if err := t.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM run_changegroups WHERE name = ? AND state = 'waiting'`+standing+`)`, name).
		Scan(&waits); err != nil || !waits {
		return err
	}
	return t.tell(ctx, run.ID(groupKey+name), records.OutboxGrant, 0)
}
