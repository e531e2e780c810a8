package engine

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"golang.org/x/sync/errgroup"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

// ScheduleService is the part of a Temporal client that a Scheduler uses.
type ScheduleService interface {
	ScheduleClient() client.ScheduleClient
	DescribeWorkflowExecution(ctx context.Context, workflowID, runID string) (*workflowservice.DescribeWorkflowExecutionResponse, error)
}

// ScheduleStore is the part of the records that a Scheduler uses.
type ScheduleStore interface {
	records.Schedules
	EndRun(ctx context.Context, id run.ID, token run.Token, force bool) (run.ActionKind, error)
}

// callTimeout bounds one call of Temporal.
const callTimeout = 10 * time.Second

// Scheduler implements run.Schedules: Temporal stores the times of a schedule,
// and whether it is paused; the records store everything else. It is safe for
// concurrent use.
type Scheduler struct {
	engine   *Engine
	store    ScheduleStore
	temporal ScheduleService
	logger   *slog.Logger
}

var _ run.Schedules = (*Scheduler)(nil)

// NewScheduler returns a Scheduler. It does no I/O.
func NewScheduler(e *Engine, store ScheduleStore, temporal ScheduleService) *Scheduler {
	return &Scheduler{engine: e, store: store, temporal: temporal, logger: e.logger}
}

const (
	// defaultPage is the size of a page of schedules, and maxPage the largest.
	defaultPage, maxPage = 25, 100
	// maxDescribes is how many schedules are described concurrently.
	maxDescribes = 8
	// recentFirings is how many firings are shown with a schedule.
	recentFirings = 20
	// putTries is how often a put is retried because another client has put the
	// same schedule meanwhile.
	putTries = 5
)

// Schedules implements run.Schedules.
func (s *Scheduler) Schedules(ctx context.Context, q run.ScheduleQuery) (run.SchedulePage, error) {
	if q.Limit == 0 {
		q.Limit = defaultPage
	}
	if q.Limit < 1 || q.Limit > maxPage {
		return run.SchedulePage{}, run.Errorf(run.CodeInvalid, "limit must be 1 to %d", maxPage)
	}
	rows, err := s.store.ListSchedules(ctx, q.After, q.Limit+1, q.Within...)
	if err != nil {
		return run.SchedulePage{}, err
	}
	var page run.SchedulePage
	if len(rows) > q.Limit {
		rows = rows[:q.Limit]
		page.After = rows[q.Limit-1].Name
	}
	page.Schedules = make([]run.Schedule, len(rows))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxDescribes)
	for i, row := range rows {
		group.Go(func() error {
			var err error
			page.Schedules[i], err = s.describe(ctx, row)
			return err
		})
	}
	return page, group.Wait()
}

// Schedule implements run.Schedules.
func (s *Scheduler) Schedule(ctx context.Context, name string) (run.Schedule, error) {
	row, err := s.store.GetSchedule(ctx, name)
	if err != nil {
		return run.Schedule{}, err
	}
	out, err := s.describe(ctx, row)
	if err != nil {
		return run.Schedule{}, err
	}
	out.SecretNames = row.Spec.SecretNames()
	shown := *row.Spec
	shown.Secrets = nil
	out.Spec = &shown
	firings, err := s.store.Firings(ctx, name, recentFirings)
	for _, f := range firings {
		out.Recent = append(out.Recent, f.Firing)
	}
	return out, err
}

// ScheduleGroup implements run.Schedules.
func (s *Scheduler) ScheduleGroup(ctx context.Context, name string) (string, error) {
	return s.store.ScheduleGroup(ctx, name)
}

// describe adds Temporal's state to the stored row.
func (s *Scheduler) describe(ctx context.Context, row records.Schedule) (run.Schedule, error) {
	out := run.Schedule{
		ScheduleSpec: row.ScheduleSpec, RunName: row.RunName, Group: row.Group, CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt,
	}
	var d *client.ScheduleDescription
	err := s.call(ctx, func(ctx context.Context) (err error) {
		d, err = s.handle(ctx, row.Name).Describe(ctx)
		return err
	})
	if run.CodeOf(err) == run.CodeNotFound {
		// The schedule was deleted in Temporal.
		out.Paused, out.Note = new(true), missingInTemporal
		return out, nil
	}
	if err != nil {
		return out, err
	}
	out.Paused, out.Note = &d.Schedule.State.Paused, d.Schedule.State.Note
	if !d.Schedule.State.Paused {
		out.Next = d.Info.NextActionTimes
	}
	out.Fired, out.Overlapped, out.MissedCatchup = d.Info.NumActions, d.Info.NumActionsSkippedOverlap, d.Info.NumActionsMissedCatchupWindow
	return out, nil
}

