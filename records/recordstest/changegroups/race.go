package changegroups

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

// testTokenRace runs many clients that limit a group themselves: each starts
// its own run once it has read that fewer than two are running.
func testTokenRace(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	const clients, maximum = 50, 2
	var conflicts atomic.Int64
	group, ctx := errgroup.WithContext(t.Context())
	for range clients {
		spec := fixture.Grouped(3, "g")
		spec.Admission = run.AdmissionManual
		id := fixture.Create(t, s, spec).ID
		group.Go(func() error {
			for {
				page, err := s.ListRuns(ctx, run.ListQuery{ChangeGroups: []string{"g"}, Phases: []run.Phase{run.PhaseRunning}, TokenFor: []string{"g"}})
				if err != nil {
					return err
				}
				if len(page.Runs) >= maximum {
					continue
				}
				err = s.StartRun(ctx, id, page.Token)
				if run.CodeOf(err) == run.CodeChangeGroupConflict {
					conflicts.Add(1)
					continue
				}
				if err != nil {
					return err
				}
				return EndRun(ctx, s, id)
			}
		})
	}
	require.NoError(t, group.Wait())
	t.Logf("%d conflicts", conflicts.Load())
	fixture.AwaitEvent(t, s, clients*4)
	requireAtMost(t, s, maximum)
}

// EndRun ends a running run of one task.
func EndRun(ctx context.Context, s records.Store, id run.ID) error {
	_, _, err := s.Apply(ctx, id, records.Changes{
		Tasks: []run.TaskChange{{Task: 0, Status: run.StatusSkipped}}, Result: run.ResultSuccess, Finish: true,
	})
	return err
}

// requireAtMost checks by the events that no more runs than most ran at a time.
func requireAtMost(t *testing.T, s records.Store, maximum int) {
	t.Helper()
	events := fixture.ReadAll(t, s, run.EventQuery{})
	running := map[run.ID]bool{}
	for i, e := range events {
		require.EqualValues(t, i+1, e.Number)
		switch {
		case e.Phase == run.PhaseRunning:
			running[e.Run] = true
		case e.Phase.Final():
			delete(running, e.Run)
		}
		require.LessOrEqual(t, len(running), maximum, "at event %d", e.Number)
	}
	require.Empty(t, running)
}

// testGroupRaceCreate creates runs of the same groups concurrently, where
// earlier runs must be preempted.
func testGroupRaceCreate(t *testing.T, d *fixture.Database) {
	for _, policy := range []run.OnBusy{run.OnBusyCancelQueued, run.OnBusyStopRunning} {
		a, b := d.Store(t), d.Store(t)
		g, h := "g-"+string(policy), "h-"+string(policy)
		fixture.Limit(t, a, g, 1, policy)
		fixture.Limit(t, b, h, 2, policy)
		wins := fixture.Race(t, 50, func(i int) error {
			spec := fixture.Grouped(3, [][]string{{g, h}, {g}, {h, g}, {h}}[i%4]...)
			_, err := []records.Store{a, b}[i%2].CreateRun(t.Context(), fixture.NewRun(t, spec))
			return err
		}, "")
		require.Equal(t, 50, wins)
		drainGroups(t, a, map[string]int{g: 1, h: 2})
	}
}

// drainGroups ends the runs that hold a slot, and grants the freed slots, until no
// run is left in the groups. While runs wait, a run holds a slot of some group,
// if not of each: the first in one queue may wait for another group.
func drainGroups(t *testing.T, s records.Store, limits map[string]int) {
	t.Helper()
	for {
		grantAll(t, s)
		admitted, waiting := map[run.ID]bool{}, 0
		for name, limit := range limits {
			running, queued := members(t, s, name)
			require.LessOrEqual(t, len(running), limit, "change group %s", name)
			for _, id := range slices.Concat(running, queued) {
				require.False(t, fixture.Get(t, s, id).Phase.Final())
			}
			for _, id := range running {
				admitted[id] = true
			}
			waiting += len(queued)
		}
		if len(admitted)+waiting == 0 {
			return
		}
		require.NotEmpty(t, admitted, "%d runs wait, and none holds a slot", waiting)
		for id := range admitted {
			fixture.Finish(t, s, id)
		}
	}
}

// testGroupRaceAll runs clients, workflows and the outbox dispatcher on the
// same groups concurrently. In the end all runs have run, and never more than
// their groups' limits at a time.
func testGroupRaceAll(t *testing.T, d *fixture.Database) {
	a, b := d.Store(t), d.Store(t)
	groups := []string{"g", "h", "i"}
	for i, name := range groups {
		fixture.Limit(t, a, name, i+1, run.OnBusyQueue)
	}
	const clients, each = 12, 5
	ctx := t.Context()
	done := make(chan struct{})
	var dispatchers, clientGroup errgroup.Group
	for _, s := range []records.Store{a, b} {
		dispatchers.Go(func() error { return dispatchUntil(ctx, s, done) })
	}
	for i := range clients {
		s := []records.Store{a, b}[i%2]
		clientGroup.Go(func() error {
			for k := range each {
				n := fixture.NewRun(t, fixture.Grouped(1+k, groups[(i+k)%3], groups[(i+k*i+1)%3]))
				n.Spec.ChangeGroups = slices.Compact(n.Spec.ChangeGroups)
				r, err := s.CreateRun(ctx, n)
				if err != nil {
					return err
				}
				if err := runThrough(ctx, s, r.ID, (i+k)%4 == 0); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := clientGroup.Wait()
	close(done)
	require.NoError(t, err)
	require.NoError(t, dispatchers.Wait())
	for i, name := range groups {
		running, queued := members(t, a, name)
		require.Empty(t, running)
		require.Empty(t, queued)
		maximum := i + 1
		events := fixture.ReadAll(t, a, run.EventQuery{})
		holding := map[run.ID]bool{}
		for _, e := range events {
			switch r := fixture.Get(t, a, e.Run); {
			case !slices.Contains(r.ChangeGroups, name):
			case e.Phase == run.PhaseRunning:
				holding[e.Run] = true
			case e.Phase.Final():
				delete(holding, e.Run)
			}
			require.LessOrEqual(t, len(holding), maximum, "group %s at event %d", name, e.Number)
		}
	}
}

// runThrough does the work of a run's workflow, or cancels the run as its
// client.
func runThrough(ctx context.Context, s records.Store, id run.ID, cancel bool) error {
	if cancel {
		if err := s.CancelRun(ctx, id, nil); run.CodeOf(err) != run.CodeWrongPhase {
			return err
		}
	}
	for {
		signal, stop := s.Watch(id)
		status, err := s.Begin(ctx, id)
		if err != nil || status.Phase.Final() {
			stop()
			return err
		}
		if status.Phase == run.PhaseRunning {
			stop()
			return EndRun(ctx, s, id)
		}
		select {
		case <-signal:
		case <-ctx.Done():
		}
		stop()
	}
}

// dispatchUntil delivers grants from the outbox until done is closed.
func dispatchUntil(ctx context.Context, s records.Store, done <-chan struct{}) error {
	for {
		rows, err := s.TakeOutbox(ctx, 100, time.Minute)
		if err != nil {
			return err
		}
		for _, row := range rows {
			for more := row.Kind == records.OutboxGrant; more; {
				if _, more, err = s.Grant(ctx, row.ChangeGroup); err != nil {
					return err
				}
			}
			if err := s.CompleteOutbox(ctx, row.ID); err != nil {
				return err
			}
		}
		if len(rows) > 0 {
			continue
		}
		select {
		case <-s.OutboxWake():
		case <-done:
			return nil
		}
	}
}
