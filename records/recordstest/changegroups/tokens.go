package changegroups

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

func testToken(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	fixture.Limit(t, s, "g", 1, run.OnBusyQueue)
	read := func(groups ...string) run.Token {
		page, err := s.ListRuns(ctx, run.ListQuery{TokenFor: groups})
		require.NoError(t, err)
		return page.Token
	}
	withToken := func(spec *run.Spec, token run.Token) (run.Run, error) {
		n := fixture.NewRun(t, spec)
		n.Token = token
		return s.CreateRun(ctx, n)
	}
	token := read("g", "never-named")
	r, err := withToken(fixture.Grouped(3, "other"), token)
	require.NoError(t, err, "the groups of the token need not be those of the run")
	_, err = withToken(fixture.Grouped(3, "g"), token)
	fixture.RequireCode(t, run.CodeChangeGroupConflict, err)
	require.ErrorContains(t, err, "g changed since")
	token = read("g")
	require.Equal(t, token, read("g"), "reading changes nothing")
	require.NoError(t, s.CancelRun(ctx, r.ID, read("other")))
	require.Equal(t, token, read("g"))

	a, err := withToken(fixture.Grouped(3, "g"), token)
	require.NoError(t, err)
	steps := map[string]func(token run.Token) error{
		"annotate": func(token run.Token) error { return s.Annotate(ctx, a.ID, "", map[string]string{"k": "v"}, token) },
		"begin":    func(run.Token) error { _, err := s.Begin(ctx, a.ID); return err },
		"stop":     func(token run.Token) error { return s.StopRun(ctx, a.ID, token) },
		"put": func(token run.Token) error {
			_, _, err := s.PutChangeGroup(ctx, run.ChangeGroup{Name: "g", MaxRunning: 2, OnBusy: run.OnBusyQueue}, token)
			return err
		},
		"finish": func(run.Token) error { fixture.Finish(t, s, a.ID); return nil },
	}
	for _, name := range []string{"annotate", "begin", "stop", "put", "finish"} {
		before := read("g")
		require.NoError(t, steps[name](before), name)
		require.Greater(t, read("g")["g"], before["g"], "%s changes the group", name)
		if name != "begin" && name != "finish" {
			fixture.RequireCode(t, run.CodeChangeGroupConflict, steps[name](before))
		}
	}
}

// testTokenUnnamed makes calls whose tokens have names that nothing else has. No row is
// left for them: a client could create any number. The first run of a group still makes
// such a token stale.
func testTokenUnnamed(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	create := func(group string, token run.Token) error {
		n := fixture.NewRun(t, fixture.Grouped(3, group))
		n.Token = token
		_, err := s.CreateRun(ctx, n)
		return err
	}
	names := func() (all []string) {
		groups, _, err := s.ChangeGroups(ctx, run.ChangeGroupQuery{})
		require.NoError(t, err)
		for _, g := range groups {
			all = append(all, g.Name)
		}
		return all
	}
	require.NoError(t, create("g", nil))
	before := names()
	token := run.Token{"x1": 0, "x2": 0}
	a := fixture.Create(t, s, fixture.Grouped(3, "g"))
	require.NoError(t, create("g", token))
	require.NoError(t, s.Annotate(ctx, a.ID, "", map[string]string{"k": "v"}, token))
	require.NoError(t, s.CancelRun(ctx, a.ID, token))
	_, _, err := s.PutChangeGroup(ctx, run.ChangeGroup{Name: "g", MaxRunning: 2, OnBusy: run.OnBusyQueue}, token)
	require.NoError(t, err)
	fixture.RequireCode(t, run.CodeChangeGroupConflict, create("g", run.Token{"x1": 1}))
	require.Equal(t, before, names())

	// Of calls at once that create the first run of x1, one succeeds, also beside calls that
	// only have a token of it.
	const clients = 8
	created, guarded := make([]error, clients), make([]error, clients)
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() { created[i] = create("x1", run.Token{"x1": 0}) })
		all.Go(func() { guarded[i] = create("g", run.Token{"x1": 0, "x3": 0}) })
	}
	all.Wait()
	succeeded := 0
	for i := range clients {
		for _, err := range []error{created[i], guarded[i]} {
			if err != nil {
				fixture.RequireCode(t, run.CodeChangeGroupConflict, err)
			}
		}
		if created[i] == nil {
			succeeded++
		}
	}
	require.Equal(t, 1, succeeded, "first runs of x1")
	require.Equal(t, append(before, "x1"), names())
}

