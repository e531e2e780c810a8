package workflows_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

// ExpireExecutor implements activities.Expirer.
func (f *cluster) ExpireExecutor(ctx context.Context, id string) (run.Executor, time.Duration, error) {
	f.mu.Lock()
	h := f.executors[id]
	f.mu.Unlock()
	return h.ExpireExecutor(ctx, id)
}

// runExecutorScenarios plays executor workflows on the server.
func (f *cluster) runExecutorScenarios(t *testing.T) {
	for name, c := range map[string]struct {
		signal string
		checks int // that follow the signal
	}{
		"temporary": {contract.SignalExecutor, 1},
		"continued": {contract.SignalForceContinue, 2}, // the next execution begins with a check
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &fakeExecutorRecords{e: run.Executor{ID: string(newRunID()), Pool: "linux", State: run.ExecutorOnline}, again: []time.Duration{300 * time.Millisecond, time.Hour}}
			f.mu.Lock()
			f.executors[h.e.ID] = h
			f.mu.Unlock()
			id := contract.ExecutorWorkflowID(h.e.ID)
			trigger := func(signal string) {
				_, err := f.client.SignalWithStartWorkflow(t.Context(), id, signal, nil, client.StartWorkflowOptions{
					ID: id, TaskQueue: contract.ControlQueue,
				}, contract.ExecutorWorkflow, contract.ExecutorInput{Executor: h.e.ID})
				require.NoError(t, err)
			}
			looked := func(n int) {
				testenv.Await(t, func() (bool, string) { return h.count() >= n, "too few checks" })
			}
			trigger(contract.SignalExecutor)
			looked(2)
			h.set(run.ExecutorDraining)
			trigger(c.signal)
			looked(2 + c.checks)
			h.set(run.ExecutorRemoved)
			trigger(contract.SignalExecutor)
			f.keep(t, contract.ExecutorWorkflow, name, id)
		})
	}
}
