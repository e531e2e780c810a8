package engine

import (
	"context"
	"errors"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// defaultCatchup is how late a firing may be after an outage if the schedule
// does not set it: Temporal's own default.
const defaultCatchup = 365 * 24 * time.Hour

func (s *Scheduler) handle(ctx context.Context, name string) client.ScheduleHandle {
	return s.temporal.ScheduleClient().GetHandle(ctx, contract.ScheduleID(name))
}

// putTemporal creates or updates the schedule in Temporal.
func (s *Scheduler) putTemporal(ctx context.Context, x run.ScheduleSpec) error {
	err := s.change(ctx, x)
	if run.CodeOf(err) != run.CodeNotFound {
		return locateFault(err, x)
	}
	made := true
	err = s.call(ctx, func(ctx context.Context) error {
		_, err := s.temporal.ScheduleClient().Create(ctx, client.ScheduleOptions{
			ID: contract.ScheduleID(x.Name), Spec: times(x), Action: action(x), Overlap: overlapPolicy(x.Overlap),
			CatchupWindow: catchup(x), PauseOnFailure: x.PauseOnFailure, Note: x.Note, Paused: x.Paused != nil && *x.Paused,
		})
		if errors.Is(err, temporal.ErrScheduleAlreadyRunning) {
			made = false
			return nil
		}
		return err
	})
	if err == nil && !made { // another client has just created it
		return s.change(ctx, x)
	}
	return locateFault(err, x)
}

// locateFault sets the path of the invalid expression if there is only one.
func locateFault(err error, x run.ScheduleSpec) error {
	if refused, ok := errors.AsType[*run.Error](err); ok && len(x.Cron) == 1 {
		for i, f := range refused.Faults {
			if f.Path == "cron" {
				refused.Faults[i].Path = "cron[0]"
			}
		}
	}
	return err
}

// change updates an existing schedule. Errors: not_found.
func (s *Scheduler) change(ctx context.Context, x run.ScheduleSpec) error {
	return s.call(ctx, func(ctx context.Context) error {
		return s.handle(ctx, x.Name).Update(ctx, client.ScheduleUpdateOptions{
			DoUpdate: func(in client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
				state := client.ScheduleState{}
				if was := in.Description.Schedule.State; was != nil {
					state.Note, state.Paused = was.Note, was.Paused
				}
				if x.Paused != nil {
					state.Paused = *x.Paused
				}
				if x.Note != "" {
					state.Note = x.Note
				}
				spec := times(x)
				return &client.ScheduleUpdate{Schedule: &client.Schedule{
					Action: action(x), Spec: &spec, State: &state,
					Policy: &client.SchedulePolicies{
						Overlap: overlapPolicy(x.Overlap), CatchupWindow: catchup(x), PauseOnFailure: x.PauseOnFailure,
					},
				}}, nil
			},
		})
	})
}

func times(x run.ScheduleSpec) client.ScheduleSpec {
	spec := client.ScheduleSpec{
		CronExpressions: x.Cron, Jitter: x.Jitter.Std(), StartAt: x.StartAt, EndAt: x.EndAt, TimeZoneName: x.Timezone,
	}
	for _, v := range x.Intervals {
		spec.Intervals = append(spec.Intervals, client.ScheduleIntervalSpec{Every: v.Every.Std(), Offset: v.Offset.Std()})
	}
	return spec
}

// action returns what a firing starts. It holds nothing of the specification.
func action(x run.ScheduleSpec) *client.ScheduleWorkflowAction {
	return &client.ScheduleWorkflowAction{
		ID:            contract.ScheduledRunWorkflowID(x.Name),
		Workflow:      contract.ScheduledRunWorkflow,
		Args:          []any{contract.ScheduledRunInput{Schedule: x.Name}},
		TaskQueue:     contract.ControlQueue,
		StaticSummary: "a run of schedule " + x.Name,
	}
}

func catchup(x run.ScheduleSpec) time.Duration {
	if x.CatchupWindow == 0 {
		return defaultCatchup
	}
	return x.CatchupWindow.Std()
}

func overlapPolicy(o run.Overlap) enumspb.ScheduleOverlapPolicy {
	switch o {
	case run.OverlapSkip:
		return enumspb.SCHEDULE_OVERLAP_POLICY_SKIP
	case run.OverlapBufferOne:
		return enumspb.SCHEDULE_OVERLAP_POLICY_BUFFER_ONE
	case run.OverlapBufferAll:
		return enumspb.SCHEDULE_OVERLAP_POLICY_BUFFER_ALL
	case run.OverlapCancelOther:
		return enumspb.SCHEDULE_OVERLAP_POLICY_CANCEL_OTHER
	case run.OverlapTerminateOther:
		return enumspb.SCHEDULE_OVERLAP_POLICY_TERMINATE_OTHER
	case run.OverlapAllowAll:
		return enumspb.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL
	}
	return enumspb.SCHEDULE_OVERLAP_POLICY_UNSPECIFIED // the schedule's own, or its default
}

// timesError converts Temporal's rejection of a schedule, which always concerns
// its times.
func timesError(wrong *serviceerror.InvalidArgument) error {
	detail := strings.TrimPrefix(wrong.Error(), "Invalid schedule spec: ")
	path := ""
	switch lower := strings.ToLower(detail); {
	case strings.Contains(lower, "cron"):
		path = "cron"
	case strings.Contains(lower, "time zone"), strings.Contains(lower, "timezone"):
		path = "timezone"
	case strings.Contains(lower, "interval"):
		path = "intervals"
	}
	return &run.Error{
		Code: run.CodeInvalid, Message: "the schedule is not valid: " + detail, Err: wrong,
		Faults: []run.Fault{{Path: path, Code: run.FaultBadFormat, Detail: detail}},
	}
}
