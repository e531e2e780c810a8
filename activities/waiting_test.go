package activities_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"github.com/drover-run/drover/activities"
	"github.com/drover-run/drover/activities/errcode"
	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// fakeRun is a fake of one run that changes.
type fakeRun struct {
	mu      sync.Mutex
	state   run.Run
	err     error
	signal  chan struct{}
	looked  chan struct{}
	stopped int
}

func newFakeRun() *fakeRun {
	return &fakeRun{state: run.Run{Phase: run.PhaseRunning}, signal: make(chan struct{}, 1), looked: make(chan struct{}, 100)}
}

func (w *fakeRun) GetSummary(context.Context, run.ID) (run.Run, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looked <- struct{}{}
	return w.state, w.err
}

func (w *fakeRun) Watch(run.ID) (signal <-chan struct{}, stop func()) {
	return w.signal, func() { w.stopped++ }
}

func (w *fakeRun) set(r run.Run, err error) {
	w.mu.Lock()
	w.state, w.err = r, err
	w.mu.Unlock()
	w.signal <- struct{}{}
}

func awaitRun(t *testing.T, w *fakeRun) (contract.AwaitRunResult, error) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetTestTimeout(20 * time.Second)
	a := activities.NewRuns(w)
	env.RegisterActivity(a.AwaitRun)
	value, err := env.ExecuteActivity(a.AwaitRun, contract.AwaitRunInput{Run: "r"})
	require.Equal(t, 1, w.stopped)
	if err != nil {
		return contract.AwaitRunResult{}, err
	}
	var out contract.AwaitRunResult
	require.NoError(t, value.Get(&out))
	return out, nil
}

func TestRuns_AwaitRun(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		state run.Run
		err   error
		want  contract.AwaitRunResult
		code  run.Code
	}{
		"finished": {
			run.Run{Phase: run.PhaseFinished, Result: run.ResultFailed, Reason: "why"},
			nil,
			contract.AwaitRunResult{Phase: run.PhaseFinished, Result: run.ResultFailed, Reason: "why"},
			"",
		},
		"cancelled":   {run.Run{Phase: run.PhaseCancelled}, nil, contract.AwaitRunResult{Phase: run.PhaseCancelled}, ""},
		"deleted":     {run.Run{}, run.Errorf(run.CodeNotFound, "no"), contract.AwaitRunResult{}, ""},
		"unavailable": {run.Run{}, run.Errorf(run.CodeUnavailable, "no"), contract.AwaitRunResult{}, run.CodeUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFakeRun()
			go func() {
				<-w.looked // the activity waits first
				w.set(run.Run{Phase: run.PhaseRunning}, nil)
				<-w.looked
				w.set(tt.state, tt.err)
			}()
			got, err := awaitRun(t, w)
			require.Equal(t, tt.code, run.CodeOf(errcode.FromTemporal(err)), "%v", err)
			require.Equal(t, tt.want, got)
		})
	}
}

// deliverer answers immediately, or when its context ends.
type deliverer struct {
	why   string
	err   error
	waits bool
}

func (d deliverer) Deliver(ctx context.Context, _ string) (string, error) {
	if d.waits {
		<-ctx.Done()
		return "", ctx.Err()
	}
	return d.why, d.err
}

func TestWebhooks_Deliver(t *testing.T) {
	t.Parallel()
	stopping := make(chan struct{})
	close(stopping)
	for name, tt := range map[string]struct {
		d    deliverer
		stop chan struct{}
		want contract.DeliverResult
		code run.Code
	}{
		"over":             {deliverer{why: "the webhook was deleted"}, nil, contract.DeliverResult{Reason: "the webhook was deleted"}, ""},
		"fails":            {deliverer{err: errors.New("no")}, nil, contract.DeliverResult{}, run.CodeInternal},
		"the_worker_stops": {deliverer{waits: true}, stopping, contract.DeliverResult{WorkerStopping: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestActivityEnvironment()
			env.SetTestTimeout(20 * time.Second)
			env.SetWorkerStopChannel(tt.stop)
			a := activities.NewWebhooks(tt.d)
			env.RegisterActivity(a.Deliver)
			value, err := env.ExecuteActivity(a.Deliver, contract.DeliverInput{Name: "ci"})
			require.Equal(t, tt.code, run.CodeOf(errcode.FromTemporal(err)), "%v", err)
			if tt.code != "" {
				return
			}
			var got contract.DeliverResult
			require.NoError(t, value.Get(&got))
			require.Equal(t, tt.want, got)
		})
	}
}
