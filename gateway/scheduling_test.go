package gateway_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	workflowcontract "github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/engine"
	"github.com/drover-run/drover/internal/tokens"
	"github.com/drover-run/drover/records/sqlite"
	"github.com/drover-run/drover/run"
)

// scheduledTenants returns tenants whose schedules are real ones, apart from the times: a
// schedule fires when a test says so.
func scheduledTenants(t *testing.T, auth tokens.Authenticator, token func(string) string) tenants {
	t.Helper()
	return tenantsWith(t, auth, token, func(e *engine.Engine, store *sqlite.Store) (run.Schedules, *engine.Scheduler) {
		s := engine.NewScheduler(e, store, &fakeTemporal{schedules: map[string]*client.Schedule{}})
		return s, s
	})
}

// fire creates a run of a schedule, as its time or a trigger does.
func (b tenants) fire(t *testing.T, schedule string) run.ID {
	t.Helper()
	now := time.Now()
	fired, err := b.scheduler.Fire(t.Context(), workflowcontract.FireInput{
		Schedule: schedule, Key: workflowcontract.FiringKey("workflow-"+now.Format(time.RFC3339Nano), "first"), ScheduledFor: now, Started: now,
	})
	require.NoError(t, err)
	require.Empty(t, fired.Refused)
	return fired.Run
}

// fakeTemporal stores schedules as Temporal does. None of them fires.
type fakeTemporal struct {
	mu        sync.Mutex
	schedules map[string]*client.Schedule
}

func (f *fakeTemporal) ScheduleClient() client.ScheduleClient { return &fakeClient{f: f} }

func (f *fakeTemporal) DescribeWorkflowExecution(context.Context, string, string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	return nil, serviceerror.NewNotFound("no such workflow")
}

type fakeClient struct {
	client.ScheduleClient

	f *fakeTemporal
}

func (c *fakeClient) Create(_ context.Context, o client.ScheduleOptions) (client.ScheduleHandle, error) {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	c.f.schedules[o.ID] = &client.Schedule{Action: o.Action, Spec: &o.Spec, State: &client.ScheduleState{Paused: o.Paused, Note: o.Note}}
	return nil, nil //nolint:nilnil // the scheduler does not use the handle
}

func (c *fakeClient) GetHandle(_ context.Context, id string) client.ScheduleHandle {
	return &fakeHandle{f: c.f, id: id}
}

type fakeHandle struct {
	client.ScheduleHandle

	f  *fakeTemporal
	id string
}

func (h *fakeHandle) Describe(context.Context) (*client.ScheduleDescription, error) {
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	s := h.f.schedules[h.id]
	if s == nil {
		return nil, serviceerror.NewNotFound("no such schedule")
	}
	return &client.ScheduleDescription{Schedule: *s}, nil
}

func (h *fakeHandle) Update(ctx context.Context, o client.ScheduleUpdateOptions) error {
	d, err := h.Describe(ctx)
	if err != nil {
		return err
	}
	changed, err := o.DoUpdate(client.ScheduleUpdateInput{Description: *d})
	if err != nil {
		return err
	}
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	h.f.schedules[h.id] = changed.Schedule
	return nil
}

func (h *fakeHandle) Delete(context.Context) error {
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	delete(h.f.schedules, h.id)
	return nil
}

func (h *fakeHandle) Pause(context.Context, client.SchedulePauseOptions) error       { return nil }
func (h *fakeHandle) Unpause(context.Context, client.ScheduleUnpauseOptions) error   { return nil }
func (h *fakeHandle) Trigger(context.Context, client.ScheduleTriggerOptions) error   { return nil }
func (h *fakeHandle) Backfill(context.Context, client.ScheduleBackfillOptions) error { return nil }
