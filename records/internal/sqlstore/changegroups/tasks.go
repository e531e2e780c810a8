package changegroups

import (
	"context"
	"slices"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore/rows"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// The slots of tasks are rows of task_slots: from when a task begins to wait, after its
// approval, until it has ended. So no crash can leak one: the transaction that writes the
// end of a task removes its rows. A process of a version that does not know them leaves them
// behind: rows of tasks that have ended, or that no longer exist, never count, and SweepSlots
// removes them.

// OpenTask restricts rows of task_slots, with the alias s, to those of tasks that are open.
const OpenTask = ` AND EXISTS (SELECT 1 FROM tasks o WHERE o.run_id = s.run_id AND o.number = s.task
	AND o.status IN ('not_started', 'waiting_approval', 'waiting_changegroup', 'queued', 'running'))`

// TaskNeed is a task that needs slots of change groups.
type TaskNeed struct {
	Task   int
	Groups []run.TaskChangeGroup
}

func (n TaskNeed) demands() []demand {
	out := make([]demand, len(n.Groups))
	for i, g := range n.Groups {
		out[i] = demand{g.Name, max(1, g.Units)}
	}
	return out
}

// WaitForSlots makes tasks of a run wait for their slots, in the order of their numbers, and
// grants those that are free. Their groups are locked. A task that waits or holds already is
// left as it is.
func WaitForSlots(ctx context.Context, t *sqldb.Tx, r *rows.Run, needs []TaskNeed) error {
	needs, err := withoutKnown(ctx, t, r.ID, needs)
	if err != nil || len(needs) == 0 {
		return err
	}
	type slotRow struct {
		demand

		task  int
		state SlotState
		since int64
	}
	var all []slotRow
	taken := make(map[string]int) // slots of groups with a limit that others hold, or wait for ahead
	at := QueueKey{ID: r.ID, Task: needs[0].Task, Priority: r.Priority, Since: t.Now}
	for _, need := range needs {
		state, since := SlotHolding, nextTime(t)
		for _, d := range need.demands() {
			g := LocksOf(t).groups[d.group]
			if _, known := taken[d.group]; !known && g.maxRunning > 0 {
				if taken[d.group], err = countTaken(ctx, t, g, at); err != nil {
					return err
				}
			}
			if g.maxRunning > 0 && !fits(taken[d.group], d.units, g.maxRunning) {
				state, since = SlotWaiting, t.Now
			}
		}
		for _, d := range need.demands() {
			taken[d.group] += d.units
			all = append(all, slotRow{d, need.Task, state, since})
			BumpVersions(t, d.group)
		}
	}
	return sqldb.Bulk(ctx, t, `INSERT INTO task_slots (name, run_id, task, units, state, priority, since) VALUES `, `(?, ?, ?, ?, ?, ?, ?)`, ``, len(all),
		func(i int, args []any) []any {
			x := all[i]
			return append(args, x.group, r.ID, x.task, x.units, x.state, r.Priority, x.since)
		})
}

// withoutKnown leaves out the tasks that wait for slots or hold them, and orders the others.
func withoutKnown(ctx context.Context, t *sqldb.Tx, id run.ID, needs []TaskNeed) ([]TaskNeed, error) {
	numbers := make([]int, len(needs))
	for i, n := range needs {
		numbers[i] = n.Task
	}
	known := make(map[int]bool)
	if err := sqldb.InChunks(numbers, func(placeholders string, args []any) error {
		return sqldb.Each(ctx, t, func(row sqldb.Scanner) error {
			var task int
			err := row.Scan(&task)
			known[task] = true
			return err
		}, `SELECT DISTINCT task FROM task_slots WHERE run_id = ? AND task IN `+placeholders, append([]any{id}, args...)...)
	}); err != nil {
		return nil, err
	}
	needs = slices.DeleteFunc(slices.Clone(needs), func(n TaskNeed) bool { return known[n.Task] })
	slices.SortFunc(needs, func(a, b TaskNeed) int { return a.Task - b.Task })
	return needs, nil
}

// countTaken counts the slots of a group that are held, and those for which others wait ahead
// of a queue key.
func countTaken(ctx context.Context, t *sqldb.Tx, g *groupRow, at QueueKey) (int, error) {
	holding, err := CountHolding(ctx, t, g.name)
	if err != nil {
		return 0, err
	}
	ahead, err := CountAhead(ctx, t, g.name, at, g.maxRunning)
	return holding + ahead, err
}

// TasksWithSlots returns those of some tasks of a run that hold slots.
func TasksWithSlots(ctx context.Context, q sqldb.Querier, id run.ID, tasks []int) ([]int, error) {
	var out []int
	err := sqldb.InChunks(tasks, func(placeholders string, args []any) error {
		return sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
			var task int
			err := row.Scan(&task)
			out = append(out, task)
			return err
		}, `SELECT DISTINCT task FROM task_slots WHERE run_id = ? AND state = 'holding' AND task IN `+placeholders, append([]any{id}, args...)...)
	})
	slices.Sort(out)
	return out, err
}

// GrantedTasks returns the tasks of a run that hold slots and have not been queued since.
func GrantedTasks(ctx context.Context, q sqldb.Querier, r *rows.Run) ([]int, error) {
	if !r.TaskGroups || r.Phase.Final() {
		return nil, nil
	}
	var out []int
	err := sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
		var task int
		err := row.Scan(&task)
		out = append(out, task)
		return err
	}, `SELECT DISTINCT s.task FROM task_slots s JOIN tasks t ON t.run_id = s.run_id AND t.number = s.task
		WHERE s.run_id = ? AND s.state = 'holding' AND t.status = '`+string(run.StatusWaitingChangeGroup)+`' ORDER BY s.task`, r.ID)
	return out, err
}

