package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

const (
	// orphanAge is how long a firing waits for the row of its schedule: a put
	// writes to Temporal first, and to the records after that.
	orphanAge = time.Minute
	// staleFirings bounds how many open firings are checked before the next
	// one: with the policies that end others there are one or a few.
	staleFirings = 10
)

// firingSubject returns the subject under which a schedule creates runs.
func firingSubject(schedule string) string { return "schedule:" + schedule }

// Fire creates the run of a firing. Another call with the same key returns the
// existing run.
func (s *Scheduler) Fire(ctx context.Context, in contract.FireInput) (contract.FireResult, error) {
	row, err := s.store.GetSchedule(ctx, in.Schedule)
	if run.CodeOf(err) == run.CodeNotFound {
		return contract.FireResult{}, s.handleOrphan(ctx, in)
	}
	if err != nil {
		return contract.FireResult{}, err
	}
	if err := s.endStale(ctx, in); err != nil {
		return contract.FireResult{}, err
	}
	firing := records.Firing{Key: in.Key, Firing: run.Firing{For: in.ScheduledFor, At: in.Started}}
	ctx = run.WithActor(ctx, firingSubject(in.Schedule))
	r, err := s.engine.create(ctx, run.CreateRequest{Spec: row.ScheduledSpec(in.ScheduledFor), Subject: firingSubject(in.Schedule)}, row.SecretsBy, records.IdempotencyKey{
		// The digest does not depend on the specification, since the key
		// belongs to one firing.
		Subject: firingSubject(in.Schedule), Key: in.Key, Digest: "firing",
	})
	switch {
	case err == nil:
		firing.Run = r.ID
	case isAnswer(err):
		firing.Error = refusal(err)
	default:
		return contract.FireResult{}, err
	}
	if err := s.store.PutFiring(ctx, in.Schedule, firing); err != nil {
		return contract.FireResult{}, err
	}
	return contract.FireResult{Run: firing.Run, Refused: firing.Error}, nil
}

// isAnswer reports whether an error is an answer, which a retry would repeat.
func isAnswer(err error) bool {
	switch run.CodeOf(err) { //nolint:exhaustive // the others may pass
	case run.CodeInvalid, run.CodeNotSupported, run.CodeTooLarge, run.CodeConflict, run.CodeChangeGroupBusy, run.CodeExhausted, run.CodeForbidden:
		return true
	}
	return false
}

// refusal returns why no run was created.
func refusal(err error) string {
	text := err.Error()
	var refused *run.Error
	if errors.As(err, &refused) && len(refused.Faults) > 0 {
		f := refused.Faults[0]
		text += fmt.Sprintf(": %s: %s", f.Path, f.Detail)
	}
	return text
}

// handleOrphan handles a firing of a schedule that the records do not have. It
// fails while the schedule may still be in creation.
func (s *Scheduler) handleOrphan(ctx context.Context, in contract.FireInput) error {
	if time.Since(in.Started) < orphanAge {
		return run.Errorf(run.CodeUnavailable, "schedule %s is not stored yet", in.Schedule)
	}
	s.logger.WarnContext(ctx, "deleting orphaned schedule in temporal", "schedule", in.Schedule)
	err := s.call(ctx, func(ctx context.Context) error { return s.handle(ctx, in.Schedule).Delete(ctx) })
	if run.CodeOf(err) == run.CodeNotFound {
		return nil
	}
	return err
}

// endStale ends the runs of firings whose workflows were terminated, by the
// policy terminate_other or manually.
func (s *Scheduler) endStale(ctx context.Context, in contract.FireInput) error {
	open, err := s.store.OpenFirings(ctx, in.Schedule)
	if err != nil {
		return err
	}
	for _, f := range open[max(0, len(open)-staleFirings):] {
		if f.Key == in.Key {
			continue
		}
		terminated, err := s.terminated(ctx, f.Key)
		if err != nil {
			return err
		}
		if terminated {
			if err := s.EndRun(run.WithActor(ctx, firingSubject(in.Schedule)), f.Run); err != nil {
				return err
			}
		}
	}
	return nil
}

// terminated reports whether the workflow of a firing was terminated. Workflow
// IDs of firings differ by the second only, so the first run ID identifies the
// firing.
func (s *Scheduler) terminated(ctx context.Context, key string) (bool, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errors.New("temporal did not answer in time"))
	defer cancel()
	workflowID, first := contract.SplitFiringKey(key)
	execution := "" // the newest; the workflow may have been reset
	for {
		d, err := s.temporal.DescribeWorkflowExecution(ctx, workflowID, execution)
		if gone := (*serviceerror.NotFound)(nil); errors.As(err, &gone) {
			return false, nil
		}
		if err != nil {
			return false, &run.Error{Code: run.CodeUnavailable, Message: "Temporal is unavailable", Err: err}
		}
		info := d.GetWorkflowExecutionInfo()
		if info.GetFirstRunId() == first || execution != "" {
			return info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, nil
		}
		execution = first
	}
}

// EndRun cancels a queued run and stops a running one. A run that has ended, or does
// not exist, is no error.
func (s *Scheduler) EndRun(ctx context.Context, id run.ID) error {
	_, err := s.store.EndRun(ctx, id, nil, false)
	if code := run.CodeOf(err); code == run.CodeNotFound || code == run.CodeWrongPhase {
		return nil
	}
	return err
}
