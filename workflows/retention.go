package workflows

import (
	"cmp"
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

// changeArchives is the change that lets the workflow remove archives, and
// removes events by an activity with a rate limit. Executions that began
// without it continue without it until a configuration with archives arrives.
const changeArchives = "retention-archives"

// Retention is the retention workflow: it removes data that the configuration
// no longer keeps, sleeps, and checks again. It ends if the configuration keeps
// everything.
func Retention(ctx workflow.Context, in contract.RetentionInput) error {
	s := &retentionRunner{in: in, maxEvents: retentionEvents}
	if in.Limits != nil && in.Limits.Events > 0 {
		s.maxEvents = in.Limits.Events
	}
	s.archives = workflow.GetVersion(ctx, changeArchives, workflow.DefaultVersion, 1) != workflow.DefaultVersion
	s.policy = in.Retention
	if !s.archives {
		s.policy = withoutArchives(in.Retention)
	}
	s.status = run.RetentionStatus{Retention: s.policy, Since: in.Since, Removed: maps.Clone(in.Removed)}
	if s.status.Since.IsZero() {
		s.status.Since = workflow.GetInfo(ctx).WorkflowStartTime
	}
	if s.status.Removed == nil {
		s.status.Removed = map[run.RetentionKind]run.RetentionSum{}
	}
	s.signals = signals{
		on(ctx, contract.SignalRetention, s.configure),
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
	policy    run.Retention           // the part of the configuration that this execution applies
	archives  bool                    // see changeArchives
	updates   int                     // configurations with archives received by an execution that began without them
	maxEvents int                     // maximum length of the history
	signals   signals
	forced    bool
	status    run.RetentionStatus
}

// withoutArchives returns the part of a configuration that a version before
// changeArchives supports.
func withoutArchives(r run.Retention) run.Retention {
	r.Archives, r.PerSecond = run.ArchiveRetention{}, 0
	return r
}

// configure sets the configuration from a signal. During an upgrade, a worker
// of the previous version may have received the same signal without
// understanding all of it; so each signal has a version of its own.
func (s *retentionRunner) configure(ctx workflow.Context, r run.Retention) {
	s.in.Retention, s.policy = r, r
	if !s.archives && r != withoutArchives(r) {
		s.updates++
		change := fmt.Sprintf("%s-%d", changeArchives, s.updates)
		if workflow.GetVersion(ctx, change, workflow.DefaultVersion, 1) == workflow.DefaultVersion {
			s.policy = withoutArchives(r)
		}
	}
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
	case s.policy.Off():
		return errEverythingKept
	case s.policy != s.status.Retention || s.forced || info.GetContinueAsNewSuggested() || info.GetCurrentHistoryLength() > s.maxEvents:
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

// rate returns the limit of removals per second, 0 for none.
func (s *retentionRunner) rate() int {
	return cmp.Or(s.status.Retention.PerSecond, s.status.Retention.Logs.PerSecond)
}

func (s *retentionRunner) expireLogs(ctx workflow.Context) error {
	keep := s.status.Retention.Logs
	if keep.MaxAge == 0 {
		return nil
	}
	keep.PerSecond = s.rate()
	return s.removeAll(ctx, run.RetentionLogs, func() (int, int64, bool, error) {
		out, err := expireLogs(ctx, keep)
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
			out, err := expireArchives(ctx, contract.ExpireArchivesInput{Kind: kind, Keep: keep, PerSecond: s.rate()})
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
		out, err := deleteRuns(ctx, contract.DeleteRunsInput{Keep: keep, PerSecond: s.rate()})
		return out.Deleted, 0, out.More, err
	})
}

func (s *retentionRunner) removeEvents(ctx workflow.Context) error {
	keep := s.status.Retention.Events
	if keep == (run.EventRetention{}) {
		return nil
	}
	in := contract.RemoveEventsInput{MaxAge: keep.MaxAge, Newest: keep.Keep, PerSecond: s.rate()}
	return s.removeAll(ctx, run.RetentionEvents, func() (int, int64, bool, error) {
		remove := removeEvents
		if !s.archives {
			remove = removeEventsLocally
		}
		out, err := remove(ctx, in)
		return out.Removed, 0, out.More, err
	})
}

// sleep waits until the next round. A signal with the same configuration has no
// effect.
func (s *retentionRunner) sleep(ctx workflow.Context) error {
	s.status.Removing, s.status.Next = "", workflow.Now(ctx).Add(s.status.Retention.Interval.Std())
	workflow.SetCurrentDetails(ctx, s.details())
	timer := workflow.NewTimerWithOptions(ctx, s.status.Retention.Interval.Std(), workflow.TimerOptions{Summary: "until the next round"})
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
