package recordstest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/changegroups"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

// Bench measures the calls whose number grows with the runs and tasks.
func Bench(b *testing.B, open func(b *testing.B) records.Store) {
	b.Run("CreateRun/tasks=1", func(b *testing.B) {
		s, n := open(b), fixture.NewRun(b, fixture.OneTask("/bench/one"))
		for b.Loop() {
			_, err := s.CreateRun(b.Context(), n)
			require.NoError(b, err)
		}
	})
	for _, width := range []int{1000, 10_000} {
		b.Run(fmt.Sprintf("CreateRun/tasks=%d", width), func(b *testing.B) {
			s, n := open(b), fixture.NewRun(b, fixture.Wide("/bench/wide", width))
			for b.Loop() {
				_, err := s.CreateRun(b.Context(), n)
				require.NoError(b, err)
			}
		})
		b.Run(fmt.Sprintf("GetRun/tasks=%d", width), func(b *testing.B) {
			s := open(b)
			r := fixture.Create(b, s, fixture.Wide("/bench/wide", width))
			for b.Loop() {
				_, err := s.GetRun(b.Context(), r.ID)
				require.NoError(b, err)
			}
		})
		b.Run(fmt.Sprintf("Apply/tasks=%d", width), func(b *testing.B) {
			s := open(b)
			r := fixture.Create(b, s, fixture.Wide("/bench/wide", width))
			fixture.Begin(b, s, r.ID)
			dispatch := 0
			for b.Loop() {
				dispatch++
				var c records.Changes
				for i := range width {
					c.Tasks = append(c.Tasks, fixture.Queued(i, 1, dispatch))
				}
				_, _, err := s.Apply(b.Context(), r.ID, c)
				require.NoError(b, err)
			}
		})
	}
	b.Run("Claim", func(b *testing.B) {
		s := open(b)
		r := fixture.Create(b, s, fixture.Wide("/bench/wide", 1000))
		fixture.Begin(b, s, r.ID)
		i := 0
		for b.Loop() {
			key := run.Key{Run: r.ID, Task: i % 1000, Attempt: 1, Dispatch: 1 + i/1000}
			_, err := s.Claim(b.Context(), run.ClaimRequest{Key: key, Executor: "x", JournalID: "j"})
			require.NoError(b, err)
			i++
		}
	})
	b.Run("Life/clients=1", func(b *testing.B) {
		s := open(b)
		n := fixture.NewRun(b, fixture.OneTask("/bench/one"))
		for b.Loop() {
			lifecycle(b, s, n)
		}
	})
	b.Run("Life/clients=8", func(b *testing.B) {
		s := open(b)
		n := fixture.NewRun(b, fixture.OneTask("/bench/one"))
		b.SetParallelism(4)
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				lifecycle(b, s, n)
			}
		})
	})
	benchGroups(b, open)
}

// lifecycle makes all calls of a run of one task.
func lifecycle(b *testing.B, s records.Store, n records.NewRun) {
	b.Helper()
	ctx := b.Context()
	r, err := s.CreateRun(ctx, n)
	require.NoError(b, err)
	rows, err := s.TakeOutbox(ctx, 1, time.Minute)
	require.NoError(b, err)
	for _, row := range rows {
		require.NoError(b, s.CompleteOutbox(ctx, row.ID))
	}
	_, _, err = s.LoadPlan(ctx, r.ID, 0)
	require.NoError(b, err)
	fixture.Begin(b, s, r.ID)
	_, _, err = s.Apply(ctx, r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 1, 1)}})
	require.NoError(b, err)
	key := run.Key{Run: r.ID, Attempt: 1, Dispatch: 1}
	_, err = s.Claim(ctx, run.ClaimRequest{Key: key, Executor: "x", JournalID: "j"})
	require.NoError(b, err)
	require.NoError(b, s.ApplyFrames(ctx, fixture.Batch(key, "x", 1, run.FrameStepStart, run.FrameOutput, run.FrameStepEnd, run.FrameTaskEnd)))
	_, _, err = s.Apply(ctx, r.ID, records.Changes{
		Tasks: []run.TaskChange{fixture.Ended(0, 1, 1, run.StatusSuccess)}, Result: run.ResultSuccess, Finish: true,
	})
	require.NoError(b, err)
}

// benchGroups measures the calls on runs of a change group, also with thousands
// of waiting runs.
func benchGroups(b *testing.B, open func(b *testing.B) records.Store) {
	b.Run("Group/life/limit=0", func(b *testing.B) {
		s, n := open(b), fixture.NewRun(b, fixture.Grouped(3, "g"))
		for b.Loop() {
			lifecycle(b, s, n)
		}
	})
	const waiting = 5000
	openWaiting := func(b *testing.B) (s records.Store, last run.ID) {
		b.Helper()
		s = open(b)
		fixture.Limit(b, s, "g", 2, run.OnBusyQueue)
		for range waiting {
			last = fixture.Create(b, s, fixture.Grouped(3, "g")).ID
		}
		return s, last
	}
	b.Run("Group/waiting=5000/create", func(b *testing.B) {
		s, _ := openWaiting(b)
		n := fixture.NewRun(b, fixture.Grouped(3, "g"))
		for b.Loop() {
			_, err := s.CreateRun(b.Context(), n)
			require.NoError(b, err)
		}
	})
	b.Run("Group/waiting=5000/finish", func(b *testing.B) {
		eachNext(b, openWaiting, func(s records.Store, holder run.ID) {
			require.NoError(b, changegroups.EndRun(b.Context(), s, holder))
			b.StopTimer()
			granted, _, err := s.Grant(b.Context(), "g")
			require.NoError(b, err)
			require.Len(b, granted, 1)
			b.StartTimer()
		})
	})
	b.Run("Group/waiting=5000/grant", func(b *testing.B) {
		eachNext(b, openWaiting, func(s records.Store, holder run.ID) {
			b.StopTimer()
			require.NoError(b, changegroups.EndRun(b.Context(), s, holder))
			b.StartTimer()
			granted, _, err := s.Grant(b.Context(), "g")
			require.NoError(b, err)
			require.Len(b, granted, 1)
		})
	})
	b.Run("Group/waiting=5000/waits", func(b *testing.B) {
		s, last := openWaiting(b)
		for b.Loop() {
			_, err := s.GroupWaits(b.Context(), last)
			require.NoError(b, err)
		}
	})
	b.Run("Group/waiting=5000/list", func(b *testing.B) {
		s, _ := openWaiting(b)
		for b.Loop() {
			_, _, err := s.ChangeGroups(b.Context(), run.ChangeGroupQuery{})
			require.NoError(b, err)
		}
	})
}

// eachNext calls fn repeatedly with the run that holds the slot.
func eachNext(b *testing.B, openWaiting func(b *testing.B) (records.Store, run.ID), fn func(s records.Store, holder run.ID)) {
	b.Helper()
	s, _ := openWaiting(b)
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		groups, _, err := s.ChangeGroups(b.Context(), run.ChangeGroupQuery{Names: []string{"g"}})
		require.NoError(b, err)
		holder := groups[0].Running[0]
		_, err = s.Begin(b.Context(), holder)
		require.NoError(b, err)
		b.StartTimer()
		fn(s, holder)
	}
}
