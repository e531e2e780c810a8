package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/engine"
	"github.com/drover-run/drover/engine/maintenance"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// fakeTemporal stores schedules as Temporal does, and fails as a test requires.
type fakeTemporal struct {
	mu        sync.Mutex
	schedules map[string]*client.Schedule
	fail      error                                      // of every call
	creating  func()                                     // called by each Create
	status    map[string]enumspb.WorkflowExecutionStatus // by workflow id
}

func newFakeTemporal() *fakeTemporal {
	return &fakeTemporal{schedules: map[string]*client.Schedule{}, status: map[string]enumspb.WorkflowExecutionStatus{}}
}

func (f *fakeTemporal) ScheduleClient() client.ScheduleClient { return &fakeClient{f: f} }

type fakeClient struct {
	client.ScheduleClient // panics for methods that are not overridden
	f                     *fakeTemporal
}

func (f *fakeTemporal) DescribeWorkflowExecution(_ context.Context, id, _ string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	status, ok := f.status[id]
	if !ok {
		return nil, serviceerror.NewNotFound("no such workflow")
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{
		WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{Status: status, FirstRunId: "first"},
	}, nil
}

func (c *fakeClient) Create(_ context.Context, o client.ScheduleOptions) (client.ScheduleHandle, error) {
	f := c.f
	if f.creating != nil {
		f.creating()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return nil, f.fail
	}
	if f.schedules[o.ID] != nil {
		return nil, temporal.ErrScheduleAlreadyRunning
	}
	spec := o.Spec
	f.schedules[o.ID] = &client.Schedule{
		Action: o.Action, Spec: &spec, State: &client.ScheduleState{Paused: o.Paused, Note: o.Note},
		Policy: &client.SchedulePolicies{Overlap: o.Overlap, CatchupWindow: o.CatchupWindow, PauseOnFailure: o.PauseOnFailure},
	}
	return nil, nil
}

func (c *fakeClient) GetHandle(_ context.Context, id string) client.ScheduleHandle {
	return &fakeHandle{f: c.f, id: id}
}

type fakeHandle struct {
	client.ScheduleHandle
	f  *fakeTemporal
	id string
}

func (h *fakeHandle) get() (*client.Schedule, error) {
	if h.f.fail != nil {
		return nil, h.f.fail
	}
	if s := h.f.schedules[h.id]; s != nil {
		return s, nil
	}
	return nil, serviceerror.NewNotFound("no such schedule")
}

func (h *fakeHandle) Describe(context.Context) (*client.ScheduleDescription, error) {
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	s, err := h.get()
	if err != nil {
		return nil, err
	}
	return &client.ScheduleDescription{Schedule: *s, Info: client.ScheduleInfo{NextActionTimes: []time.Time{time.Now()}, NumActions: 7}}, nil
}

func (h *fakeHandle) Update(_ context.Context, o client.ScheduleUpdateOptions) error {
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	s, err := h.get()
	if err != nil {
		return err
	}
	changed, err := o.DoUpdate(client.ScheduleUpdateInput{Description: client.ScheduleDescription{Schedule: *s}})
	if err == nil {
		h.f.schedules[h.id] = changed.Schedule
	}
	return err
}

func (h *fakeHandle) Delete(context.Context) error {
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	if _, err := h.get(); err != nil {
		return err
	}
	delete(h.f.schedules, h.id)
	return nil
}

func daily(name string) run.ScheduleSpec {
	return run.ScheduleSpec{Name: name, Cron: []string{"@daily"}, Spec: &run.Spec{
		Name: "n", Group: "/a/b", Secrets: map[string]run.Secret{"TOKEN": "hush"}, Tasks: map[string]*run.TaskSpec{"t": twoSteps()},
	}}
}

func requireCode(t *testing.T, want run.Code, err error) {
	t.Helper()
	require.Equal(t, want, run.CodeOf(err), "%v", err)
}

func TestScheduler_puts(t *testing.T) {
	t.Parallel()
	b, f := newBench(t), newFakeTemporal()
	s := engine.NewScheduler(b.Engine, b.store, f)
	x := daily("nightly")
	x.Jitter, x.Overlap, x.Timezone, x.Note = run.Duration(time.Minute), run.OverlapAllowAll, "Europe/Berlin", "why"
	x.Intervals = []run.Interval{{Every: run.Duration(time.Hour), Offset: run.Duration(time.Minute)}}
	got, created, err := s.PutSchedule(t.Context(), x, "ann")
	require.NoError(t, err)
	require.True(t, created)
	require.Equal(t, []string{"TOKEN"}, got.SecretNames)
	require.Nil(t, got.Spec.Secrets)
	require.Equal(t, "why", got.Note)
	require.Equal(t, 7, got.Fired)
	kept := f.schedules["schedule:nightly"]
	require.Equal(t, client.ScheduleSpec{
		CronExpressions: []string{"@daily"}, TimeZoneName: "Europe/Berlin", Jitter: time.Minute,
		Intervals: []client.ScheduleIntervalSpec{{Every: time.Hour, Offset: time.Minute}},
	}, *kept.Spec)
	require.Equal(t, enumspb.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL, kept.Policy.Overlap)
	require.Equal(t, []any{contract.ScheduledRunInput{Schedule: "nightly"}}, kept.Action.(*client.ScheduleWorkflowAction).Args)

	kept.State.Paused = true
	y := daily("nightly")
	y.Spec.Secrets = nil
	got, created, err = s.PutSchedule(t.Context(), y, "ann")
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, []string{"TOKEN"}, got.SecretNames, "they are kept")
	require.True(t, *got.Paused, "it stays as it is")
	require.Equal(t, "why", got.Note)
	require.Empty(t, got.Next)
	require.Equal(t, enumspb.SCHEDULE_OVERLAP_POLICY_UNSPECIFIED, f.schedules["schedule:nightly"].Policy.Overlap)

	delete(f.schedules, "schedule:nightly")
	got, err = s.Schedule(t.Context(), "nightly")
	require.NoError(t, err)
	require.Contains(t, got.Note, "missing in Temporal")
	_, created, err = s.PutSchedule(t.Context(), y, "ann")
	require.NoError(t, err, "to put it again mends it")
	require.False(t, created)
	require.NotNil(t, f.schedules["schedule:nightly"])

	delete(f.schedules, "schedule:nightly")
	require.NoError(t, s.DeleteSchedule(t.Context(), "nightly"))
	requireCode(t, run.CodeNotFound, s.DeleteSchedule(t.Context(), "nightly"))
}

