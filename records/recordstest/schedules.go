package recordstest

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

func scheduleTests() map[string]func(t *testing.T, d *fixture.Database) {
	return map[string]func(t *testing.T, d *fixture.Database){
		"are_put_and_read":        testSchedulePut,
		"are_listed_by_name":      testScheduleList,
		"firings_are_stored":      testScheduleFirings,
		"old_firings_are_deleted": testScheduleFiringsForgotten,
	}
}

func nightly(name string) run.ScheduleSpec {
	spec := fixture.OneTask("/a/b")
	spec.Secrets = map[string]run.Secret{"TOKEN": "hidden"}
	spec.Tasks["build"].Timeout = run.Duration(time.Minute)
	return run.ScheduleSpec{
		Name: name, Spec: spec, Cron: []string{"0 3 * * *"}, Intervals: []run.Interval{{Every: run.Duration(time.Hour), Offset: run.Duration(time.Minute)}},
		Timezone: "Europe/Berlin", Jitter: run.Duration(time.Second), StartAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Overlap: run.OverlapBufferOne, CatchupWindow: run.Duration(time.Minute), PauseOnFailure: true,
	}
}

func testSchedulePut(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	_, err := s.GetSchedule(ctx, "nightly")
	fixture.RequireCode(t, run.CodeNotFound, err)
	fixture.RequireCode(t, run.CodeNotFound, s.DeleteSchedule(ctx, "nightly"))
	fixture.RequireCode(t, run.CodeConflict, s.PutSchedule(ctx, nightly("nightly"), "ann", 1))

	want := nightly("nightly")
	given := want
	given.Paused, given.Note = new(true), "not kept"
	require.NoError(t, s.PutSchedule(ctx, given, "ann", 0))
	got, err := s.GetSchedule(ctx, "nightly")
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(want, got.ScheduleSpec))
	require.Equal(t, run.Secret("hidden"), got.Spec.Secrets["TOKEN"])
	require.Equal(t, "one", got.RunName)
	require.Equal(t, "/a/b", got.Group)
	require.Equal(t, "ann", got.SecretsBy)
	require.Equal(t, int64(1), got.Version)
	require.False(t, got.CreatedAt.IsZero())
	require.Equal(t, got.CreatedAt, got.UpdatedAt)

	fixture.RequireCode(t, run.CodeConflict, s.PutSchedule(ctx, want, "ann", 0))
	d.Clock.Advance(time.Second)
	changed := run.ScheduleSpec{Name: "nightly", Spec: fixture.OneTask("/c/d"), Cron: []string{"@daily"}}
	require.NoError(t, s.PutSchedule(ctx, changed, "ann", 1))
	fixture.RequireCode(t, run.CodeConflict, s.PutSchedule(ctx, changed, "ann", 1))
	got, err = s.GetSchedule(ctx, "nightly")
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(changed, got.ScheduleSpec))
	require.Equal(t, int64(2), got.Version)
	require.True(t, got.UpdatedAt.After(got.CreatedAt))

	require.NoError(t, s.DeleteSchedule(ctx, "nightly"))
	_, err = s.GetSchedule(ctx, "nightly")
	fixture.RequireCode(t, run.CodeNotFound, err)
	require.NoError(t, s.PutSchedule(ctx, want, "ann", 0))
}

