package run

import (
	"slices"
	"time"
)

// Phase is a phase in the life cycle of a run.
type Phase string

// The phases, in the order in which a run goes through them.
const (
	PhaseSetupError Phase = "setup_error" // its client recorded that it cannot be set up; final
	PhaseQueued     Phase = "queued"
	PhaseRunning    Phase = "running"
	PhaseFinished   Phase = "finished"  // final: none of its tasks executes
	PhaseCancelled  Phase = "cancelled" // final: it never started
)

// Phases lists every phase.
func Phases() []Phase {
	return []Phase{PhaseSetupError, PhaseQueued, PhaseRunning, PhaseFinished, PhaseCancelled}
}

// Final reports whether the phase never changes again.
func (p Phase) Final() bool { return p != PhaseQueued && p != PhaseRunning }

// Valid reports whether p is one of Phases.
func (p Phase) Valid() bool { return slices.Contains(Phases(), p) }

// Result is the outcome of a run.
type Result string

// The results.
const (
	ResultUnknown Result = "unknown"
	ResultSuccess Result = "success"
	ResultFailed  Result = "failed" // set at the first failure that is not allowed, while other branches continue
	ResultStopped Result = "stopped"
)

// Results lists every result.
func Results() []Result {
	return []Result{ResultUnknown, ResultSuccess, ResultFailed, ResultStopped}
}

// Valid reports whether r is one of Results.
func (r Result) Valid() bool { return slices.Contains(Results(), r) }

// Status is the state of a task or a step.
type Status string

// The statuses. Steps know not_started, running, success, failed, skipped and
// stopped only.
const (
	StatusNotStarted      Status = "not_started"
	StatusWaitingApproval Status = "waiting_approval"
	StatusQueued          Status = "queued" // ready, and not claimed yet
	StatusRunning         Status = "running"
	StatusSuccess         Status = "success"
	StatusFailed          Status = "failed"
	StatusSkipped         Status = "skipped"
	StatusCancelled       Status = "cancelled" // its run was cancelled before it began
	StatusStopped         Status = "stopped"
	// StatusWaitingChangeGroup is the status of a task that waits for slots of its change
	// groups: after its approvals, and before it is queued.
	StatusWaitingChangeGroup Status = "waiting_changegroup"
)

// Statuses lists every status. The index of a status in this list is its Byte,
// which stored workflow histories hold: append only.
func Statuses() []Status {
	return []Status{
		StatusNotStarted, StatusWaitingApproval, StatusQueued, StatusRunning, StatusSuccess,
		StatusFailed, StatusSkipped, StatusCancelled, StatusStopped, StatusWaitingChangeGroup,
	}
}

// Byte returns the status as one byte: its index in Statuses.
func (s Status) Byte() byte { return byte(max(0, slices.Index(Statuses(), s))) }

// StatusOf is the inverse of Byte. It returns StatusNotStarted for an unknown
// byte.
func StatusOf(b byte) Status {
	if all := Statuses(); int(b) < len(all) {
		return all[b]
	}
	return StatusNotStarted
}

// Final reports whether the status never changes again within an attempt.
func (s Status) Final() bool {
	switch s {
	case StatusSuccess, StatusFailed, StatusSkipped, StatusCancelled, StatusStopped:
		return true
	case StatusNotStarted, StatusWaitingApproval, StatusWaitingChangeGroup, StatusQueued, StatusRunning:
		return false
	}
	return false
}

// Valid reports whether s is one of Statuses.
func (s Status) Valid() bool { return slices.Contains(Statuses(), s) }

// Stage is a part of the work on a claimed task. The status of the task is running in
// all of them.
type Stage string

// The stages. A task may be in the same stage several times.
const (
	StagePrepare  Stage = "prepare"  // image pull, start of the environment, and steps that restore an archive
	StageStep     Stage = "step"     // a step with a script
	StageTransfer Stage = "transfer" // a step that saves a workspace, a cache or artifacts
	StageCleanup  Stage = "cleanup"  // what runs after the task failed, was stopped or timed out, and its last processes
)

// Stages lists every stage.
func Stages() []Stage { return []Stage{StagePrepare, StageStep, StageTransfer, StageCleanup} }

// MaxStageEvents bounds the events about the stages of one dispatch: a task with
// many steps that alternate has no event for its later ones.
const MaxStageEvents = 8

// ShortCleanup is the time up to which the cleanup after the last step, which ends the
// remaining processes, is not listed among the stages.
const ShortCleanup = time.Second

// StageTimes is a stage of the newest attempt of a task.
type StageTimes struct {
	Stage Stage
	// Step is the index of the step, -1 if the stage is outside of the steps.
	Step    int
	Started time.Time
	Ended   time.Time // zero for the current stage
}

// StageOfType returns the stage of a step by its type, "run" or the key of an
// archive step.
func StageOfType(kind string) Stage {
	switch kind {
	case StepRestoreWorkspace, StepRestoreCache:
		return StagePrepare
	case StepSaveWorkspace, StepSaveCache, StepSaveArtifacts:
		return StageTransfer
	}
	return StageStep
}

// stage returns the stage of a step of a type. An older shim reports none, and a newer
// one may report a stage that this version does not know.
func (s *StepResult) stage(kind string) Stage {
	if slices.Contains(Stages(), s.Stage) {
		return s.Stage
	}
	return StageOfType(kind)
}

