package recordstest

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

func floorTests() map[string]func(t *testing.T, d *fixture.Database) {
	return map[string]func(t *testing.T, d *fixture.Database){
		"by_age":                    testFloorAge,
		"by_count":                  testFloorCount,
		"readers_get_gone":          testFloorReaders,
		"newer_runs_have_lost_none": testFloorRuns,
		"numbers_continue":          testFloorNumbers,
		"concurrent_removal":        testFloorShared,
	}
}

func remove(t testing.TB, s records.Store, keep records.KeepEvents, n int) int {
	t.Helper()
	removed, err := s.RemoveEvents(t.Context(), keep, n)
	require.NoError(t, err)
	return removed
}

func floor(t testing.TB, s records.Store, id run.ID) int64 {
	t.Helper()
	n, err := s.EventFloor(t.Context(), id)
	require.NoError(t, err)
	return n
}

func testFloorAge(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	for range 3 {
		fixture.Create(t, s, fixture.OneTask("/a/b"))
	}
	fixture.AwaitEvent(t, s, 3)
	d.Clock.Advance(time.Hour)
	fixture.Create(t, s, fixture.OneTask("/a/b"))
	fixture.AwaitEvent(t, s, 4)
	require.Zero(t, remove(t, s, records.KeepEvents{}, 100), "no limit is set")
	require.Zero(t, remove(t, s, records.KeepEvents{Since: d.Clock.Now().Add(-2 * time.Hour)}, 100))
	require.Zero(t, floor(t, s, ""))
	keep := records.KeepEvents{Since: d.Clock.Now().Add(-time.Minute)}
	require.Equal(t, 2, remove(t, s, keep, 2))
	require.Equal(t, int64(2), floor(t, s, ""))
	require.Equal(t, 1, remove(t, s, keep, 2))
	require.Zero(t, remove(t, s, keep, 2))
	require.Equal(t, int64(3), floor(t, s, ""))
	left := fixture.ReadAll(t, s, run.EventQuery{After: 3})
	require.Len(t, left, 1)
	require.Equal(t, int64(4), left[0].Number)
}

func testFloorCount(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	for range 10 {
		fixture.Create(t, s, fixture.OneTask("/a/b"))
	}
	fixture.AwaitEvent(t, s, 10)
	require.Zero(t, remove(t, s, records.KeepEvents{Newest: 10}, 100))
	require.Equal(t, 3, remove(t, s, records.KeepEvents{Newest: 7}, 100))
	require.Equal(t, int64(3), floor(t, s, ""))
	// An event that violates either limit is removed.
	require.Equal(t, 2, remove(t, s, records.KeepEvents{Newest: 5, Since: d.Clock.Now().Add(-time.Hour)}, 100))
	require.Len(t, fixture.ReadAll(t, s, run.EventQuery{After: 5}), 5)
}

func testFloorReaders(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	for range 5 {
		fixture.Create(t, s, fixture.OneTask("/a/b"))
	}
	fixture.AwaitEvent(t, s, 5)
	remove(t, s, records.KeepEvents{Newest: 2}, 100)
	for _, q := range []run.EventQuery{{}, {After: 2}, {Group: "/a"}, {Group: "/c", After: 1}} {
		_, err := s.ReadEvents(t.Context(), q, 10)
		fixture.RequireCode(t, run.CodeGone, err)
		gone, ok := errors.AsType[*run.Error](err)
		require.True(t, ok)
		require.Equal(t, int64(3), gone.Floor)
	}
	require.Len(t, fixture.ReadAll(t, s, run.EventQuery{After: 3}), 2)
}

func testFloorRuns(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	old := fixture.Create(t, s, fixture.OneTask("/a/b"))
	fixture.AwaitEvent(t, s, 1)
	d.Clock.Advance(time.Second)
	fixture.Begin(t, s, old.ID)
	fixture.AwaitEvent(t, s, 2)
	d.Clock.Advance(time.Second)
	fresh := fixture.Create(t, s, fixture.OneTask("/a/b"))
	fixture.AwaitEvent(t, s, 3)
	require.Zero(t, floor(t, s, old.ID))
	remove(t, s, records.KeepEvents{Newest: 1}, 100)
	require.Equal(t, int64(2), floor(t, s, old.ID))
	require.Zero(t, floor(t, s, fresh.ID))
	_, err := s.EventFloor(t.Context(), "01k0000000000000000000000a")
	fixture.RequireCode(t, run.CodeNotFound, err)
	require.Len(t, fixture.ReadAll(t, s, run.EventQuery{Run: fresh.ID}), 1)
	_, err = s.ReadEvents(t.Context(), run.EventQuery{Run: old.ID}, 10)
	fixture.RequireCode(t, run.CodeGone, err)
	require.Empty(t, fixture.ReadAll(t, s, run.EventQuery{Run: "01k0000000000000000000000a"}))
}

func testFloorNumbers(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	for range 3 {
		fixture.Create(t, s, fixture.OneTask("/a/b"))
	}
	fixture.AwaitEvent(t, s, 3)
	require.Equal(t, 3, remove(t, s, records.KeepEvents{Since: d.Clock.Now().Add(time.Hour)}, 100))
	n, err := s.LastEvent(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(3), n)
	require.Equal(t, int64(3), floor(t, s, ""))
	fixture.Create(t, s, fixture.OneTask("/a/b"))
	fixture.AwaitEvent(t, s, 4)
	require.Equal(t, int64(4), fixture.ReadAll(t, s, run.EventQuery{After: 3})[0].Number)
}

func testFloorShared(t *testing.T, d *fixture.Database) {
	stores := []records.Store{d.Store(t), d.Store(t)}
	for range 20 {
		fixture.Create(t, stores[0], fixture.OneTask("/a/b"))
	}
	fixture.AwaitEvent(t, stores[0], 20)
	removed := make(chan int)
	for _, s := range stores {
		go func() {
			sum := 0
			defer func() { removed <- sum }()
			for {
				n, err := s.RemoveEvents(t.Context(), records.KeepEvents{Newest: 5}, 2)
				if err != nil || n == 0 {
					return
				}
				sum += n
			}
		}()
	}
	require.Equal(t, 15, <-removed+<-removed)
	require.Equal(t, int64(15), floor(t, stores[0], ""))
}