func testScheduleList(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	for _, name := range []string{"c", "a", "b"} {
		require.NoError(t, s.PutSchedule(t.Context(), nightly(name), "ann", 0))
	}
	list := func(after string, n int) []string {
		all, err := s.ListSchedules(t.Context(), after, n)
		require.NoError(t, err)
		var names []string
		for _, x := range all {
			require.Nil(t, x.Spec)
			require.Equal(t, "one", x.RunName)
			require.Equal(t, run.OverlapBufferOne, x.Overlap)
			names = append(names, x.Name)
		}
		return names
	}
	require.Equal(t, []string{"a", "b", "c"}, list("", 10))
	require.Equal(t, []string{"a", "b"}, list("", 2))
	require.Equal(t, []string{"c"}, list("b", 2))
	require.Empty(t, list("c", 2))

	other := run.ScheduleSpec{Name: "other", Spec: fixture.OneTask("/o/d/e"), Cron: []string{"@daily"}}
	require.NoError(t, s.PutSchedule(t.Context(), other, "ann", 0))
	for within, want := range map[string]int{"/o": 1, "/o/d": 1, "/o/d/e": 1, "/o/d/e/f": 0, "/": 4} {
		all, err := s.ListSchedules(t.Context(), "", 10, within)
		require.NoError(t, err)
		require.Len(t, all, want, within)
	}
	group, err := s.ScheduleGroup(t.Context(), "other")
	require.NoError(t, err)
	require.Equal(t, "/o/d/e", group)
	_, err = s.ScheduleGroup(t.Context(), "absent")
	fixture.RequireCode(t, run.CodeNotFound, err)
}

func testScheduleFirings(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	firing := func(n int, id run.ID) records.Firing {
		return records.Firing{Key: fmt.Sprint("f", n), Firing: run.Firing{
			For: at.Add(time.Duration(n) * time.Minute), At: at.Add(time.Duration(n)*time.Minute + time.Second), Run: id,
		}}
	}
	r := fixture.Create(t, s, fixture.OneTask("/a/b"))
	require.NoError(t, s.PutFiring(ctx, "nightly", firing(1, r.ID)))
	none, err := s.Firings(ctx, "nightly", 10)
	require.NoError(t, err)
	require.Empty(t, none, "there is no such schedule")

	require.NoError(t, s.PutSchedule(ctx, nightly("nightly"), "ann", 0))
	refused := firing(2, "")
	refused.Error = "no pool"
	require.NoError(t, s.PutFiring(ctx, "nightly", refused))
	require.NoError(t, s.PutFiring(ctx, "nightly", firing(1, r.ID)))
	require.NoError(t, s.PutFiring(ctx, "nightly", firing(1, r.ID)), "a repeated call changes nothing")
	require.NoError(t, s.PutFiring(ctx, "nightly", firing(3, "01k0000000000000000000000a")))
	got, err := s.Firings(ctx, "nightly", 10)
	require.NoError(t, err)
	known := firing(1, r.ID)
	known.Phase, known.Result = run.PhaseQueued, run.ResultUnknown
	require.Equal(t, []records.Firing{firing(3, "01k0000000000000000000000a"), refused, known}, got)
	got, err = s.Firings(ctx, "nightly", 1)
	require.NoError(t, err)
	require.Len(t, got, 1)
	open, err := s.OpenFirings(ctx, "nightly")
	require.NoError(t, err)
	require.Equal(t, []records.Firing{known}, open)
	require.NoError(t, s.CancelRun(ctx, r.ID, nil))
	open, err = s.OpenFirings(ctx, "nightly")
	require.NoError(t, err)
	require.Empty(t, open)
	require.NoError(t, s.DeleteSchedule(ctx, "nightly"))
	got, err = s.Firings(ctx, "nightly", 10)
	require.NoError(t, err)
	require.Empty(t, got)
}

func testScheduleFiringsForgotten(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	require.NoError(t, s.PutSchedule(ctx, nightly("nightly"), "ann", 0))
	r := fixture.Create(t, s, fixture.OneTask("/a/b"))
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for n := range run.MaxFirings + 20 {
		f := records.Firing{Key: fmt.Sprint("f", n), Firing: run.Firing{At: at.Add(time.Duration(n) * time.Second)}}
		if n == 3 {
			f.Run = r.ID
		}
		require.NoError(t, s.PutFiring(ctx, "nightly", f))
	}
	got, err := s.Firings(ctx, "nightly", 1000)
	require.NoError(t, err)
	require.Len(t, got, run.MaxFirings+1)
	require.Equal(t, r.ID, got[run.MaxFirings].Run, "its run is open")
}
