package run

import "slices"

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
)

// Statuses lists every status. The index of a status in this list is its Byte,
// which stored workflow histories hold: append only.
func Statuses() []Status {
	return []Status{
		StatusNotStarted, StatusWaitingApproval, StatusQueued, StatusRunning, StatusSuccess,
		StatusFailed, StatusSkipped, StatusCancelled, StatusStopped,
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
	case StatusNotStarted, StatusWaitingApproval, StatusQueued, StatusRunning:
		return false
	}
	return false
}

// Valid reports whether s is one of Statuses.
func (s Status) Valid() bool { return slices.Contains(Statuses(), s) }

// Progress is the state of a run as its workflow reads it from the records.
type Progress struct {
	Phase         Phase  `json:"phase"`
	Result        Result `json:"result,omitempty"`
	StopRequested bool   `json:"stop_requested,omitempty"`
	Approved      []int  `json:"approved,omitempty"` // the numbers of the tasks with enough approvals
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
