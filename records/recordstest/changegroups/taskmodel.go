package changegroups

import (
	"cmp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

// testTaskSlotsModel makes the calls of workflows and clients in random order, for runs that name
// groups themselves, for their tasks, and both, and compares the slots of all groups with a
// model after each step. In the end it ends what holds slots, and checks that all get theirs.
func testTaskSlotsModel(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	now := time.Now()
	d.Clock.Fixed.Store(now.UnixNano())
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		m := &taskModel{t: t, rt: rt, s: s, limits: map[string]int{}, policies: map[string]run.OnBusy{}}
		pass := func() {
			now = now.Add(time.Duration(rapid.IntRange(0, 1).Draw(rt, "passed")) * time.Millisecond)
			d.Clock.Fixed.Store(now.UnixNano())
			m.now = now.UnixNano()
		}
		for _, name := range []string{"a", "b", "c"} {
			name = "tasks-" + name + strconv.Itoa(round)
			m.names = append(m.names, name)
			m.put(name)
		}
		for range rapid.IntRange(5, 40).Draw(rt, "steps") {
			pass()
			m.step()
			m.check()
		}
		m.deliver()
		m.check()
		for _, x := range m.in(slotWaiting) {
			require.False(m.rt, m.fits(x), "what waits of run %s is admissible", x.id)
		}
		for m.progress() {
			pass()
			m.deliver()
			m.check()
		}
		require.Empty(m.rt, m.in(slotWaiting), "nothing holds slots that ends by itself: what waits would wait for ever")
	})
}

// modelWait is what takes slots: a run, or its only task.
type modelWait struct {
	id       run.ID
	task     bool
	groups   map[string]int // units by name
	priority int
	since    int64
	state    slotState
}

func (x *modelWait) aheadOf(o *modelWait) bool {
	if x.task != o.task {
		return x.task
	}
	return cmp.Or(cmp.Compare(x.priority, o.priority), cmp.Compare(x.since, o.since), cmp.Compare(x.id, o.id)) < 0
}

// grouped is a run, which is open.
type grouped struct {
	of, task *modelWait // nil if it, or its task, names no group
	queued   bool       // its task is
}

type taskModel struct {
	t        *testing.T
	rt       *rapid.T
	s        records.Store
	names    []string
	limits   map[string]int
	policies map[string]run.OnBusy
	runs     []*grouped
	now      int64
}

// waits returns all of the runs that are open and of their tasks.
func (m *taskModel) waits() []*modelWait {
	var out []*modelWait
	for _, r := range m.runs {
		for _, x := range []*modelWait{r.of, r.task} {
			if x != nil {
				out = append(out, x)
			}
		}
	}
	return out
}

// in returns those in a state, in the order of the queues.
func (m *taskModel) in(state slotState) []*modelWait {
	out := slices.DeleteFunc(m.waits(), func(x *modelWait) bool { return x.state != state })
	slices.SortFunc(out, func(a, b *modelWait) int {
		if a.aheadOf(b) {
			return -1
		}
		return 1
	})
	return out
}

// fits reports whether all groups have the slots that one needs beside those that others hold,
// or wait for ahead of it. Runs that wait are in no task's way.
func (m *taskModel) fits(x *modelWait) bool {
	return !slices.ContainsFunc(m.names, func(name string) bool { return m.busy(name, x) })
}

func (m *taskModel) busy(name string, x *modelWait) bool {
	units, needs := x.groups[name]
	limit := m.limits[name]
	if !needs || limit == 0 {
		return false
	}
	taken := min(units, limit)
	for _, o := range m.waits() {
		if o != x && (o.state == slotHolding || o.state == slotWaiting && o.aheadOf(x)) {
			taken += o.groups[name]
		}
	}
	return taken > limit
}

func (m *taskModel) step() {
	switch what := rapid.SampledFrom([]string{"create", "wait", "end", "create", "wait", "end", "deliver", "put", "lost", "queue"}).Draw(m.rt, "step"); {
	case what == "put":
		m.put(rapid.SampledFrom(m.names).Draw(m.rt, "group"))
	case what == "deliver":
		m.deliver()
	case what == "create" || len(m.runs) == 0:
		m.create()
	default:
		r := rapid.SampledFrom(m.runs).Draw(m.rt, "run")
		switch what {
		case "wait":
			m.wait(r)
		case "end":
			m.end(r, rapid.SampledFrom([]run.Status{run.StatusSuccess, run.StatusFailed, run.StatusSkipped, run.StatusStopped}).Draw(m.rt, "status"))
		case "lost":
			require.NoError(m.rt, m.s.CloseLost(m.t.Context(), r.id(), "lost"))
			m.forget(r)
		case "queue":
			m.queue(r)
		}
	}
}