// A changed schedule could show its secrets by other steps, another image, pool or
// group. So only the subject that gave them changes a specification that keeps them.
func TestScheduler_secrets_of_another(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := engine.NewScheduler(b.Engine, b.store, newFakeTemporal())
	put := func(subject string, change func(*run.ScheduleSpec)) error {
		x := daily("nightly")
		x.Spec.Secrets = nil
		change(&x)
		_, _, err := s.PutSchedule(t.Context(), x, subject)
		return err
	}
	_, _, err := s.PutSchedule(t.Context(), daily("nightly"), "ann")
	require.NoError(t, err)
	for name, change := range map[string]func(*run.Spec){
		"steps":       func(x *run.Spec) { x.Tasks["t"].Steps[0].Run = "printenv TOKEN | rev" },
		"group":       func(x *run.Spec) { x.Group = "/a/dev" },
		"environment": func(x *run.Spec) { x.Environment = map[string]string{"BASH_ENV": "/x"} },
		"pool":        func(x *run.Spec) { x.Tasks["t"].Pool = "shell" },
	} {
		for _, subject := range []string{"bob", ""} {
			var refusal *run.Error
			require.ErrorAs(t, put(subject, func(x *run.ScheduleSpec) { change(x.Spec) }), &refusal, name)
			require.Equal(t, run.CodeInvalid, refusal.Code)
			require.Len(t, refusal.Faults, 1, name)
			require.Equal(t, "spec.secrets.TOKEN", refusal.Faults[0].Path)
			require.Equal(t, run.FaultRequired, refusal.Faults[0].Code)
		}
	}
	require.NoError(t, put("bob", func(x *run.ScheduleSpec) { x.Cron = []string{"0 3 * * *"} }), "the runs are the same")
	require.NoError(t, put("ann", func(x *run.ScheduleSpec) { x.Spec.Group = "/a/c" }), "they are still hers")
	row, err := b.store.GetSchedule(t.Context(), "nightly")
	require.NoError(t, err)
	require.Equal(t, run.Secret("hush"), row.Spec.Secrets["TOKEN"])
	require.Equal(t, "ann", row.SecretsBy)

	require.NoError(t, put("bob", func(x *run.ScheduleSpec) { x.Spec.Secrets = map[string]run.Secret{"TOKEN": "mine"} }))
	require.NoError(t, put("bob", func(x *run.ScheduleSpec) { x.Spec.Group = "/a/d" }))
	require.NoError(t, put("ann", func(x *run.ScheduleSpec) { x.Spec.Group, x.Cron = "/a/d", []string{"0 4 * * *"} }), "the runs are the same")
	require.Error(t, put("ann", func(x *run.ScheduleSpec) { x.Spec.Group = "/a/e" }), "they are his now")
	require.NoError(t, put("ann", func(x *run.ScheduleSpec) { x.Spec.Secrets = map[string]run.Secret{} }), "without secrets")
}

