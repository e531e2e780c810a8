package workflows

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// retentionEvents is the history length after which the workflow continues as
// new: a few dozen rounds.
const retentionEvents = 1_000

// Retention is the retention workflow: it removes data that the configuration
// no longer keeps, sleeps, and checks again. It ends if the configuration keeps
// everything.
func Retention(ctx workflow.Context, in contract.RetentionInput) error {
	s := &retentionRunner{in: in, maxEvents: retentionEvents}
	if in.Limits != nil && in.Limits.HistoryEvents > 0 {
		s.maxEvents = in.Limits.HistoryEvents
	}
	s.status = run.RetentionStatus{Retention: in.Retention, Since: in.Since, Removed: maps.Clone(in.Removed)}
	if s.status.Since.IsZero() {
		s.status.Since = workflow.GetInfo(ctx).WorkflowStartTime
	}
	if s.status.Removed == nil {
		s.status.Removed = map[run.RetentionKind]run.RetentionSum{}
	}
	s.signals = signals{
		on(ctx, contract.SignalRetention, func(_ workflow.Context, r run.Retention) { s.in.Retention = r }),
		onBare(ctx, contract.SignalForceContinue, func(workflow.Context) { s.forced = true }),
	}
	err := workflow.SetQueryHandlerWithOptions(ctx, contract.QueryState, func() (run.RetentionStatus, error) { return s.status, nil },
		workflow.QueryHandlerOptions{Description: "The retention settings, and the data that was removed."})
	if err != nil {
		return err
	}
	switch err := s.run(ctx); {
	case errors.Is(err, errEverythingKept):
		return nil
	case errors.Is(err, errFull):
		s.in.Since, s.in.Removed = s.status.Since, s.status.Removed
		return workflow.NewContinueAsNewError(ctx, contract.RetentionWorkflow, s.in)
	default:
		return err
	}
}

// errEverythingKept ends the workflow: the configuration removes nothing.
var errEverythingKept = errors.New("everything is kept")

// retentionRunner is one execution of the retention workflow.
type retentionRunner struct {
	in        contract.RetentionInput // for the next execution, with the newest configuration
	maxEvents int                     // maximum length of the history
	signals   signals
	forced    bool
	status    run.RetentionStatus
}

func (s *retentionRunner) run(ctx workflow.Context) error {
	for {
		if err := s.drainSignals(ctx); err != nil {
			return err
		}
		for _, do := range []func(workflow.Context) error{s.expireLogs, s.expireArchives, s.deleteRuns, s.removeEvents, s.sleep} {
			if err := do(ctx); err != nil {
				return err
			}
		}
	}
}

// drainSignals handles the signals, and returns an error if this execution must end.
// The next one begins with a round.
func (s *retentionRunner) drainSignals(ctx workflow.Context) error {
	s.signals.drain(ctx)
	info := workflow.GetInfo(ctx)
	switch {
	case s.in.Retention.Off():
		return errEverythingKept
	case s.in.Retention != s.status.Retention || s.forced || info.GetContinueAsNewSuggested() || info.GetCurrentHistoryLength() > s.maxEvents:
		return errFull
	}
	return nil
}

// removeAll removes data of a kind until none is left.
func (s *retentionRunner) removeAll(ctx workflow.Context, kind run.RetentionKind, some func() (n int, bytes int64, more bool, err error)) error {
	for more := true; more; {
		if err := s.drainSignals(ctx); err != nil {
			return err
		}
		s.status.Removing = kind
		n, bytes, left, err := some()
		if err != nil {
			return err
		}
		sum := s.status.Removed[kind]
		s.status.Removed[kind] = run.RetentionSum{Count: sum.Count + int64(n), Bytes: sum.Bytes + bytes}
		more = left
	}
	return nil
}

func (s *retentionRunner) expireLogs(ctx workflow.Context) error {
	keep := s.status.Retention.Logs
	if keep.MaxAge == 0 {
		return nil
	}
	return s.removeAll(ctx, run.RetentionLogs, func() (int, int64, bool, error) {
		out, err := expireLogs(ctx, contract.ExpireLogsInput{Keep: keep, PerSecond: s.status.Retention.PerSecond})
		return out.Runs, out.Bytes, out.More, err
	})
}

// expireArchives runs before deleteRuns, so that archives that expired
// themselves are counted as archives and not as part of their run.
func (s *retentionRunner) expireArchives(ctx workflow.Context) error {
	keep := s.status.Retention.Archives
	if !keep.On {
		return nil
	}
	for _, kind := range []run.ArchiveKind{run.ArchiveWorkspace, run.ArchiveArtifact, run.ArchiveCache} {
		if kind == run.ArchiveWorkspace && keep.Workspaces == 0 || kind == run.ArchiveCache && keep.CacheUnused == 0 && keep.CacheBytes == 0 {
			continue
		}
		err := s.removeAll(ctx, kind.Retention(), func() (int, int64, bool, error) {
			out, err := expireArchives(ctx, contract.ExpireArchivesInput{Kind: kind, Keep: keep, PerSecond: s.status.Retention.PerSecond})
			return out.Archives, out.Bytes, out.More, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *retentionRunner) deleteRuns(ctx workflow.Context) error {
	keep := s.status.Retention.Runs
	if keep == (run.RunsRetention{}) {
		return nil
	}
	return s.removeAll(ctx, run.RetentionRuns, func() (int, int64, bool, error) {
		out, err := deleteRuns(ctx, contract.DeleteRunsInput{Keep: keep, PerSecond: s.status.Retention.PerSecond})
		return out.Deleted, 0, out.More, err
	})
}

func (s *retentionRunner) removeEvents(ctx workflow.Context) error {
	keep := s.status.Retention.Events
	if keep == (run.EventRetention{}) {
		return nil
	}
	in := contract.RemoveEventsInput{MaxAge: keep.MaxAge, Newest: keep.Keep, PerSecond: s.status.Retention.PerSecond}
	return s.removeAll(ctx, run.RetentionEvents, func() (int, int64, bool, error) {
		out, err := removeEvents(ctx, in)
		return out.Removed, 0, out.More, err
	})
}

// sleep waits until the next round. A signal with the same configuration has no
// effect.
func (s *retentionRunner) sleep(ctx workflow.Context) error {
	s.status.Removing, s.status.Next = "", workflow.Now(ctx).Add(s.status.Retention.Interval.Std())
	workflow.SetCurrentDetails(ctx, s.details())
	timer := workflow.NewTimerWithOptions(ctx, s.status.Retention.Interval.Std(), workflow.TimerOptions{Summary: "next round"})
	for !timer.IsReady() {
		if err := workflow.Await(ctx, func() bool { return timer.IsReady() || s.signals.waiting() }); err != nil {
			return err
		}
		if err := s.drainSignals(ctx); err != nil {
			return err
		}
	}
	return nil
}

// details describes the state for Temporal's web UI.
func (s *retentionRunner) details() string {
	var texts []string
	for _, kind := range run.RetentionKinds() {
		text := fmt.Sprintf("%d %s", s.status.Removed[kind].Count, kind)
		if kind == run.RetentionLogs {
			text = fmt.Sprintf("the logs of %d runs", s.status.Removed[kind].Count)
		}
		texts = append(texts, text)
	}
	return fmt.Sprintf("Removed %s since %s. Next round at %s.", strings.Join(texts, ", "), formatTime(s.status.Since), formatTime(s.status.Next))
}