func (r *grouped) id() run.ID {
	if r.of != nil {
		return r.of.id
	}
	return r.task.id
}

// begun reports whether the run may begin.
func (r *grouped) begun() bool { return r.of == nil || r.of.state == slotHolding }

func (m *taskModel) forget(r *grouped) {
	m.runs = slices.DeleteFunc(m.runs, func(o *grouped) bool { return o == r })
}

func (m *taskModel) put(name string) {
	m.limits[name] = rapid.SampledFrom([]int{1, 2, 3, 0, 4}).Draw(m.rt, "limit")
	m.policies[name] = rapid.SampledFrom([]run.OnBusy{run.OnBusyQueue, run.OnBusyQueue, run.OnBusyReject, run.OnBusyCancelQueued}).Draw(m.rt, "policy")
	fixture.Limit(m.t, m.s, name, m.limits[name], m.policies[name])
}

// create creates a run, whose task does not wait yet.
func (m *taskModel) create() {
	r := new(grouped)
	priority := rapid.IntRange(2, 4).Draw(m.rt, "priority")
	names := rapid.SliceOfNDistinct(rapid.SampledFrom(m.names), 1, 3, rapid.ID).Draw(m.rt, "groups")
	own := rapid.IntRange(0, len(names)).Draw(m.rt, "of the run")
	spec := locking(priority)
	if own > 0 {
		spec.ChangeGroups = names[:own]
		r.of = &modelWait{groups: map[string]int{}, priority: priority, since: m.now, state: slotWaiting, id: "zzzzzzzzzzzzzzzzzzzzzzzzzz"}
		for _, name := range names[:own] {
			r.of.groups[name] = 1
		}
	}
	if own < len(names) {
		r.task = &modelWait{task: true, groups: map[string]int{}, priority: priority, state: slotNotStarted}
		for _, name := range names[own:] {
			g := units(name, rapid.IntRange(0, 3).Draw(m.rt, "units"))
			spec.Tasks["build"].ChangeGroups = append(spec.Tasks["build"].ChangeGroups, g)
			r.task.groups[name] = max(1, g.Units)
		}
	}
	created, err := m.s.CreateRun(m.t.Context(), fixture.NewRun(m.t, spec))
	if m.circle(r) || r.of != nil && m.refused(r.of) {
		fixture.RequireCode(m.rt, run.CodeChangeGroupBusy, err)
		return
	}
	require.NoError(m.rt, err)
	if r.of != nil {
		m.cancelQueued(r.of)
		r.of.id = created.ID
		if m.fits(r.of) {
			r.of.state = slotHolding
		}
	}
	if r.task != nil {
		r.task.id = created.ID
	}
	m.runs = append(m.runs, r)
}

// circle reports whether a new run and an open one could wait for each other for ever.
func (m *taskModel) circle(r *grouped) bool {
	between := func(task, of *grouped) bool {
		if task.task == nil || of.of == nil || of.task == nil {
			return false
		}
		return slices.ContainsFunc(m.names, func(name string) bool { return task.task.groups[name] > 0 && of.of.groups[name] > 0 })
	}
	return slices.ContainsFunc(m.runs, func(o *grouped) bool { return between(r, o) || between(o, r) })
}

// refused reports whether a group refuses a new run by its policy.
func (m *taskModel) refused(x *modelWait) bool {
	return slices.ContainsFunc(m.names, func(name string) bool { return m.policies[name] == run.OnBusyReject && m.busy(name, x) })
}

// cancelQueued cancels the runs that wait in groups that are busy for a new run, if the groups
// ask for that.
func (m *taskModel) cancelQueued(x *modelWait) {
	for _, name := range slices.Sorted(slices.Values(m.names)) {
		if m.policies[name] != run.OnBusyCancelQueued || !m.busy(name, x) {
			continue
		}
		for _, r := range slices.Clone(m.runs) {
			if r.of != nil && r.of.state == slotWaiting && r.of.groups[name] > 0 {
				require.Equal(m.rt, run.PhaseCancelled, fixture.Get(m.t, m.s, r.id()).Phase)
				m.forget(r)
			}
		}
	}
}