func TestScheduler_refuses(t *testing.T) {
	t.Parallel()
	b, f := newBench(t), newFakeTemporal()
	s := engine.NewScheduler(b.Engine, b.store, f)
	for name, tt := range map[string]struct {
		change func(*run.ScheduleSpec)
		code   run.Code
		path   string
	}{
		"no_spec":        {func(x *run.ScheduleSpec) { x.Spec = nil }, run.CodeInvalid, "spec"},
		"a_bad_spec":     {func(x *run.ScheduleSpec) { x.Spec.Tasks["t"].Steps = nil }, run.CodeInvalid, "spec.tasks.t.steps"},
		"no_such_pool":   {func(x *run.ScheduleSpec) { x.Spec.Tasks["t"].Pool = "none" }, run.CodeInvalid, "spec.tasks.t.pool"},
		"not_supported":  {func(x *run.ScheduleSpec) { x.Spec.Environment = map[string]string{"A": `{{ output "t" "k" }}`} }, run.CodeNotSupported, "spec.environment.A"},
		"no_times":       {func(x *run.ScheduleSpec) { x.Cron = nil }, run.CodeInvalid, ""},
		"a_bad_overlap":  {func(x *run.ScheduleSpec) { x.Overlap = "perhaps" }, run.CodeInvalid, "overlap"},
		"a_bad_interval": {func(x *run.ScheduleSpec) { x.Intervals = []run.Interval{{}} }, run.CodeInvalid, "intervals[0].every"},
	} {
		t.Run(name, func(t *testing.T) {
			x := daily("nightly")
			tt.change(&x)
			_, _, err := s.PutSchedule(t.Context(), x, "ann")
			requireCode(t, tt.code, err)
			refused, _ := errors.AsType[*run.Error](err)
			require.Equal(t, tt.path, refused.Faults[0].Path, "%v", refused.Faults)
			require.Empty(t, f.schedules)
		})
	}
	_, err := s.TriggerSchedule(t.Context(), "none", "")
	requireCode(t, run.CodeNotFound, err)
	_, err = s.BackfillSchedule(t.Context(), "none", run.Backfill{From: time.Now(), To: time.Now().Add(time.Hour)})
	requireCode(t, run.CodeInvalid, err)
	_, err = s.Schedules(t.Context(), run.ScheduleQuery{Limit: 1000})
	requireCode(t, run.CodeInvalid, err)
}

