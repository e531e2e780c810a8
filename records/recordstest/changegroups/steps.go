package changegroups

import (
	"slices"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

// step makes one call that is possible, in the store and in the model.
func (m *groupModel) step() {
	steps := map[string]func(r *modelRun){
		"begin": m.begin, "finish": m.finish, "cancel": m.cancel, "stop": m.stop, "start": m.start, "annotate": m.annotate,
		"lost": m.closeLost, "delete": m.delete,
	}
	// rapid draws earlier entries more often.
	switch what := rapid.SampledFrom([]string{
		"create", "create", "create", "create", "finish", "begin", "deliver", "put", "start", "create", "finish", "begin", "deliver",
		"grant", "cancel", "stop", "lost", "delete", "annotate",
	}).Draw(m.rt, "step"); what {
	case "create":
		m.create()
	case "put":
		m.put(rapid.SampledFrom(m.names).Draw(m.rt, "group"))
	case "grant":
		m.grant(rapid.SampledFrom(m.names).Draw(m.rt, "group"))
	case "deliver":
		m.deliver()
	default:
		skipNoops := rapid.IntRange(0, 9).Draw(m.rt, "any run") < 9 && what != "delete" && what != "annotate"
		left := slices.DeleteFunc(slices.Clone(m.runs), func(r *modelRun) bool {
			return r.deleted || skipNoops && (r.phase.Final() || what == "finish" && r.phase != run.PhaseRunning)
		})
		if len(left) > 0 {
			steps[what](rapid.SampledFrom(left).Draw(m.rt, "run"))
		}
	}
}

// token draws an update token, and reports whether it is stale.
func (m *groupModel) token() (run.Token, bool) {
	from := m.versions
	switch kind := rapid.IntRange(0, 3).Draw(m.rt, "token"); {
	case kind < 2:
		return nil, false
	case kind == 3 && len(m.oldTokens) > 0:
		from = rapid.SampledFrom(m.oldTokens).Draw(m.rt, "old token")
	}
	token := run.Token{}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(m.names), 1, 3, rapid.ID).Draw(m.rt, "groups of the token") {
		token[name] = from[name]
	}
	for name, version := range token {
		if version != m.versions[name] {
			return token, true
		}
	}
	return token, false
}

// call makes a call with a token. do returns the error. expected returns the
// code that the error must have if the token is not stale, "" for none.
func (m *groupModel) call(r *modelRun, do func(token run.Token) error, expected func() run.Code) {
	token, stale := m.token()
	err := do(token)
	want := run.CodeChangeGroupConflict
	if !stale {
		want = expected()
	}
	if want != "" {
		fixture.RequireCode(m.rt, want, err)
		return
	}
	require.NoError(m.rt, err)
	if token != nil {
		for _, name := range token.Groups() {
			if m.versions[name] > 0 { // else only tokens have named it
				m.markChanged(name)
			}
		}
		m.markChanged(r.groups...)
	}
}

func (m *groupModel) create() {
	groups := rapid.SampledFrom([][]string{m.names[:1], m.names[:2], m.names[1:2], m.names[1:3], m.names[2:], m.names[:3], nil}).Draw(m.rt, "groups")
	r := &modelRun{
		groups: groups, priority: rapid.IntRange(2, 4).Draw(m.rt, "priority"),
		manual: rapid.IntRange(0, 3).Draw(m.rt, "manual") == 1, phase: run.PhaseQueued, since: m.now,
		id: "zzzzzzzzzzzzzzzzzzzzzzzzzz", // greater than any other
	}
	spec := fixture.Grouped(r.priority, groups...)
	if r.manual {
		spec.Admission = run.AdmissionManual
	}
	m.call(r, func(token run.Token) error {
		n := fixture.NewRun(m.t, spec)
		n.Token = token
		created, err := m.s.CreateRun(m.t.Context(), n)
		if err == nil {
			r.id = created.ID
		}
		return err
	}, func() run.Code {
		if !r.manual && !m.admit(r) {
			return run.CodeChangeGroupBusy
		}
		m.markChanged(r.groups...)
		m.runs = append(m.runs, r)
		return ""
	})
}

func (m *groupModel) put(name string) {
	g := modelGroup{limit: rapid.SampledFrom([]int{1, 2, 1, 3, 0, 2}).Draw(m.rt, "limit"), policy: rapid.SampledFrom(run.OnBusyPolicies()).Draw(m.rt, "policy")}
	m.call(&modelRun{}, func(token run.Token) error {
		_, _, err := m.s.PutChangeGroup(m.t.Context(), run.ChangeGroup{Name: name, MaxRunning: g.limit, OnBusy: g.policy}, token)
		return err
	}, func() run.Code {
		m.markChanged(name)
		m.groups[name] = &g
		return ""
	})
}