const missingInTemporal = "it is missing in Temporal; put it again"

// PutSchedule implements run.Schedules. It writes to Temporal first, because
// only Temporal can validate the times. Both writes are complete, so that
// another put repairs an interrupted one.
func (s *Scheduler) PutSchedule(ctx context.Context, x run.ScheduleSpec, subject string) (_ run.Schedule, created bool, err error) {
	for range putTries {
		var was records.Schedule
		if was, err = s.store.GetSchedule(ctx, x.Name); err != nil && run.CodeOf(err) != run.CodeNotFound {
			return run.Schedule{}, false, err
		}
		requested, secretsBy, err := keepSecrets(x, was, subject)
		if err != nil {
			return run.Schedule{}, false, err
		}
		if err := s.check(ctx, requested); err != nil {
			return run.Schedule{}, false, err
		}
		if err := s.putTemporal(ctx, requested); err != nil {
			return run.Schedule{}, false, err
		}
		err = s.store.PutSchedule(ctx, requested, secretsBy, was.Version)
		if run.CodeOf(err) == run.CodeConflict {
			continue
		}
		if err != nil {
			return run.Schedule{}, false, err
		}
		out, err := s.Schedule(ctx, x.Name)
		return out, was.Version == 0, err
	}
	return run.Schedule{}, false, err
}

// keepSecrets keeps the secrets of the existing schedule if the new one sets none, and
// returns who gave them. A changed specification keeps only those that the same subject
// gave: it could show them.
func keepSecrets(x run.ScheduleSpec, was records.Schedule, subject string) (_ run.ScheduleSpec, secretsBy string, _ error) {
	if x.Spec == nil || x.Spec.Secrets != nil || was.Spec == nil {
		return x, subject, nil
	}
	kept := maps.Clone(was.Spec.Secrets)
	for name := range x.Spec.SecretsFrom {
		delete(kept, name)
	}
	given := was.SecretsBy != "" && was.SecretsBy == subject
	if len(kept) > 0 && !given && !sameExceptSecrets(x.Spec, was.Spec) {
		var faults []run.Fault
		for _, name := range slices.Sorted(maps.Keys(kept)) {
			faults = append(faults, run.Fault{
				Path: "spec.secrets." + name, Code: run.FaultRequired,
				Detail: "another subject gave its value, which a changed specification could show: give the value again, or drop all secrets with secrets: {}",
			})
		}
		return x, "", run.InvalidError("the schedule is not valid", faults)
	}
	spec := *x.Spec
	spec.Secrets = kept
	x.Spec = &spec
	return x, was.SecretsBy, nil
}

// sameExceptSecrets reports whether two specifications differ in nothing but their secrets.
func sameExceptSecrets(a, b *run.Spec) bool {
	first, second := *a, *b
	first.Secrets, second.Secrets = nil, nil
	one, err := json.Marshal(first)
	two, err2 := json.Marshal(second)
	return err == nil && err2 == nil && bytes.Equal(one, two)
}

// check returns all faults of a schedule. It validates the specification as for
// a run.
func (s *Scheduler) check(ctx context.Context, x run.ScheduleSpec) error {
	faults := spec.ValidateSchedule(x, time.Now())
	if len(faults) == 0 {
		_, err := s.engine.expand(ctx, x.ScheduledSpec(time.Time{}))
		var refusal *run.Error
		if err != nil && (!errors.As(err, &refusal) || len(refusal.Faults) == 0) {
			return err
		}
		if refusal != nil {
			faults = spec.Under("spec", refusal.Faults)
		}
	}
	if len(faults) == 0 {
		return nil
	}
	err := faultsError(faults)
	if refusal, ok := errors.AsType[*run.Error](err); ok && refusal.Code == run.CodeInvalid {
		refusal.Message = "the schedule is not valid"
	}
	return err
}