func TestScheduler_temporal_rejects(t *testing.T) {
	t.Parallel()
	b, f := newBench(t), newFakeTemporal()
	s := engine.NewScheduler(b.Engine, b.store, f)
	f.fail = serviceerror.NewInvalidArgument("Invalid schedule spec: CronString does not have 5-7 fields")
	_, _, err := s.PutSchedule(t.Context(), daily("nightly"), "ann")
	requireCode(t, run.CodeInvalid, err)
	refused, _ := errors.AsType[*run.Error](err)
	require.Equal(t, []run.Fault{{Path: "cron[0]", Code: run.FaultBadFormat, Detail: "CronString does not have 5-7 fields"}}, refused.Faults)

	f.fail = serviceerror.NewUnavailable("no")
	_, _, err = s.PutSchedule(t.Context(), daily("nightly"), "ann")
	requireCode(t, run.CodeUnavailable, err)
	_, err = b.store.GetSchedule(t.Context(), "nightly")
	requireCode(t, run.CodeNotFound, err)
	f.fail = nil
	_, _, err = s.PutSchedule(t.Context(), daily("nightly"), "ann")
	require.NoError(t, err)
	f.fail = context.DeadlineExceeded
	_, err = s.Schedule(t.Context(), "nightly")
	requireCode(t, run.CodeUnavailable, err)
	_, err = s.Schedules(t.Context(), run.ScheduleQuery{})
	requireCode(t, run.CodeUnavailable, err)
	requireCode(t, run.CodeUnavailable, s.DeleteSchedule(t.Context(), "nightly"))
}

// TestScheduler_puts_concurrently: after two concurrent puts of a schedule, both the
// records and Temporal have the whole of one of them.
func TestScheduler_puts_concurrently(t *testing.T) {
	t.Parallel()
	b, f := newBench(t), newFakeTemporal()
	s := engine.NewScheduler(b.Engine, b.store, f)
	f.creating = func() {
		f.creating = nil
		other := daily("nightly")
		other.Cron = []string{"@hourly"}
		_, _, err := s.PutSchedule(t.Context(), other, "ann")
		require.NoError(t, err)
	}
	_, created, err := s.PutSchedule(t.Context(), daily("nightly"), "ann")
	require.NoError(t, err)
	require.False(t, created)
	row, err := b.store.GetSchedule(t.Context(), "nightly")
	require.NoError(t, err)
	require.Equal(t, []string{"@daily"}, row.Cron)
	require.Equal(t, []string{"@daily"}, f.schedules["schedule:nightly"].Spec.CronExpressions)
}

func TestScheduler_lists(t *testing.T) {
	t.Parallel()
	b, f := newBench(t), newFakeTemporal()
	s := engine.NewScheduler(b.Engine, b.store, f)
	for _, name := range []string{"a", "b", "c"} {
		_, _, err := s.PutSchedule(t.Context(), daily(name), "ann")
		require.NoError(t, err)
	}
	page, err := s.Schedules(t.Context(), run.ScheduleQuery{Limit: 2})
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, []string{page.Schedules[0].Name, page.Schedules[1].Name})
	require.Equal(t, "b", page.After)
	require.NotEmpty(t, page.Schedules[0].Next)
	page, err = s.Schedules(t.Context(), run.ScheduleQuery{Limit: 2, After: page.After})
	require.NoError(t, err)
	require.Len(t, page.Schedules, 1)
	require.Empty(t, page.After)
}

func firingOf(schedule, workflow string, at time.Time) contract.FireInput {
	return contract.FireInput{Schedule: schedule, Key: contract.FiringKey(workflow, "first"), ScheduledFor: at, Started: at}
}

// The secrets of a scheduled run are those of the subject that gave them to the schedule.
func TestScheduler_restart_of_a_run(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := engine.NewScheduler(b.Engine, b.store, newFakeTemporal())
	_, _, err := s.PutSchedule(t.Context(), daily("nightly"), "ann")
	require.NoError(t, err)
	fired, err := s.Fire(t.Context(), firingOf("nightly", "w1", time.Now()))
	require.NoError(t, err)
	_, err = b.Cancel(t.Context(), fired.Run, nil)
	require.NoError(t, err)
	req := run.RestartRequest{Run: fired.Run, From: run.RestartStart, Environment: map[string]string{"DEBUG": "1"}}
	for subject, want := range map[string]run.Code{"ann": "", "bob": run.CodeInvalid, "schedule:nightly": run.CodeInvalid} {
		req.Subject = subject
		_, err = b.Restart(t.Context(), req)
		require.Equal(t, want, run.CodeOf(err), "%s: %v", subject, err)
	}
}