// wait makes the task of a run wait for its slots, if the run may begin.
func (m *taskModel) wait(r *grouped) {
	if r.task == nil || r.queued || !r.begun() {
		return
	}
	fixture.Begin(m.t, m.s, r.id())
	granted := await(m.t, m.s, r.id())
	m.waited(r)
	require.Equal(m.rt, r.task.state == slotHolding, len(granted) > 0)
}

// queue queues the task of a run, also one that does not wait yet, as a control worker does that
// does not know its groups.
func (m *taskModel) queue(r *grouped) {
	if r.task == nil || r.queued || !r.begun() {
		return
	}
	fixture.Begin(m.t, m.s, r.id())
	_, statuses := fixture.Apply(m.t, m.s, r.id(), records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 1, 1)}})
	r.queued = r.task.state == slotHolding
	want := run.StatusWaitingChangeGroup
	if r.queued {
		want = run.StatusQueued
	}
	require.Equal(m.rt, want, statuses[0].Status)
	m.waited(r)
}

// waited gives a task its slots that has begun to wait, if they are free.
func (m *taskModel) waited(r *grouped) {
	if r.task.state != slotNotStarted {
		return
	}
	r.task.state, r.task.since = slotWaiting, m.now
	if m.fits(r.task) {
		r.task.state = slotHolding
	}
}

// end ends a run that may begin.
func (m *taskModel) end(r *grouped, status run.Status) {
	if !r.begun() {
		return
	}
	fixture.Begin(m.t, m.s, r.id())
	endTask(m.t, m.s, r.id(), status)
	m.forget(r)
}

// progress ends a run that needs nothing more: one whose task holds slots, or names no group. It
// reports whether there was one.
func (m *taskModel) progress() bool {
	for _, r := range m.runs {
		if r.begun() && r.task != nil && r.task.state == slotNotStarted {
			m.wait(r)
			return true
		}
	}
	for _, r := range m.runs {
		if r.begun() && (r.task == nil || r.task.state == slotHolding) {
			m.end(r, run.StatusSuccess)
			return true
		}
	}
	return false
}

// deliver does the work of the outbox dispatcher and the change-group workflows.
func (m *taskModel) deliver() {
	for rows := fixture.TakeAll(m.t, m.s); len(rows) > 0; rows = fixture.TakeAll(m.t, m.s) {
		for _, row := range rows {
			if row.Kind == records.OutboxGrant {
				m.grant(row.ChangeGroup)
			}
			require.NoError(m.rt, m.s.CompleteOutbox(m.t.Context(), row.ID))
		}
	}
	requireNoneLeft(m.rt, m.s)
	require.Empty(m.rt, fixture.TakeAll(m.t, m.s), "a grant was forgotten")
}

func (m *taskModel) grant(name string) {
	granted, more, err := m.s.Grant(m.t.Context(), name)
	require.NoError(m.rt, err)
	require.False(m.rt, more)
	var want []records.Grant
	for _, x := range m.in(slotWaiting) {
		if x.groups[name] > 0 && m.fits(x) {
			x.state = slotHolding
			g := records.Grant{Run: x.id}
			if !x.task {
				g.Task = -1
			}
			want = append(want, g)
		}
	}
	if slices.Contains(m.names, name) { // not of an earlier round
		require.Equal(m.rt, want, granted)
	}
}

// check compares the store with the model.
func (m *taskModel) check() {
	of := func(state slotState, task bool, name string) []run.ID {
		out := []run.ID{}
		for _, x := range m.in(state) {
			if x.task == task && x.groups[name] > 0 {
				out = append(out, x.id)
			}
		}
		return out
	}
	for _, name := range m.names {
		holding, waiting := slots(m.t, m.s, name)
		require.Equal(m.rt, of(slotWaiting, true, name), append([]run.ID{}, waiting...), "tasks that wait in %s", name)
		require.ElementsMatch(m.rt, of(slotHolding, true, name), holding, "tasks that hold in %s", name)
		running, queued := members(m.t, m.s, name)
		require.Equal(m.rt, of(slotWaiting, false, name), queued, "runs that wait in %s", name)
		require.ElementsMatch(m.rt, of(slotHolding, false, name), running, "runs that hold in %s", name)
		held := 0
		for _, x := range m.in(slotHolding) {
			units := max(x.groups[name], 0)
			if limit := m.limits[name]; limit > 0 {
				units = min(units, limit)
			}
			held += units
		}
		requireTotals(m.rt, m.s, name, held, len(waiting)+len(queued))
	}
}