// DeleteSchedule implements run.Schedules.
func (s *Scheduler) DeleteSchedule(ctx context.Context, name string) error {
	if _, err := s.store.GetSchedule(ctx, name); err != nil {
		return err
	}
	err := s.call(ctx, func(ctx context.Context) error { return s.handle(ctx, name).Delete(ctx) })
	if err != nil && run.CodeOf(err) != run.CodeNotFound {
		return err
	}
	return s.store.DeleteSchedule(ctx, name)
}

// PauseSchedule implements run.Schedules.
func (s *Scheduler) PauseSchedule(ctx context.Context, name, note string) (run.Schedule, error) {
	if faults := spec.ValidateNote(note); len(faults) > 0 {
		return run.Schedule{}, run.InvalidError("the note is not valid", faults)
	}
	return s.onExisting(ctx, name, func(ctx context.Context, h client.ScheduleHandle) error {
		// The SDK would replace an empty note by one of its own, here and below.
		return h.Pause(ctx, client.SchedulePauseOptions{Note: cmp.Or(note, "paused")})
	})
}

// ResumeSchedule implements run.Schedules.
func (s *Scheduler) ResumeSchedule(ctx context.Context, name, note string) (run.Schedule, error) {
	if faults := spec.ValidateNote(note); len(faults) > 0 {
		return run.Schedule{}, run.InvalidError("the note is not valid", faults)
	}
	return s.onExisting(ctx, name, func(ctx context.Context, h client.ScheduleHandle) error {
		return h.Unpause(ctx, client.ScheduleUnpauseOptions{Note: cmp.Or(note, "resumed")})
	})
}

// TriggerSchedule implements run.Schedules.
func (s *Scheduler) TriggerSchedule(ctx context.Context, name string, overlap run.Overlap) (run.Schedule, error) {
	if faults := spec.ValidateOverlap(overlap); len(faults) > 0 {
		return run.Schedule{}, run.InvalidError("the overlap policy is not valid", faults)
	}
	return s.onExisting(ctx, name, func(ctx context.Context, h client.ScheduleHandle) error {
		return h.Trigger(ctx, client.ScheduleTriggerOptions{Overlap: overlapPolicy(overlap)})
	})
}

// BackfillSchedule implements run.Schedules.
func (s *Scheduler) BackfillSchedule(ctx context.Context, name string, b run.Backfill) (run.Schedule, error) {
	if faults := spec.ValidateBackfill(b, time.Now()); len(faults) > 0 {
		return run.Schedule{}, run.InvalidError("the backfill is not valid", faults)
	}
	return s.onExisting(ctx, name, func(ctx context.Context, h client.ScheduleHandle) error {
		return h.Backfill(ctx, client.ScheduleBackfillOptions{Backfill: []client.ScheduleBackfill{
			{Start: b.From, End: b.To, Overlap: overlapPolicy(b.Overlap)},
		}})
	})
}

// onExisting calls Temporal for an existing schedule, and returns the schedule's new
// state.
func (s *Scheduler) onExisting(ctx context.Context, name string, do func(context.Context, client.ScheduleHandle) error) (run.Schedule, error) {
	if _, err := s.store.GetSchedule(ctx, name); err != nil {
		return run.Schedule{}, err
	}
	if err := s.call(ctx, func(ctx context.Context) error { return do(ctx, s.handle(ctx, name)) }); err != nil {
		return run.Schedule{}, err
	}
	return s.Schedule(ctx, name)
}

// call calls Temporal, and maps each of its errors to a code.
func (s *Scheduler) call(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errors.New("temporal did not answer in time"))
	defer cancel()
	err := do(ctx)
	if err == nil {
		return nil
	}
	if notFound := (*serviceerror.NotFound)(nil); errors.As(err, &notFound) {
		return &run.Error{Code: run.CodeNotFound, Message: missingInTemporal, Err: err}
	}
	if wrong := (*serviceerror.InvalidArgument)(nil); errors.As(err, &wrong) {
		return timesError(wrong)
	}
	return &run.Error{Code: run.CodeUnavailable, Message: "Temporal is unavailable", Err: err}
}