func TestScheduler_fires_once(t *testing.T) {
	t.Parallel()
	b, f := newBench(t), newFakeTemporal()
	s := engine.NewScheduler(b.Engine, b.store, f)
	_, _, err := s.PutSchedule(t.Context(), daily("nightly"), "ann")
	require.NoError(t, err)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	first, err := s.Fire(t.Context(), firingOf("nightly", "w1", at))
	require.NoError(t, err)
	require.NotEmpty(t, first.Run)
	changed := daily("nightly")
	changed.Spec.Name = "changed"
	_, _, err = s.PutSchedule(t.Context(), changed, "ann")
	require.NoError(t, err)
	again, err := s.Fire(t.Context(), firingOf("nightly", "w1", at))
	require.NoError(t, err)
	require.Equal(t, first, again, "even if the schedule has changed since")
	other, err := s.Fire(t.Context(), firingOf("nightly", "w2", at))
	require.NoError(t, err)
	require.NotEqual(t, first.Run, other.Run)

	r, err := b.Get(t.Context(), first.Run)
	require.NoError(t, err)
	require.Equal(t, "nightly", r.Annotations[run.AnnotationSchedule])
	require.Equal(t, "2026-01-02T03:04:05Z", r.Annotations[run.AnnotationScheduledFor])
	require.Equal(t, []string{"TOKEN"}, r.SecretNames)
	x, err := s.Schedule(t.Context(), "nightly")
	require.NoError(t, err)
	require.Len(t, x.Recent, 2)
}

func TestScheduler_rejects_a_firing(t *testing.T) {
	t.Parallel()
	b, f := newBench(t), newFakeTemporal()
	s := engine.NewScheduler(b.Engine, b.store, f)
	x := daily("nightly")
	require.NoError(t, b.store.PutSchedule(t.Context(), x, "ann", 0))
	x.Spec.Tasks["t"].Pool = "gone"
	require.NoError(t, b.store.PutSchedule(t.Context(), x, "ann", 1))
	f.schedules["schedule:nightly"] = &client.Schedule{State: &client.ScheduleState{}}
	out, err := s.Fire(t.Context(), firingOf("nightly", "w1", time.Now()))
	require.NoError(t, err)
	require.Contains(t, out.Refused, "spec")
	require.Contains(t, out.Refused, "gone")
	got, err := s.Schedule(t.Context(), "nightly")
	require.NoError(t, err)
	require.Equal(t, out.Refused, got.Recent[0].Error)
	require.Empty(t, got.Recent[0].Run)
}