func testTokenRefused(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	a := fixture.Create(t, s, fixture.Grouped(3, "g"))
	got, err := s.GetRun(ctx, a.ID, "g")
	require.NoError(t, err)
	fixture.RequireCode(t, run.CodeWrongPhase, s.StopRun(ctx, a.ID, got.Token))
	fixture.RequireCode(t, run.CodeNotFound, s.ApproveTask(ctx, a.ID, "none", "me", got.Token))
	require.NoError(t, s.CancelRun(ctx, a.ID, got.Token), "a refused call does not use the token")
}

// testTokenCalls makes each call that changes a run with a token of its group
// and of another one: both groups change, and only if the call changes
// something.
func testTokenCalls(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	fixture.Limit(t, s, "other", 1, run.OnBusyQueue)
	read := func() run.Token {
		page, err := s.ListRuns(ctx, run.ListQuery{TokenFor: []string{"g", "other"}})
		require.NoError(t, err)
		return page.Token
	}
	spec := fixture.Grouped(3, "g")
	spec.Admission = run.AdmissionManual
	spec.Tasks["build"].Approval.Approvers = 2
	var id run.ID
	created := func(n records.NewRun, token run.Token) error {
		n.Token = token
		r, err := s.CreateRun(ctx, n)
		if err == nil {
			id = r.ID
		}
		return err
	}
	waits := func() {
		fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{{Task: 0, Status: run.StatusWaitingApproval}}})
	}
	for _, step := range []struct {
		name   string
		before func()
		call   func(token run.Token) error
	}{
		{"create", nil, func(token run.Token) error { return created(fixture.NewRun(t, spec), token) }},
		{"start", nil, func(token run.Token) error { return s.StartRun(ctx, id, token) }},
		{"approve", waits, func(token run.Token) error { return s.ApproveTask(ctx, id, "build", "me", token) }},
		{"annotate task", nil, func(token run.Token) error { return s.Annotate(ctx, id, "build", nil, token) }},
		{"stop", nil, func(token run.Token) error { return s.StopRun(ctx, id, token) }},
		{"stop again", nil, func(token run.Token) error { return s.StopRun(ctx, id, token) }},
		{"restart", func() { fixture.Finish(t, s, id) }, func(token run.Token) error {
			n := fixture.NewRun(t, fixture.OneTask("/a/b"))
			n.Restart = &records.Restart{From: id}
			return created(n, token)
		}},
		{"cancel", func() { require.NoError(t, created(fixture.NewRun(t, spec), nil)) }, func(token run.Token) error { return s.CancelRun(ctx, id, token) }},
	} {
		if step.before != nil {
			step.before()
		}
		before := read()
		stale := run.Token{"g": before["g"], "other": before["other"] + 1}
		err := step.call(stale)
		fixture.RequireCode(t, run.CodeChangeGroupConflict, err)
		require.ErrorContains(t, err, "other changed", step.name)
		require.Equal(t, before, read(), step.name)
		require.NoError(t, step.call(before), step.name)
		after := read()
		require.Equal(t, run.Token{"g": before["g"] + 1, "other": before["other"] + 1}, after, step.name)
	}
	before := read()
	fixture.RequireCode(t, run.CodeWrongPhase, s.CancelRun(ctx, id, before))
	fixture.RequireCode(t, run.CodeNotFound, s.CancelRun(ctx, "01j00000000000000000000000", before))
	require.NoError(t, s.CloseLost(ctx, id, "it is final"))
	require.Equal(t, before, read())
}
