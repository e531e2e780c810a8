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

// testGroupModel makes the calls of clients and workflows in random order, and
// compares all groups with a model after each step.
func testGroupModel(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	now := time.Now()
	d.Clock.Fixed.Store(now.UnixNano())
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		// One database serves all rounds; each has groups of its own.
		round++
		m := &groupModel{t: t, rt: rt, s: s, groups: map[string]*modelGroup{}, versions: run.Token{}}
		for _, name := range []string{"a", "b", "c", "d"} {
			name += strconv.Itoa(round)
			m.names = append(m.names, name)
			m.groups[name] = &modelGroup{policy: run.OnBusyQueue}
			m.versions[name] = 0
		}
		slices.Sort(m.names)
		for _, name := range m.names {
			m.beginStep(now)
			m.put(name)
			m.check()
		}
		for range rapid.IntRange(5, 35).Draw(rt, "steps") {
			// The clock may stand still: then ids decide the order.
			now = now.Add(time.Duration(rapid.IntRange(0, 1).Draw(rt, "passed")) * time.Millisecond)
			d.Clock.Fixed.Store(now.UnixNano())
			m.beginStep(now)
			m.step()
			m.check()
		}
		m.beginStep(now)
		m.deliver()
		m.check()
		m.checkNoneForgotten()
	})
}

type modelGroup struct {
	limit  int
	policy run.OnBusy
}

// slotState is the slot state of a run in its groups.
type slotState int

const (
	slotNotStarted slotState = iota
	slotWaiting
	slotHolding
	slotDone
)

type modelRun struct {
	id       run.ID
	groups   []string // sorted
	priority int
	manual   bool
	phase    run.Phase
	stopping bool
	deleted  bool
	state    slotState
	since    int64
}

func (r *modelRun) inGroup(name string) bool { return slices.Contains(r.groups, name) }

func (r *modelRun) aheadOf(o *modelRun) bool {
	return cmp.Or(cmp.Compare(r.priority, o.priority), cmp.Compare(r.since, o.since), cmp.Compare(r.id, o.id)) < 0
}

// groupModel is the expected model of change groups.
type groupModel struct {
	t  *testing.T
	rt *rapid.T
	s  records.Store

	names     []string
	groups    map[string]*modelGroup
	runs      []*modelRun
	versions  run.Token
	oldTokens []run.Token // tokens read in earlier steps

	now     int64
	ticks   int64
	changed map[string]bool // groups, in this step
}

// beginStep begins a step.
func (m *groupModel) beginStep(now time.Time) {
	m.now, m.ticks, m.changed = now.UnixNano(), 0, map[string]bool{}
}

// members returns the runs in a slot state of a group, in order.
func (m *groupModel) members(name string, slot slotState) []*modelRun {
	var out []*modelRun
	for _, r := range m.runs {
		if r.state == slot && r.inGroup(name) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *modelRun) int {
		if slot == slotHolding {
			return cmp.Or(cmp.Compare(a.since, b.since), cmp.Compare(a.id, b.id))
		}
		if a.aheadOf(b) {
			return -1
		}
		return 1
	})
	return out
}

// ahead counts the runs that hold a slot of a group, and those that wait ahead
// of r.
func (m *groupModel) ahead(name string, r *modelRun) (holding, before int) {
	for _, o := range m.members(name, slotWaiting) {
		if o.aheadOf(r) {
			before++
		}
	}
	return len(m.members(name, slotHolding)), before
}

func (m *groupModel) busy(name string, r *modelRun) bool {
	holding, before := m.ahead(name, r)
	limit := m.groups[name].limit
	return limit > 0 && holding+before >= limit
}

func (m *groupModel) fits(r *modelRun) bool {
	return !slices.ContainsFunc(r.groups, func(name string) bool { return m.busy(name, r) })
}

func (m *groupModel) markChanged(names ...string) {
	for _, name := range names {
		m.changed[name] = true
	}
}