// TestFleetGroups: submissions, restarts and firings of schedules find no pool that has a
// fleet of others, and the run that was submitted before keeps it.
func TestFleetGroups(t *testing.T) {
	t.Parallel()
	b, f := newBench(t), newFakeTemporal()
	s, fleets := engine.NewScheduler(b.Engine, b.store, f), engine.NewFleets(b.store)
	put := func(groups ...string) {
		t.Helper()
		_, _, err := fleets.PutFleet(t.Context(), "vms", run.FleetSpec{Pool: "shell", Plugin: "docker", AllowedGroups: groups}, "me")
		require.NoError(t, err)
	}
	submit := func(group, pool string) error {
		task := twoSteps()
		task.Pool = pool
		_, err := b.Create(t.Context(), run.CreateRequest{Spec: &run.Spec{Name: "n", Group: group, Tasks: map[string]*run.TaskSpec{"t": task}}})
		return err
	}
	restart := func(id run.ID) error {
		_, err := b.Restart(t.Context(), run.RestartRequest{Run: id, From: run.RestartStart})
		return err
	}
	fired := 0
	fire := func() (refused string) {
		t.Helper()
		fired++
		out, err := s.Fire(t.Context(), firingOf("nightly", fmt.Sprintf("w%d", fired), time.Now()))
		require.NoError(t, err)
		return out.Refused
	}
	put()
	old := b.ended(t, run.StatusFailed)
	held := b.submit(t, map[string]*run.TaskSpec{"t": twoSteps()})
	_, _, err := s.PutSchedule(t.Context(), daily("nightly"), "ann")
	require.NoError(t, err)
	require.NoError(t, submit("/a/b", "shell"))
	require.NoError(t, restart(old.ID))
	require.Empty(t, fire())

	put("/acme/**")
	_, _, err = fleets.PutFleet(t.Context(), "vms", run.FleetSpec{Pool: "shell", Plugin: "docker", AllowedGroups: []string{"/acme"}}, "me")
	requireCode(t, run.CodeInvalid, err)
	for _, pool := range []string{"", "shell"} {
		requireCode(t, run.CodeInvalid, submit("/a/b", pool))
		require.NoError(t, submit("/acme/web", pool))
	}
	var refused, absent *run.Error
	require.ErrorAs(t, submit("/a/b", "shell"), &refused)
	require.ErrorAs(t, submit("/a/b", "nope"), &absent)
	require.Equal(t, strings.ReplaceAll(absent.Faults[0].Detail, "nope", "shell"), refused.Faults[0].Detail)
	requireCode(t, run.CodeInvalid, restart(old.ID))
	require.Contains(t, fire(), "no shell pool")
	_, _, err = s.PutSchedule(t.Context(), daily("other"), "ann")
	requireCode(t, run.CodeInvalid, err)
	b.claim(t, held.ID) // it continues

	put("/acme/**", "/a/**")
	require.NoError(t, submit("/a/b", ""))
	put("/acme/**")
	_, err = fleets.DeleteFleet(t.Context(), "vms", "me")
	require.NoError(t, err)
	requireCode(t, run.CodeInvalid, submit("/a/b", ""))
	_, err = b.store.ChangeFleet(t.Context(), "vms", records.FleetChanges{Deleted: true})
	require.NoError(t, err)
	require.NoError(t, submit("/a/b", ""))
	require.NoError(t, restart(old.ID))
	require.Empty(t, fire())
}

