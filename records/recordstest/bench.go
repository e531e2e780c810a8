package recordstest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
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
