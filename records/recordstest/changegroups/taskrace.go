package changegroups

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

// testTaskSlotsRace runs many runs at the same time whose tasks take slots of two groups, and
// of one of them. Each holds its slots through all calls of a task.
func testTaskSlotsRace(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	limits := map[string]int64{"g": 3, "h": 1}
	held := map[string]*atomic.Int64{}
	for name, limit := range limits {
		fixture.Limit(t, s, name, int(limit), run.OnBusyQueue)
		held[name] = new(atomic.Int64)
	}
	var together atomic.Int64 // the most slots of g that were held at once
	take := func(spec *run.Spec, sign int64) (err error) {
		for _, g := range spec.Tasks["build"].ChangeGroups {
			n := held[g.Name].Add(sign * int64(max(1, g.Units)))
			if n > limits[g.Name] {
				err = errors.New("more slots of " + g.Name + " are held than there are")
			}
			for most := together.Load(); g.Name == "g" && n > most && !together.CompareAndSwap(most, n); most = together.Load() {
			}
		}
		return err
	}
	kinds := []*run.Spec{locking(3, one("g"), one("h")), locking(3, units("g", 2)), locking(2, one("h"), one("g")), locking(4, one("g"))}
	var runs errgroup.Group
	for i := range 60 {
		spec := kinds[i%len(kinds)]
		id := begun(t, s, spec)
		runs.Go(func() error {
			if err := awaitSlots(t.Context(), s, id); err != nil {
				return err
			}
			if err := take(spec, 1); err != nil {
				return err
			}
			key := run.Key{Run: id, Task: 0, Attempt: 1, Dispatch: 1}
			if _, _, err := s.Apply(t.Context(), id, records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 1, 1)}}); err != nil {
				return err
			}
			if _, err := s.Claim(t.Context(), run.ClaimRequest{Key: key, Executor: "x", JournalID: "jx", SpecVersion: run.NewestSpecVersion}); err != nil {
				return err
			}
			if err := take(spec, -1); err != nil {
				return err
			}
			_, _, err := s.Apply(t.Context(), id, records.Changes{
				Tasks: []run.TaskChange{fixture.Ended(0, 1, 1, run.StatusSuccess)}, Result: run.ResultSuccess, Finish: true,
			})
			return err
		})
	}
	done := make(chan struct{})
	var dispatcher errgroup.Group
	dispatcher.Go(func() error { return dispatchUntil(t.Context(), s, done) })
	require.NoError(t, runs.Wait())
	close(done)
	require.NoError(t, dispatcher.Wait())
	require.Greater(t, together.Load(), int64(1), "tasks hold slots at the same time")
	for name := range limits {
		holding, waits := slots(t, s, name)
		require.Empty(t, holding)
		require.Empty(t, waits)
	}
	requireNoneLeft(t, s)
}

// awaitSlots makes the task of a run wait for its slots until it holds them.
func awaitSlots(ctx context.Context, s records.Store, id run.ID) error {
	signal, stop := s.Watch(id)
	defer stop()
	progress, _, err := s.Apply(ctx, id, records.Changes{Tasks: []run.TaskChange{{Task: 0, Status: run.StatusWaitingChangeGroup}}})
	for ; err == nil && len(progress.Granted) == 0; progress, err = s.Begin(ctx, id) {
		select {
		case <-signal:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}