// TestPoolImages: submissions, restarts and firings of schedules are refused if the pool
// does not allow the images, also those of inputs. The run that was submitted before a
// change keeps its pool.
func TestPoolImages(t *testing.T) {
	t.Parallel()
	b, f := newBench(t), newFakeTemporal()
	s := engine.NewScheduler(b.Engine, b.store, f)
	put := func(images ...string) {
		t.Helper()
		_, _, err := b.PutPool(t.Context(), run.Pool{Name: "docker", Driver: run.DriverDocker, Images: run.PoolImages{Allowed: images}})
		require.NoError(t, err)
	}
	specOf := func(image string, values map[string]string) *run.Spec {
		task := twoSteps()
		task.Image = image
		inputs := map[string]run.Input{}
		for name := range values {
			inputs[name] = run.Input{Type: run.InputString}
		}
		return &run.Spec{Name: "n", Group: "/a/b", Tasks: map[string]*run.TaskSpec{"t": task}, Inputs: inputs, InputValues: values}
	}
	submit := func(spec *run.Spec) (run.ID, error) {
		r, err := b.Create(t.Context(), run.CreateRequest{Spec: spec})
		return r.ID, err
	}
	refused := func(err error) {
		t.Helper()
		var e *run.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, run.CodeInvalid, e.Code)
		require.Equal(t, []any{"tasks.t.image", run.FaultPoolMismatch}, []any{strings.TrimPrefix(e.Faults[0].Path, "spec."), e.Faults[0].Code})
		require.Contains(t, e.Faults[0].Detail, "registry.example.com/team/*")
	}
	const allowed = "registry.example.com/team/app"
	put()
	old, err := submit(specOf("alpine", nil))
	require.NoError(t, err)
	require.NoError(t, b.store.CancelRun(t.Context(), old, nil))
	nightly := run.ScheduleSpec{Name: "nightly", Cron: []string{"@daily"}, Spec: specOf("alpine", nil)}
	_, _, err = s.PutSchedule(t.Context(), nightly, "ann")
	require.NoError(t, err)
	held, err := submit(specOf("alpine", nil))
	require.NoError(t, err)

	put("registry.example.com/team/*")
	_, err = submit(specOf("alpine", nil))
	refused(err)
	for _, values := range []map[string]string{{"i": "alpine"}, {"i": "registry.example.com/other/app"}, {"i": "index.docker.io/team/app"}, {"i": allowed + "s/app"}} {
		_, err = submit(specOf(`{{ input "i" }}`, values))
		refused(err)
	}
	_, err = submit(specOf(`{{ input "i" }}:1`, map[string]string{"i": allowed}))
	require.NoError(t, err)
	_, err = b.Restart(t.Context(), run.RestartRequest{Run: old, From: run.RestartStart})
	refused(err)
	out, err := s.Fire(t.Context(), firingOf("nightly", "w1", time.Now()))
	require.NoError(t, err)
	require.Contains(t, out.Refused, "does not allow the image")
	nightly.Name = "other"
	_, _, err = s.PutSchedule(t.Context(), nightly, "ann")
	refused(err)
	got, err := b.Get(t.Context(), held)
	require.NoError(t, err)
	require.False(t, got.Phase.Final())

	put("**")
	_, err = b.Restart(t.Context(), run.RestartRequest{Run: old, From: run.RestartStart})
	require.NoError(t, err)
}

// A task without an image gets that of its pool when the run is submitted, and a restart
// keeps it. The specification of the client stays as it is.
func TestPoolImages_default(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	put := func(image string) {
		t.Helper()
		_, _, err := b.PutPool(t.Context(), run.Pool{Name: "docker", Driver: run.DriverDocker, Images: run.PoolImages{Default: image, Allowed: []string{"team/*"}}})
		require.NoError(t, err)
	}
	spec := &run.Spec{Name: "n", Group: "/a/b", Tasks: map[string]*run.TaskSpec{"none": twoSteps(), "own": twoSteps(), "shell": twoSteps()}}
	spec.Tasks["none"].Pool, spec.Tasks["own"].Pool, spec.Tasks["own"].Image = "docker", "docker", "team/app"
	images := func(id run.ID) (all []string) {
		t.Helper()
		stored, err := b.Spec(t.Context(), id)
		require.NoError(t, err)
		for _, name := range []string{"none", "own", "shell"} {
			all = append(all, stored.Tasks[name].Image)
		}
		return all
	}
	put("")
	_, err := b.Create(t.Context(), run.CreateRequest{Spec: spec})
	var refused *run.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, []any{"tasks.none.image", run.FaultRequired}, []any{refused.Faults[0].Path, refused.Faults[0].Code})

	put("alpine:3")
	r, err := b.Create(t.Context(), run.CreateRequest{Spec: spec})
	require.NoError(t, err)
	require.Equal(t, []string{"alpine:3", "team/app", ""}, images(r.ID))
	require.Empty(t, spec.Tasks["none"].Image)
	put("alpine:4")
	require.Equal(t, []string{"alpine:3", "team/app", ""}, images(r.ID))
	require.NoError(t, b.store.CancelRun(t.Context(), r.ID, nil))
	_, err = b.Restart(t.Context(), run.RestartRequest{Run: r.ID, From: run.RestartStart})
	requireCode(t, run.CodeInvalid, err) // the image of the run is not allowed now
	put("alpine:3")
	again, err := b.Restart(t.Context(), run.RestartRequest{Run: r.ID, From: run.RestartStart})
	require.NoError(t, err)
	require.Equal(t, []string{"alpine:3", "team/app", ""}, images(again.ID))
}