// LatestStage returns the stage of the step that began last: prepare if none has.
// Steps begin in their order.
func LatestStage(steps []StepResult) Stage {
	for i := len(steps) - 1; i >= 0; i-- {
		if s := &steps[i]; !s.Started.IsZero() {
			return s.stage("")
		}
	}
	return StagePrepare
}

// StageChanges returns how often the stage has changed since the claim.
func StageChanges(steps []StepResult) (n int) {
	last := StagePrepare
	for i := range steps {
		if s := steps[i].stage(""); !steps[i].Started.IsZero() && s != last {
			last = s
			n++
		}
	}
	return n
}

// StagesOf returns the stages of the newest attempt of a task, from its times and those
// of its steps. The clocks that measured them may differ: no stage ends before it
// began.
func StagesOf(t *Task) []StageTimes {
	if t.StartedAt.IsZero() {
		return nil
	}
	out := make([]StageTimes, 1, len(t.Steps)+2)
	out[0] = StageTimes{Stage: StagePrepare, Step: -1, Started: t.StartedAt}
	last, over := time.Time{}, len(t.Steps) > 0
	for i := range t.Steps {
		s := &t.Steps[i]
		over = over && s.Status.Final()
		if s.Started.IsZero() {
			continue
		}
		if out[0].Ended.IsZero() {
			out[0].Ended = s.Started
		}
		out = append(out, StageTimes{Stage: s.stage(s.Type), Step: i, Started: s.Started, Ended: s.Ended})
		if s.Ended.After(last) {
			last = s.Ended
		}
	}
	if !t.EndedAt.IsZero() && out[len(out)-1].Ended.IsZero() {
		out[len(out)-1].Ended = t.EndedAt
	}
	if over && !last.IsZero() && (t.EndedAt.IsZero() || t.EndedAt.Sub(last) >= ShortCleanup) {
		out = append(out, StageTimes{Stage: StageCleanup, Step: -1, Started: last, Ended: t.EndedAt})
	}
	for i := range out {
		if s := &out[i]; !s.Ended.IsZero() && s.Ended.Before(s.Started) {
			s.Started = s.Ended
		}
	}
	return out
}

// CurrentStage returns the stage that a task is in, "" if it is not running.
func CurrentStage(t *Task) Stage {
	if t.Status != StatusRunning {
		return ""
	}
	stages := StagesOf(t)
	if len(stages) == 0 {
		return ""
	}
	return stages[len(stages)-1].Stage
}

// Progress is the state of a run as its workflow reads it from the records.
type Progress struct {
	Phase         Phase  `json:"phase"`
	Result        Result `json:"result,omitempty"`
	StopRequested bool   `json:"stop_requested,omitempty"`
	Approved      []int  `json:"approved,omitempty"` // the numbers of the tasks with enough approvals
	// Granted are the numbers of the tasks that got the slots of their change groups and
	// have not been queued since, and of those that a call named, as far as they hold theirs.
	Granted []int `json:"granted,omitempty"`
}

// TaskChange sets the state of one task in the records.
type TaskChange struct {
	Task     int    `json:"task"`
	Attempt  int    `json:"attempt,omitempty"`
	Dispatch int    `json:"dispatch,omitempty"`
	Status   Status `json:"status"`
	Reason   string `json:"reason,omitempty"`
	// Result is set if the task ended: its steps, times and exit code.
	Result *TaskResult `json:"result,omitempty"`
	// Executor is the executor of a running task, as far as the workflow knows.
	// It does not replace the executor that claimed the task. If there is no
	// reason, the reason of a running task stays.
	Executor string `json:"executor,omitempty"`
	// IfUnclaimed leaves the change out if an executor has claimed the task,
	// that is if it is running. So the workflow withdraws a queued task without
	// a race: afterwards the task is final, and claims of it are refused. A
	// change that queues another dispatch of the same attempt is left out if
	// the newest dispatch is claimed, unless Released names that claim's
	// journal. So the steps of an attempt start at most once.
	IfUnclaimed bool    `json:"if_unclaimed,omitempty"`
	Released    Release `json:"released,omitzero"`
	// NotAcquired reports, in a change that queues the next dispatch, that no
	// executor took the previous one within TaskStatus.AcquireTimeout. The
	// records fail the task instead if that limit still applies.
	NotAcquired bool `json:"not_acquired,omitempty"`
}

// Release names the journal that vouches that no step of a dispatch ran or will
// run. Without a JournalID, the executor or the set vouches that was queried
// about its claim. The zero value is none.
type Release struct {
	Executor  string `json:"executor,omitempty"`
	Set       string `json:"set,omitempty"`
	JournalID string `json:"journal_id,omitempty"`
}

// TaskStatus is the status of one task in the records.
type TaskStatus struct {
	Task     int    `json:"task"`
	Attempt  int    `json:"attempt,omitempty"`
	Dispatch int    `json:"dispatch,omitempty"`
	Status   Status `json:"status"`
	// AcquireTimeout is how long a queued task may wait for an instance of a
	// fleet; 0 for no limit.
	AcquireTimeout Duration `json:"acquire_timeout,omitempty"`
}
