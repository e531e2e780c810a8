package runs

import (
	"context"
	"slices"

	"github.com/drover-run/drover/records/internal/sqlstore/changegroups"
	"github.com/drover-run/drover/records/internal/sqlstore/rows"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// slotMoves are the changes of slots of change groups that follow from changes of tasks, in
// one transaction: tasks that begin to wait take theirs if they are free, and tasks and
// runs that end release theirs.
type slotMoves struct {
	t      *sqldb.Tx
	r      *rows.Run
	groups map[int][]run.TaskChangeGroup // of tasks, by node
	begin  map[int]*rows.Task            // those that begin to wait, by number

	queued  []int        // the tasks to be queued
	holding map[int]bool // those of them that hold slots; nil before they are read
}

// newSlotMoves returns what the given changes of tasks do to their slots.
func newSlotMoves(t *sqldb.Tx, r *rows.Run, changes ...run.TaskChange) *slotMoves {
	m := &slotMoves{t: t, r: r, groups: make(map[int][]run.TaskChangeGroup), begin: make(map[int]*rows.Task)}
	for _, c := range changes {
		if c.Status == run.StatusQueued {
			m.queued = append(m.queued, c.Task)
		}
	}
	return m
}

// of returns the change groups of a task.
func (m *slotMoves) of(ctx context.Context, x *rows.Task) ([]run.TaskChangeGroup, error) {
	if groups, known := m.groups[x.Node]; known {
		return groups, nil
	}
	spec, err := rows.TaskSpec(ctx, m.t, m.r.ID, x.Node)
	if err != nil {
		return nil, err
	}
	m.groups[x.Node] = spec.ChangeGroups
	return spec.ChangeGroups, nil
}

// lacks reports whether a task that is to be queued needs slots and does not hold them.
func (m *slotMoves) lacks(ctx context.Context, x *rows.Task) (bool, error) {
	if !m.r.TaskGroups || x.Status.Final() {
		return false, nil
	}
	groups, err := m.of(ctx, x)
	if err != nil || len(groups) == 0 {
		return false, err
	}
	if m.holding == nil {
		all, err := changegroups.TasksWithSlots(ctx, m.t, m.r.ID, m.queued)
		if err != nil {
			return false, err
		}
		m.holding = make(map[int]bool, len(all))
		for _, task := range all {
			m.holding[task] = true
		}
	}
	return !m.holding[x.Number], nil
}

// toQueue is the change that queues a task.
func toQueue(task int) run.TaskChange { return run.TaskChange{Task: task, Status: run.StatusQueued} }

// change returns a change that queues no task which lacks its slots. A control worker that does
// not know the change groups of tasks queues them at once, and again and again as long as they
// are not queued: the task waits for its slots instead. If one was queued so before, it waits as a
// queued task: no executor can claim it. Such a worker may also have written that a task waits
// for slots, without a place in the queues: it gets one when that is written again.
func (m *slotMoves) change(ctx context.Context, x *rows.Task, c *run.TaskChange) (*run.TaskChange, error) {
	if c.Status == run.StatusWaitingChangeGroup && m.r.TaskGroups && x.Status == c.Status {
		m.begin[x.Number] = x
	}
	if c.Status != run.StatusQueued {
		return c, nil
	}
	lacks, err := m.lacks(ctx, x)
	if err != nil || !lacks {
		return c, err
	}
	m.begin[x.Number] = x
	if x.Attempt > 0 {
		return c, nil
	}
	return &run.TaskChange{Task: x.Number, Status: run.StatusWaitingChangeGroup}, nil
}

// save moves the slots of the tasks that the transaction has changed, and those of a run that
// has ended.
func (m *slotMoves) save(ctx context.Context, changed []*rows.Task) error {
	for _, x := range changed {
		if x.Status == run.StatusWaitingChangeGroup {
			m.begin[x.Number] = x
		}
	}
	needs, names, err := m.needs(ctx)
	if err != nil {
		return err
	}
	var ended []int
	if m.r.TaskGroups {
		for _, x := range changed {
			if x.Status.Final() {
				ended = append(ended, x.Number)
			}
		}
	}
	if m.r.Phase.Final() {
		return endSlots(ctx, m.t, m.r)
	}
	if len(ended) > 0 {
		of, err := changegroups.GroupsWithSlots(ctx, m.t, m.r.ID, ended)
		if err != nil {
			return err
		}
		names = append(names, of...)
	}
	if len(names) == 0 {
		return nil
	}
	if err := changegroups.LockGroups(ctx, m.t, names, nil); err != nil {
		return err
	}
	if len(ended) > 0 {
		if err := changegroups.ReleaseTasks(ctx, m.t, m.r.ID, ended); err != nil {
			return err
		}
	}
	return changegroups.WaitForSlots(ctx, m.t, m.r, needs)
}

// needs returns what the tasks need that begin to wait and have not ended since, and the names
// of the groups.
func (m *slotMoves) needs(ctx context.Context) (needs []changegroups.TaskNeed, names []string, err error) {
	for _, x := range m.begin {
		if x.Status.Final() {
			continue
		}
		groups, err := m.of(ctx, x)
		if err != nil {
			return nil, nil, err
		}
		needs = append(needs, changegroups.TaskNeed{Task: x.Number, Groups: groups})
		for _, g := range groups {
			names = append(names, g.Name)
		}
	}
	return needs, names, nil
}

// endSlots releases the slots of a run that has ended, and of its tasks.
func endSlots(ctx context.Context, t *sqldb.Tx, r *rows.Run) error {
	ofRun, err := changegroups.GroupsOf(ctx, t, r)
	if err != nil {
		return err
	}
	ofTasks, err := changegroups.GroupsOfTasks(ctx, t, r)
	if err != nil {
		return err
	}
	names := slices.Concat(ofRun, ofTasks)
	if len(names) == 0 {
		return nil
	}
	if err := changegroups.LockGroups(ctx, t, names, nil); err != nil {
		return err
	}
	if err := changegroups.EndRunOfTasks(ctx, t, r); err != nil {
		return err
	}
	return changegroups.ReleaseSlots(ctx, t, r.ID, ofRun)
}

// granted returns those of the tasks that changes make wait for slots which hold them. The
// others are told by a signal when they got theirs.
func granted(ctx context.Context, t *sqldb.Tx, r *rows.Run, changes []run.TaskChange) ([]int, error) {
	if !r.TaskGroups || r.Phase.Final() {
		return nil, nil
	}
	var tasks []int
	for _, c := range changes {
		if c.Status == run.StatusWaitingChangeGroup {
			tasks = append(tasks, c.Task)
		}
	}
	return changegroups.TasksWithSlots(ctx, t, r.ID, tasks)
}

// checkSlots refuses the claim of a task that needs slots of change groups and does not hold
// them: a control worker that does not know the change groups of tasks dispatches it at once.
func checkSlots(ctx context.Context, t *sqldb.Tx, r *rows.Run, x *rows.Task) error {
	lacks, err := newSlotMoves(t, r, toQueue(x.Number)).lacks(ctx, x)
	if err != nil || !lacks {
		return err
	}
	return lacksSlotsError{run.Errorf(run.CodeConflict, "task %s of run %s waits for slots of its change groups: it is dispatched again when it has them", x.Name, r.ID)}
}

// lacksSlotsError is the error of checkSlots.
type lacksSlotsError struct{ error }

// Unwrap returns the error with its code.
func (e lacksSlotsError) Unwrap() error { return e.error }

// awaitSlots makes a task wait for its slots that was dispatched without them: nothing else
// would, as long as old control workers run.
func (s *Store) awaitSlots(ctx context.Context, k run.Key) error {
	return s.db.Write(ctx, "make a task wait for its change groups", func(t *sqldb.Tx) error {
		r, err := rows.LockRun(ctx, t, k.Run)
		if err != nil {
			return err
		}
		x, err := rows.TaskNumbered(ctx, t, k.Run, k.Task)
		if err != nil {
			return err
		}
		m := newSlotMoves(t, r, toQueue(x.Number))
		if lacks, err := m.lacks(ctx, x); err != nil || !lacks || r.Phase.Final() {
			return err
		}
		m.begin[x.Number] = x
		return m.save(ctx, nil)
	})
}