// TestScheduler_orphan: a firing waits for the row of its schedule, and deletes
// a schedule that the records do not have.
func TestScheduler_orphan(t *testing.T) {
	t.Parallel()
	b, f := newBench(t), newFakeTemporal()
	s := engine.NewScheduler(b.Engine, b.store, f)
	f.schedules["schedule:orphan"] = &client.Schedule{}
	_, err := s.Fire(t.Context(), firingOf("orphan", "w1", time.Now()))
	requireCode(t, run.CodeUnavailable, err)
	require.NotEmpty(t, f.schedules)
	out, err := s.Fire(t.Context(), firingOf("orphan", "w1", time.Now().Add(-time.Hour)))
	require.NoError(t, err)
	require.Equal(t, contract.FireResult{}, out)
	require.Empty(t, f.schedules)
	_, err = s.Fire(t.Context(), firingOf("orphan", "w1", time.Now().Add(-time.Hour)))
	require.NoError(t, err)
}

// TestScheduler_ends_runs_of_terminated_firings: a firing whose workflow was
// terminated could not end its run, so the next firing does.
func TestScheduler_ends_runs_of_terminated_firings(t *testing.T) {
	t.Parallel()
	b, f := newBench(t), newFakeTemporal()
	s := engine.NewScheduler(b.Engine, b.store, f)
	_, _, err := s.PutSchedule(t.Context(), daily("nightly"), "ann")
	require.NoError(t, err)
	made := map[string]run.ID{}
	for _, workflow := range []string{"terminated-queued", "terminated-running", "open", "forgotten"} {
		out, err := s.Fire(t.Context(), firingOf("nightly", workflow, time.Now()))
		require.NoError(t, err)
		made[workflow] = out.Run
	}
	_, err = b.store.Begin(t.Context(), made["terminated-running"])
	require.NoError(t, err)
	f.status["terminated-queued"] = enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED
	f.status["terminated-running"] = enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED
	f.status["open"] = enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	_, err = s.Fire(t.Context(), firingOf("nightly", "next", time.Now()))
	require.NoError(t, err)
	phases := map[string]run.Phase{}
	for workflow, id := range made {
		r, err := b.store.GetSummary(t.Context(), id)
		require.NoError(t, err)
		phases[workflow] = r.Phase
	}
	require.Equal(t, map[string]run.Phase{
		"terminated-queued": run.PhaseCancelled, "terminated-running": run.PhaseRunning, "open": run.PhaseQueued, "forgotten": run.PhaseQueued,
	}, phases)
	standing, err := b.store.Begin(t.Context(), made["terminated-running"])
	require.NoError(t, err)
	require.True(t, standing.StopRequested)
	require.NoError(t, s.EndRun(t.Context(), "01k0000000000000000000000a"), "one that does not exist has ended")
}

// starter records the started and signalled workflows.
type starter struct {
	client.Client
	mu  sync.Mutex
	log []string
}

func (s *starter) ExecuteWorkflow(_ context.Context, o client.StartWorkflowOptions, _ any, _ ...any) (client.WorkflowRun, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, "start "+o.ID)
	return nil, nil
}

func TestWebhookSupervisor(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	webhooks := engine.NewWebhooks(b.store)
	for name, enabled := range map[string]bool{"on": true, "off": false} {
		_, _, err := webhooks.PutWebhook(t.Context(), run.WebhookSpec{Name: name, URL: "http://x", Secret: "0123456789abcdef", Enabled: enabled})
		require.NoError(t, err)
	}
	_, _, err := webhooks.PutWebhook(t.Context(), run.WebhookSpec{Name: "bad"})
	requireCode(t, run.CodeInvalid, err)
	var s starter
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- maintenance.NewWebhookSupervisor(b.store, &s, slog.New(slog.DiscardHandler)).Run(ctx) }()
	testenv.Await(t, func() (bool, string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.log) > 0, "the supervisor starts nothing"
	})
	cancel()
	require.NoError(t, <-done)
	require.Equal(t, []string{"start webhook:on"}, s.log)
}