// GroupsWithSlots returns the change groups in which some tasks of a run hold slots or wait for
// them, or all of its tasks if none are given, sorted.
func GroupsWithSlots(ctx context.Context, q sqldb.Querier, id run.ID, tasks []int) ([]string, error) {
	var names []string
	err := ofTasks(tasks, func(where string, args []any) error {
		return sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
			var name string
			err := row.Scan(&name)
			names = append(names, name)
			return err
		}, `SELECT DISTINCT name FROM task_slots WHERE run_id = ?`+where, append([]any{id}, args...)...)
	})
	slices.Sort(names)
	return slices.Compact(names), err
}

// ReleaseTasks releases the slots that some tasks of a run held or waited for, or all of its
// tasks if none are given, and enqueues grants for those that wait. The groups of
// GroupsWithSlots are locked.
func ReleaseTasks(ctx context.Context, t *sqldb.Tx, id run.ID, tasks []int) error {
	names, err := GroupsWithSlots(ctx, t, id, tasks)
	if err != nil || len(names) == 0 {
		return err
	}
	if err := ofTasks(tasks, func(where string, args []any) error {
		_, err := t.Exec(ctx, `DELETE FROM task_slots WHERE run_id = ?`+where, append([]any{id}, args...)...)
		return err
	}); err != nil {
		return err
	}
	BumpVersions(t, names...)
	for _, name := range names {
		if LocksOf(t).groups[name].maxRunning == 0 {
			continue
		}
		if err := enqueueGrant(ctx, t, name); err != nil {
			return err
		}
	}
	return nil
}

// ofTasks calls fn with conditions for some tasks, and their arguments, or once for all
// tasks if none are given.
func ofTasks(tasks []int, fn func(where string, args []any) error) error {
	if len(tasks) == 0 {
		return fn(``, nil)
	}
	return sqldb.InChunks(tasks, func(placeholders string, args []any) error { return fn(` AND task IN `+placeholders, args) })
}

// readTaskPage reads the tasks that wait in a group.
func readTaskPage(ctx context.Context, q sqldb.Querier, name string, after *QueueKey, n int) ([]waiter, error) {
	where, args := ``, []any{name}
	if after != nil {
		where, args = ` AND (s.priority, s.since, s.run_id, s.task) > (?, ?, ?, ?)`, append(args, after.Priority, after.Since, after.ID, after.Task)
	}
	var page []waiter
	err := sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
		var k QueueKey
		var d demand
		err := row.Scan(&k.ID, &k.Task, &k.Priority, &k.Since, &d.group, &d.units)
		if last := len(page) - 1; last < 0 || page[last].QueueKey != k {
			page = append(page, waiter{QueueKey: k})
		}
		w := &page[len(page)-1]
		w.demands = append(w.demands, d)
		return err
	}, `SELECT p.run_id, p.task, p.priority, p.since, m.name, m.units FROM (
			SELECT s.run_id, s.task, s.priority, s.since FROM task_slots s WHERE s.name = ? AND s.state = 'waiting'`+OpenTask+where+`
			ORDER BY s.priority, s.since, s.run_id, s.task LIMIT ?) AS p
		JOIN task_slots m ON m.run_id = p.run_id AND m.task = p.task ORDER BY p.priority, p.since, p.run_id, p.task, m.name`, append(args, n)...)
	return page, err
}

// grantTask grants a waiting task its slots, if it still waits and its groups have them. The
// run and the groups are locked.
func grantTask(ctx context.Context, t *sqldb.Tx, runs map[run.ID]*rows.Run, w waiter) (bool, error) {
	if r := runs[w.ID]; r == nil || r.Phase.Final() {
		return false, nil
	}
	var waits bool
	if err := t.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM task_slots s WHERE s.run_id = ? AND s.task = ? AND s.state = 'waiting'`+OpenTask+`)`, w.ID, w.Task).
		Scan(&waits); err != nil || !waits {
		return false, err
	}
	if admitted, err := groupsAdmit(ctx, t, w.demands, w.QueueKey); err != nil || !admitted {
		return false, err
	}
	if _, err := t.Exec(ctx, `UPDATE task_slots SET state = ?, since = ? WHERE run_id = ? AND task = ?`, SlotHolding, nextTime(t), w.ID, w.Task); err != nil {
		return false, err
	}
	for _, d := range w.demands {
		BumpVersions(t, d.group)
	}
	return true, nil
}

// notifyGranted makes a new version of each run of which tasks got their slots, for its
// readers, and notifies its workflow once.
func notifyGranted(ctx context.Context, t *sqldb.Tx, runs map[run.ID]*rows.Run, granted []records.Grant) error {
	told := make(map[run.ID]bool)
	for _, g := range granted {
		if g.Task == ofRun || told[g.Run] {
			continue
		}
		told[g.Run] = true
		r := runs[g.Run].Clone()
		if err := rows.SaveRun(ctx, t, runs[g.Run], r); err != nil {
			return err
		}
		runs[g.Run] = r
		if err := t.Enqueue(ctx, r.ID, records.OutboxSlots, 0); err != nil {
			return err
		}
	}
	return nil
}
