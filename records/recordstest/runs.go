package recordstest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

func runTests() map[string]func(t *testing.T, d *fixture.Database) {
	return map[string]func(t *testing.T, d *fixture.Database){
		"Create/returns_what_is_stored":      testCreate,
		"Create/setup_error_is_final":        testSetupError,
		"Create/counters_are_dense":          testCounters,
		"Create/ids_sort_by_creation":        testIDs,
		"Create/time_may_be_given":           testGivenTime,
		"Create/ten_thousand_tasks":          testManyTasks,
		"Get/not_found":                      testGetNotFound,
		"Open/lists_oldest_first_and_counts": testOpenRuns,
	}
}

// rich returns a specification that uses almost every feature.
func rich() *run.Spec {
	return &run.Spec{
		Name: "rich", Group: "/project/42/branch/main", ChangeGroups: []string{"project-42"}, Priority: 2,
		Annotations: map[string]string{"commit": "4f2a", "odd": "a%b_c'\"\n"},
		Environment: map[string]string{"GOFLAGS": "-trimpath"},
		Secrets:     map[string]run.Secret{"TOKEN": "hunter2", "B": "bbbb"},
		Registries:  map[string]run.Registry{"ghcr.io": {Username: "u", PasswordSecret: "TOKEN"}},
		Timeout:     run.Duration(2 * time.Hour),
		Tasks: map[string]*run.TaskSpec{
			"build": {
				Pool: "linux", Image: "golang", Environment: map[string]string{"A": "b"}, Matrix: run.Matrix{Axes: map[string][]string{"GO": {"1.25", "1.26"}}},
				Steps: []run.Step{{Run: "go build"}, {Name: "vet", Run: "go vet", When: run.WhenAlways}},
			},
			"deploy": {
				Pool: "shell", Steps: []run.Step{{Run: "true"}}, Approval: run.Approval{Approvers: 2},
				Depends: []run.Depend{{Task: "build", On: []run.Condition{run.OnSuccess, run.OnSkipped}}},
			},
		},
	}
}

func testCreate(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	spec := rich()
	before := time.Now()
	r := fixture.Create(t, s, spec)
	require.True(t, run.ValidID(r.ID), r.ID)
	require.WithinRange(t, r.CreatedAt, before.Truncate(time.Millisecond), time.Now())
	stored := fixture.Get(t, s, r.ID)
	require.Empty(t, cmp.Diff(r, stored))

	require.Equal(t, int64(1), r.Counter)
	require.Equal(t, run.PhaseQueued, r.Phase)
	require.Equal(t, run.ResultUnknown, r.Result)
	require.Equal(t, run.AdmissionAuto, r.Admission)
	require.Equal(t, spec.Annotations, r.Annotations)
	require.Equal(t, spec.Environment, r.Environment)
	require.Equal(t, spec.ChangeGroups, r.ChangeGroups)
	require.Equal(t, []string{"B", "TOKEN"}, r.SecretNames)
	require.Equal(t, map[run.Status]int{run.StatusNotStarted: 3}, r.TaskCounts)
	require.Equal(t, "rich", r.Name)
	require.Equal(t, 2, r.Priority)
	require.Len(t, r.Tasks, 3)
	names := []string{r.Tasks[0].Name, r.Tasks[1].Name, r.Tasks[2].Name}
	require.Equal(t, []string{"build[GO=1.25]", "build[GO=1.26]", "deploy"}, names)
	require.Equal(t, "vet", r.Tasks[1].Steps[1].Name)
	require.Equal(t, run.StatusNotStarted, r.Tasks[1].Steps[1].Status)
	require.Equal(t, "run", r.Tasks[1].Steps[1].Type)
	require.Equal(t, "linux", r.Tasks[1].Pool)
	require.Equal(t, spec.Tasks["deploy"].Depends, r.Tasks[2].Depends)
	require.Equal(t, spec.Tasks["deploy"].Approval, r.Tasks[2].Approval)

	summary, err := s.GetSummary(t.Context(), r.ID)
	require.NoError(t, err)
	bare := r
	bare.Tasks = nil
	require.Empty(t, cmp.Diff(bare, summary))
	for _, want := range r.Tasks {
		task, err := s.GetTask(t.Context(), r.ID, want.Name)
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(want, task))
	}
	require.Equal(t, []records.OutboxKind{records.OutboxStart}, fixture.Drain(t, s))
}

