package engine_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/engine"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// reason returns the reason of a waiting run, as clients read it.
func (b bench) reason(t *testing.T, id run.ID) string {
	t.Helper()
	r, err := b.Get(t.Context(), id)
	require.NoError(t, err)
	return r.Reason
}

func TestGet_explains_a_waiting_run(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, _, err := b.PutChangeGroup(t.Context(), run.ChangeGroup{Name: "deploys", MaxRunning: 1, OnBusy: run.OnBusyQueue}, nil)
	require.NoError(t, err)
	create := func(admission run.Admission, groups ...string) run.ID {
		r, err := b.Create(t.Context(), run.CreateRequest{Spec: &run.Spec{
			Name: "n", Group: "/a/b", ChangeGroups: groups, Admission: admission, Tasks: map[string]*run.TaskSpec{"t": twoSteps()},
		}})
		require.NoError(t, err)
		require.Equal(t, b.reason(t, r.ID), r.Reason, "the answer to the call says it too")
		return r.ID
	}
	first := create(run.AdmissionAuto, "deploys", "no-limit")
	require.Equal(t, "starts as soon as a control worker takes it", b.reason(t, first))
	manual := create(run.AdmissionManual, "deploys")
	require.Equal(t, "waits to be started: its admission is manual", b.reason(t, manual))
	second := create(run.AdmissionAuto, "deploys", "no-limit")
	held := fmt.Sprintf("1 of 1 slots held by %s", first)
	require.Equal(t, "waits for change group deploys: position 1 in queue, "+held, b.reason(t, second))
	r, err := b.Start(t.Context(), manual, nil)
	require.NoError(t, err)
	require.Equal(t, run.PhaseQueued, r.Phase)
	require.Equal(t, "waits for change group deploys: position 2 in queue, "+held, r.Reason, "its position counts from its start")

	_, err = b.Cancel(t.Context(), second, nil)
	require.NoError(t, err)
	require.Equal(t, "waits for change group deploys: position 1 in queue, "+held, b.reason(t, manual))
	_, err = b.store.Begin(t.Context(), first)
	require.NoError(t, err)
	require.Empty(t, b.reason(t, first))
	_, _, err = b.store.Apply(t.Context(), first, records.Changes{
		Tasks:  []run.TaskChange{{Status: run.StatusSkipped}},
		Finish: true, Result: run.ResultSuccess,
	})
	require.NoError(t, err)
	require.Equal(t, "is about to get its slots: its change groups have some free", b.reason(t, manual))
}

// TestGet_explains_a_requeued_task drains the only executor
// after it requeued a task: the reason names both.
func TestGet_explains_a_requeued_task(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.submit(t, map[string]*run.TaskSpec{"t": twoSteps()})
	_, err := b.store.Begin(t.Context(), r.ID)
	require.NoError(t, err)
	const stored = "executor " + executorID + " requeued it: its disk is full"
	_, _, err = b.store.Apply(t.Context(), r.ID, records.Changes{Tasks: []run.TaskChange{{Attempt: 1, Dispatch: 2, Status: run.StatusQueued, Reason: stored}}})
	require.NoError(t, err)
	reason := func() string {
		r, err := b.Get(t.Context(), r.ID)
		require.NoError(t, err)
		return r.Tasks[0].Reason
	}
	require.Equal(t, stored, reason())
	_, err = b.DrainExecutor(t.Context(), executorID, "new kernel")
	require.NoError(t, err)
	require.Equal(t, "all executors of pool shell are draining; "+stored, reason())
}

// A task that waits while all executors are busy waits for a machine too: its reason has
// what the fleets of its pool do.
func TestGet_explains_fleets_beside_busy_executors(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, _, err := engine.NewFleets(b.store).PutFleet(t.Context(), "vms", run.FleetSpec{Pool: "shell", Plugin: "docker"}, "me")
	require.NoError(t, err)
	first := b.submit(t, map[string]*run.TaskSpec{"t": twoSteps()})
	b.claim(t, first.ID)
	_, err = b.Renew(t.Context(), run.Renewal{Executor: executorID, JournalID: "j1", SlotsUsed: 1})
	require.NoError(t, err)
	second := b.submit(t, map[string]*run.TaskSpec{"t": twoSteps()})
	_, err = b.store.Begin(t.Context(), second.ID)
	require.NoError(t, err)
	_, _, err = b.store.Apply(t.Context(), second.ID, records.Changes{Tasks: []run.TaskChange{{Attempt: 1, Dispatch: 1, Status: run.StatusQueued}}})
	require.NoError(t, err)
	got, err := b.Get(t.Context(), second.ID)
	require.NoError(t, err)
	require.Regexp(t, "^the only slot of pool shell is in use; position 1 in queue.*; fleet vms: no fleet worker has watched it yet$", got.Tasks[0].Reason)

	// The reason of a retry does not hide them.
	const stored = "attempt 1 failed: step 1 exited with code 1"
	_, _, err = b.store.Apply(t.Context(), second.ID, records.Changes{Tasks: []run.TaskChange{{Attempt: 1, Dispatch: 2, Status: run.StatusQueued, Reason: stored}}})
	require.NoError(t, err)
	got, err = b.Get(t.Context(), second.ID)
	require.NoError(t, err)
	require.Equal(t, stored+"; fleet vms: no fleet worker has watched it yet", got.Tasks[0].Reason)
}

// longQueue is a store with pools in which many tasks wait.
type longQueue struct {
	records.Store

	queued int
	asked  bool // for positions
}

func (l *longQueue) ListPools(ctx context.Context) ([]run.Pool, error) {
	pools, err := l.Store.ListPools(ctx)
	for i := range pools {
		pools[i].Queued = l.queued
	}
	return pools, err
}

func (l *longQueue) QueuePositions(ctx context.Context, id run.ID) (map[int]int, error) {
	l.asked = true
	return l.Store.QueuePositions(ctx, id)
}

// The positions of tasks cost as much as there are waiting tasks of all runs, so long queues
// have none.
func TestGet_explains_a_long_queue(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claim(t, b.submit(t, map[string]*run.TaskSpec{"t": twoSteps()}).ID)
	_, err := b.Renew(t.Context(), run.Renewal{Executor: executorID, JournalID: "j1", SlotsUsed: 1})
	require.NoError(t, err)
	id := b.submit(t, map[string]*run.TaskSpec{"t": twoSteps()}).ID
	_, err = b.store.Begin(t.Context(), id)
	require.NoError(t, err)
	_, _, err = b.store.Apply(t.Context(), id, records.Changes{Tasks: []run.TaskChange{{Attempt: 1, Dispatch: 1, Status: run.StatusQueued}}})
	require.NoError(t, err)
	for queued, position := range map[int]bool{20_000: true, 20_001: false} {
		store := &longQueue{Store: b.store, queued: queued}
		got, err := engine.New(engine.Deps{Store: store, Logs: b.blobs, Logger: slog.New(slog.DiscardHandler)}).Get(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, position, store.asked, "%d", queued)
		require.Contains(t, got.Tasks[0].Reason, "the only slot of pool shell is in use")
		require.Equal(t, position, strings.Contains(got.Tasks[0].Reason, "position 1 in queue"), got.Tasks[0].Reason)
	}
}