func (m *groupModel) grant(name string) {
	granted, more, err := m.s.Grant(m.t.Context(), name)
	require.NoError(m.rt, err)
	require.False(m.rt, more)
	var runs []run.ID
	for _, g := range granted {
		runs = append(runs, g.Run)
	}
	require.Equal(m.rt, m.admitWaiting(name), runs)
}

// deliver does the work of the outbox dispatcher and the change-group
// workflows.
func (m *groupModel) deliver() {
	ctx := m.t.Context()
	for rows := fixture.TakeAll(m.t, m.s); len(rows) > 0; rows = fixture.TakeAll(m.t, m.s) {
		for _, row := range rows {
			if m.groups[row.ChangeGroup] != nil {
				m.ticks = 0
				m.grant(row.ChangeGroup)
			} else if row.ChangeGroup != "" { // of an earlier round
				_, _, err := m.s.Grant(ctx, row.ChangeGroup)
				require.NoError(m.rt, err)
			}
			require.NoError(m.rt, m.s.CompleteOutbox(ctx, row.ID))
		}
	}
}

func (m *groupModel) begin(r *modelRun) {
	status, err := m.s.Begin(m.t.Context(), r.id)
	require.NoError(m.rt, err)
	// A run without groups holds no slot, and may begin all the same.
	if r.phase == run.PhaseQueued && r.state == slotHolding {
		r.phase = run.PhaseRunning
		m.markChanged(r.groups...)
	}
	require.Equal(m.rt, r.phase, status.Phase)
	require.Equal(m.rt, status.StopRequested, r.stopping)
}

func (m *groupModel) finish(r *modelRun) {
	if r.phase != run.PhaseRunning {
		return
	}
	_, _, err := m.s.Apply(m.t.Context(), r.id, records.Changes{
		Tasks: []run.TaskChange{{Task: 0, Status: run.StatusSkipped}}, Result: run.ResultSuccess, Finish: true,
	})
	require.NoError(m.rt, err)
	m.end(r, run.PhaseFinished)
}

func (m *groupModel) cancel(r *modelRun) {
	m.call(r, func(token run.Token) error { return m.s.CancelRun(m.t.Context(), r.id, token) }, func() run.Code {
		if r.phase != run.PhaseQueued {
			return run.CodeWrongPhase
		}
		m.end(r, run.PhaseCancelled)
		return ""
	})
}

func (m *groupModel) stop(r *modelRun) {
	m.call(r, func(token run.Token) error { return m.s.StopRun(m.t.Context(), r.id, token) }, func() run.Code {
		if r.phase != run.PhaseRunning {
			return run.CodeWrongPhase
		}
		if !r.stopping {
			r.stopping = true
			m.markChanged(r.groups...)
		}
		return ""
	})
}

func (m *groupModel) start(r *modelRun) {
	m.call(r, func(token run.Token) error { return m.s.StartRun(m.t.Context(), r.id, token) }, func() run.Code {
		switch {
		case !r.manual || r.phase != run.PhaseQueued:
			return run.CodeWrongPhase
		case r.state == slotWaiting:
			return "" // it waits already
		}
		since := r.since
		if !m.admit(r) {
			r.since = since
			return run.CodeChangeGroupBusy
		}
		if r.state == slotHolding {
			r.phase = run.PhaseRunning
		}
		return ""
	})
}

func (m *groupModel) annotate(r *modelRun) {
	m.call(r, func(token run.Token) error {
		return m.s.Annotate(m.t.Context(), r.id, "", map[string]string{"k": "v"}, token)
	}, func() run.Code {
		m.markChanged(r.groups...)
		return ""
	})
}

func (m *groupModel) closeLost(r *modelRun) {
	require.NoError(m.rt, m.s.CloseLost(m.t.Context(), r.id, "lost"))
	if !r.phase.Final() {
		m.end(r, run.PhaseFinished)
	}
}

func (m *groupModel) delete(r *modelRun) {
	err := m.s.DeleteRun(m.t.Context(), r.id)
	if !r.phase.Final() {
		fixture.RequireCode(m.rt, run.CodeWrongPhase, err)
		return
	}
	require.NoError(m.rt, err)
	r.deleted = true
	m.markChanged(r.groups...)
}