func testSetupError(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	spec := fixture.OneTask("/a/b")
	spec.SetupErrors = []string{"no such branch"}
	r := fixture.Create(t, s, spec)
	require.Equal(t, run.PhaseSetupError, r.Phase)
	require.Equal(t, spec.SetupErrors, r.SetupErrors)
	require.Equal(t, r.CreatedAt, r.EndedAt)
	require.Empty(t, cmp.Diff(r, fixture.Get(t, s, r.ID)))
	require.Empty(t, fixture.Drain(t, s))
	fixture.RequireCode(t, run.CodeWrongPhase, s.CancelRun(t.Context(), r.ID, nil))
}

// testCounters creates runs concurrently in several roots, through two stores.
func testCounters(t *testing.T, d *fixture.Database) {
	stores := []records.Store{d.Store(t), d.Store(t)}
	const creators, each = 20, 5
	var mu sync.Mutex
	created := make(map[string][]run.Run)
	var group errgroup.Group
	for i := range creators {
		group.Go(func() error {
			for k := range each {
				root := fmt.Sprintf("/root/%d", (i+k)%3)
				spec := fixture.OneTask(fmt.Sprintf("%s/branch/%d", root, i))
				r, err := stores[i%2].CreateRun(t.Context(), fixture.NewRun(t, spec))
				if err != nil {
					return err
				}
				mu.Lock()
				created[root] = append(created[root], r)
				mu.Unlock()
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	total := 0
	for root, runs := range created {
		slices.SortFunc(runs, func(a, b run.Run) int { return int(a.Counter - b.Counter) })
		for i, r := range runs {
			require.Equal(t, int64(i+1), r.Counter, root)
			if i > 0 {
				require.Greater(t, r.ID, runs[i-1].ID, "ids are in the order of the counters")
				require.False(t, r.CreatedAt.Before(runs[i-1].CreatedAt.Truncate(time.Millisecond)))
			}
		}
		total += len(runs)
	}
	require.Equal(t, creators*each, total)
}

func testIDs(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	d.Clock.Fixed.Store(time.Date(2026, 5, 6, 7, 8, 9, 123_456_789, time.UTC).UnixNano())
	var last run.ID
	for i := range 20 {
		if i == 10 { // the clock goes back
			d.Clock.Fixed.Add(-int64(time.Hour))
		}
		r := fixture.Create(t, s, fixture.OneTask("/a/b"))
		require.Greater(t, r.ID, last)
		last = r.ID
	}
	d.Clock.Fixed.Store(0)
	require.Greater(t, fixture.Create(t, s, fixture.OneTask("/a/b")).ID, last)
}

func testGivenTime(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	at := time.Date(2020, 1, 2, 3, 4, 5, 6_000_007, time.UTC)
	fixture.Create(t, s, fixture.OneTask("/a/b"))
	n := fixture.NewRun(t, fixture.OneTask("/a/b"))
	n.Time = at
	old, err := s.CreateRun(t.Context(), n)
	require.NoError(t, err)
	require.Equal(t, at, old.CreatedAt)
	require.Equal(t, int64(2), old.Counter)
	page, err := s.ListRuns(t.Context(), run.ListQuery{CreatedBefore: at.Add(time.Nanosecond)})
	require.NoError(t, err)
	require.Len(t, page.Runs, 1)
	require.Equal(t, old.ID, page.Runs[0].ID)
	page, err = s.ListRuns(t.Context(), run.ListQuery{CreatedBefore: at})
	require.NoError(t, err)
	require.Empty(t, page.Runs)
}

func testManyTasks(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	r := fixture.Create(t, s, fixture.Wide("/a/b", run.MaxTasks))
	stored := fixture.Get(t, s, r.ID)
	require.Len(t, stored.Tasks, run.MaxTasks)
	for i, task := range stored.Tasks {
		require.Equal(t, i, task.Number)
		require.Equal(t, fmt.Sprintf("all[N=%d]", i), task.Name)
	}
	fixture.Begin(t, s, r.ID)
	key := run.Key{Run: r.ID, Task: 9_999, Attempt: 1, Dispatch: 1}
	definition := fixture.Claim(t, s, key)
	require.Equal(t, "9999", definition.Environment["N"])
}

func testGetNotFound(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	const missing = run.ID("01h00000000000000000000000")
	_, err := s.GetRun(ctx, missing)
	fixture.RequireCode(t, run.CodeNotFound, err)
	_, err = s.GetSummary(ctx, missing)
	fixture.RequireCode(t, run.CodeNotFound, err)
	_, err = s.GetTask(ctx, missing, "build")
	fixture.RequireCode(t, run.CodeNotFound, err)
	_, err = s.GetTask(ctx, fixture.Create(t, s, fixture.OneTask("/a/b")).ID, "other")
	fixture.RequireCode(t, run.CodeNotFound, err)
	_, err = s.Begin(ctx, missing)
	fixture.RequireCode(t, run.CodeNotFound, err)
	_, _, err = s.Apply(ctx, missing, records.Changes{})
	fixture.RequireCode(t, run.CodeNotFound, err)
	_, _, err = s.LoadPlan(ctx, missing, 0)
	fixture.RequireCode(t, run.CodeNotFound, err)
	_, err = s.Claim(ctx, run.ClaimRequest{Key: run.Key{Run: missing, Attempt: 1, Dispatch: 1}, Executor: "x", JournalID: "j"})
	fixture.RequireCode(t, run.CodeNotFound, err)
	_, err = s.Batches(ctx, missing, 0, 0, records.BatchRef{})
	fixture.RequireCode(t, run.CodeNotFound, err)
	fixture.RequireCode(t, run.CodeNotFound, s.StartRun(ctx, missing, nil))
	fixture.RequireCode(t, run.CodeNotFound, s.CancelRun(ctx, missing, nil))
	fixture.RequireCode(t, run.CodeNotFound, s.StopRun(ctx, missing, nil))
	fixture.RequireCode(t, run.CodeNotFound, s.ApproveTask(ctx, missing, "build", "me", nil))
	fixture.RequireCode(t, run.CodeNotFound, s.Annotate(ctx, missing, "", nil, nil))
	fixture.RequireCode(t, run.CodeNotFound, s.CloseLost(ctx, missing, "why"))
}

func testOpenRuns(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	var want []run.ID
	for i := range 12 {
		r := fixture.Create(t, s, fixture.OneTask("/a/b"))
		switch i % 3 {
		case 0:
			require.NoError(t, s.CancelRun(t.Context(), r.ID, nil))
			continue
		case 1:
			fixture.Begin(t, s, r.ID)
		}
		want = append(want, r.ID)
	}
	got, err := s.OpenRuns(t.Context(), "", 100)
	require.NoError(t, err)
	require.Empty(t, got, "no workflow was started")
	d.Clock.Advance(time.Minute)
	stats, err := s.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[run.Phase]int{run.PhaseQueued: 4, run.PhaseRunning: 4}, stats.OpenRuns)
	require.Equal(t, map[run.Status]int{run.StatusNotStarted: 8}, stats.OpenTasks)
	require.Equal(t, 12+4, stats.Outbox)
	require.InDelta(t, time.Minute, stats.OldestOutbox, float64(30*time.Second))

	for _, row := range fixture.TakeAll(t, s) {
		require.NoError(t, s.CompleteOutbox(t.Context(), row.ID))
	}
	undelivered := fixture.Create(t, s, fixture.OneTask("/a/b"))
	got, err = s.OpenRuns(t.Context(), "", 5)
	require.NoError(t, err)
	require.Equal(t, want[:5], got)
	got, err = s.OpenRuns(t.Context(), got[4], 5)
	require.NoError(t, err)
	require.Equal(t, want[5:], got)
	require.NotContains(t, got, undelivered.ID)
}