// admit admits a run if possible, after preempting others, and reports whether
// it was not rejected.
func (m *groupModel) admit(r *modelRun) bool {
	r.since = m.now
	for _, name := range r.groups {
		if m.groups[name].policy == run.OnBusyReject && m.busy(name, r) {
			return false
		}
	}
	for _, name := range r.groups {
		g := m.groups[name]
		if !m.busy(name, r) {
			continue
		}
		holding, before := m.ahead(name, r)
		switch g.policy {
		case run.OnBusyCancelQueued:
			for _, o := range m.members(name, slotWaiting) {
				m.end(o, run.PhaseCancelled)
			}
		case run.OnBusyStopRunning:
			n := min(holding, holding+before+1-g.limit)
			for _, o := range m.members(name, slotHolding) {
				if o.stopping {
					n--
				}
			}
			for _, o := range m.members(name, slotHolding) {
				if n <= 0 || o.stopping {
					continue
				}
				n--
				m.markChanged(o.groups...)
				if o.phase == run.PhaseQueued {
					m.end(o, run.PhaseCancelled)
				} else {
					o.stopping = true
				}
			}
		case run.OnBusyQueue, run.OnBusyReject:
		}
	}
	m.markChanged(r.groups...)
	r.state = slotWaiting
	if m.fits(r) {
		r.state = slotHolding
	}
	return true
}

func (m *groupModel) end(r *modelRun, phase run.Phase) {
	r.phase, r.state = phase, slotDone
	m.markChanged(r.groups...)
}

// admitWaiting is the model of Grant.
func (m *groupModel) admitWaiting(name string) []run.ID {
	var ids []run.ID
	for _, r := range m.members(name, slotWaiting) {
		if !m.fits(r) {
			continue
		}
		r.state, r.phase, r.since = slotHolding, run.PhaseRunning, m.now+m.ticks
		m.ticks++
		m.markChanged(r.groups...)
		ids = append(ids, r.id)
		for _, name := range r.groups {
			if limit := m.groups[name].limit; limit > 0 {
				require.LessOrEqual(m.rt, len(m.members(name, slotHolding)), limit, "runs are admitted only below the limit")
			}
		}
	}
	return ids
}

// check compares the store with the model.
func (m *groupModel) check() {
	groups, token, err := m.s.ChangeGroups(m.t.Context(), run.ChangeGroupQuery{Names: m.names})
	require.NoError(m.rt, err)
	ids := func(lists ...[]*modelRun) []run.ID {
		out := []run.ID{}
		for _, r := range slices.Concat(lists...) {
			out = append(out, r.id)
		}
		return out
	}
	for i, name := range m.names {
		g := m.groups[name]
		want := run.ChangeGroup{
			Name: name, MaxRunning: g.limit, OnBusy: g.policy, Version: token[name],
			Running: ids(m.members(name, slotHolding)), Queued: ids(m.members(name, slotWaiting), m.members(name, slotNotStarted)),
		}
		want.Held, want.Waiting = len(want.Running), len(want.Queued)
		require.Equal(m.rt, want, groups[i])
		if m.changed[name] {
			require.Greater(m.rt, token[name], m.versions[name], "%s changed", name)
		} else {
			require.Equal(m.rt, m.versions[name], token[name], "%s did not change", name)
		}
	}
	m.oldTokens = append(m.oldTokens, m.versions)
	m.versions = token
	for _, r := range m.runs {
		got, err := m.s.GetSummary(m.t.Context(), r.id)
		if r.deleted {
			fixture.RequireCode(m.rt, run.CodeNotFound, err)
			continue
		}
		require.NoError(m.rt, err)
		require.Equal(m.rt, r.phase, got.Phase, "run %s", r.id)
	}
	m.checkWaits()
}

func (m *groupModel) checkWaits() {
	for _, r := range m.runs {
		if r.state == slotDone {
			continue
		}
		var want []records.GroupWait
		for _, name := range r.groups {
			if m.groups[name].limit == 0 || r.state != slotWaiting {
				continue
			}
			holding, before := m.ahead(name, r)
			w := records.GroupWait{Group: name, MaxRunning: m.groups[name].limit, Holding: holding, Position: before + 1, Ahead: before}
			for _, o := range m.members(name, slotHolding)[:min(3, holding)] {
				w.Holders = append(w.Holders, o.id)
			}
			want = append(want, w)
		}
		got, err := m.s.GroupWaits(m.t.Context(), r.id)
		require.NoError(m.rt, err)
		require.Equal(m.rt, want, got, "run %s", r.id)
	}
}

// checkNoneForgotten checks that no admissible run waits after all grants in the
// outbox were delivered.
func (m *groupModel) checkNoneForgotten() {
	for _, name := range m.names {
		for _, r := range m.members(name, slotWaiting) {
			require.False(m.rt, m.fits(r), "run %s is admissible and waits", r.id)
		}
	}
}
