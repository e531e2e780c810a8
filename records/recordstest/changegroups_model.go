package recordstest

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// testGroupModel does what clients and workflows may do in any order, and
// checks after each step what must always hold of slots.
func testGroupModel(t *testing.T, d *database) {
	s := d.store(t)
	names := []string{"a", "b", "c"}

	rapid.Check(t, func(rt *rapid.T) {
		// One database serves all rounds: what an earlier round left is ended first.
		for id, err := range s.OpenRuns(t.Context()) {
			require.NoError(rt, err)
			require.NoError(rt, s.CloseLost(t.Context(), id, "the round is over"))
		}
		m := &groupModel{t: t, s: s, names: names, limits: map[string]int{}, open: map[run.ID]bool{}}
		for _, name := range names {
			m.put(rt, name)
		}
		grantAll(t, s)
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			m.step(rt)
			m.check(rt)
		}

	})
}

type groupModel struct {
	t      *testing.T
	s      records.Store
	names  []string
	limits map[string]int
	open   map[run.ID]bool
}

func (m *groupModel) put(rt *rapid.T, name string) {
	m.limits[name] = rapid.IntRange(0, 3).Draw(rt, "limit of "+name)
	limit(m.t, m.s, name, m.limits[name], rapid.SampledFrom(run.OnBusyPolicies()).Draw(rt, "policy of "+name))
}

func (m *groupModel) step(rt *rapid.T) {
	ctx := m.t.Context()
	pick := func() run.ID {
		ids := make([]run.ID, 0, len(m.open))
		for id := range m.open {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		if len(ids) == 0 {
			return ""
		}
		return rapid.SampledFrom(ids).Draw(rt, "run")
	}
	allowed := func(err error, codes ...run.Code) {
		if err != nil {
			require.Contains(rt, codes, run.CodeOf(err), "%v", err)
		}
	}
	switch what := rapid.SampledFrom([]string{"create", "create", "create", "begin", "finish", "cancel", "stop", "start", "lost", "put", "grant"}).Draw(rt, "step"); what {
	case "create":
		spec := grouped(rapid.IntRange(1, 5).Draw(rt, "priority"), rapid.SliceOfNDistinct(rapid.SampledFrom(m.names), 0, 3, rapid.ID).Draw(rt, "groups")...)
		if rapid.Bool().Draw(rt, "manual") {
			spec.Admission = run.AdmissionManual
		}
		r, err := m.s.CreateRun(ctx, newRun(m.t, spec))
		allowed(err, run.CodeChangeGroupBusy)
		if err == nil {
			m.open[r.ID] = true
		}
	case "put":
		m.put(rt, rapid.SampledFrom(m.names).Draw(rt, "group"))
	case "grant":
		grantAll(m.t, m.s)
	default:
		id := pick()
		if id == "" {
			return
		}
		switch what {
		case "begin":
			_, err := m.s.Begin(ctx, id)
			require.NoError(rt, err)
		case "finish":
			if standing, err := m.s.Begin(ctx, id); err == nil && standing.Phase == run.PhaseRunning {
				require.NoError(rt, endOf(ctx, m.s, id))
			}
		case "cancel":
			allowed(m.s.CancelRun(ctx, id, nil), run.CodeWrongPhase)
		case "stop":
			allowed(m.s.StopRun(ctx, id, nil), run.CodeWrongPhase)
		case "start":
			allowed(m.s.StartRun(ctx, id, nil), run.CodeWrongPhase, run.CodeChangeGroupBusy)
		case "lost":
			require.NoError(rt, m.s.CloseLost(ctx, id, "lost"))
		}
	}
}

// check looks at all groups after all that was told has been granted.
func (m *groupModel) check(rt *rapid.T) {
	before := map[string][]run.ID{}
	for _, name := range m.names {
		before[name], _ = members(m.t, m.s, name)
	}
	granted := grantAll(m.t, m.s)
	free := map[string]int{}
	waits := map[string][]run.ID{}
	for _, name := range m.names {
		holding, queued := members(m.t, m.s, name)
		free[name] = m.limits[name] - len(holding)
		// A lower limit stops nobody, so more than it may hold, but none of
		// those was let in just now.
		if m.limits[name] > 0 && len(holding) > m.limits[name] {
			for _, id := range holding {
				require.NotContains(rt, granted, id, "group %s is over its limit, and yet let a run in", name)
			}
		}
		for _, id := range slices.Concat(holding, queued) {
			r := get(m.t, m.s, id)
			require.False(rt, r.Phase.Final(), "a final run stands in group %s", name)
			require.Contains(rt, r.ChangeGroups, name)
			if r.Phase == run.PhaseRunning {
				require.Contains(rt, holding, id)
			}
		}
		for _, id := range queued {
			if waiting, err := m.s.Waits(m.t.Context(), id); err == nil && len(waiting) > 0 {
				waits[name] = append(waits[name], id)
			}
		}
		require.Subset(rt, holding, stillOpen(m.t, m.s, before[name]), "nobody loses a slot but by its end")
	}
	// Whoever waits is kept out by one of its groups, counting those before it.
	for _, name := range m.names {
		for _, id := range waits[name] {
			waiting, err := m.s.Waits(m.t.Context(), id)
			require.NoError(rt, err)
			kept := slices.ContainsFunc(waiting, func(w records.GroupWait) bool { return w.Holding+w.Place > w.MaxRunning })
			require.True(rt, kept, "run %s waits in %s for nothing: %+v", id, name, waiting)
		}
	}
}

func stillOpen(t *testing.T, s records.Store, ids []run.ID) []run.ID {
	return slices.DeleteFunc(slices.Clone(ids), func(id run.ID) bool { return get(t, s, id).Phase.Final() })
}
