package agent

import (
	"time"

	"github.com/drover-run/drover/executor/agent/frames"
	"github.com/drover-run/drover/run"
)

// record is one line of a journal entry: a change of the state of its key. Fields
// that are not set have not changed.
type record struct {
	Version int       `json:"v,omitempty"` // in the first line
	Time    time.Time `json:"t"`
	State   state     `json:"state,omitempty"` // of progress, as states.go says
	Token   []byte    `json:"token,omitempty"`
	// Reserves is what the task reserves of the resources of the executor.
	Reserves run.Resources `json:"reserves,omitzero"`
	// Granted is when the claim was granted: the time of the record of stateStarting. A
	// line that replaces others keeps it.
	Granted    time.Time     `json:"granted,omitzero"`
	Setup      []run.Frame   `json:"setup,omitempty"` // further frames of the setup
	FirstFrame int64         `json:"first,omitempty"` // of the shim
	Grace      time.Duration `json:"grace,omitempty"`
	StepCount  int           `json:"step_count,omitempty"`
	// Flight is the batch that is being sent. All frames before it are stored, and
	// Steps is the state of the steps after those.
	Flight *frames.Bounds   `json:"flight,omitempty"`
	Steps  []run.StepResult `json:"steps,omitempty"`
	// Request is the step that waited for the executor at that time; it is valid with
	// Steps.
	Request *frames.Request `json:"ask,omitempty"`
	Result  *run.TaskResult `json:"result,omitempty"`
	Last    int64           `json:"last,omitempty"` // number of the last frame, if Result is known
	// Tail holds the frames up to Last that the executor created itself, since no
	// environment reported the end.
	Tail []run.Frame `json:"tail,omitempty"`
	// Notes is the Data of the environment's last frame: only the driver that started the
	// environment may know it.
	Notes []byte `json:"notes,omitempty"`
	// Answered: the outcome was accepted.
	Answered bool   `json:"answered,omitempty"`
	Reason   string `json:"reason,omitempty"` // of stateClosed
}

// recordVersion is the version of the journal's format.
const recordVersion = 1

// entry is the state that all lines of a journal entry give together.
type entry struct {
	record

	// Damaged: the entry could not be read completely. The steps may have run,
	// regardless of the recorded state.
	Damaged bool
}

// apply adds a record.
func (e *entry) apply(r record) {
	e.Time = r.Time
	if r.State != "" {
		e.State = r.State
	}
	if !r.Granted.IsZero() {
		e.Granted = r.Granted
	} else if r.State == stateStarting {
		e.Granted = r.Time
	}
	if r.Token != nil {
		e.Token, e.Answered = r.Token, false
	}
	if r.Reserves != (run.Resources{}) {
		e.Reserves = r.Reserves
	}
	e.Setup = append(e.Setup, r.Setup...)
	if r.FirstFrame != 0 {
		e.FirstFrame, e.Grace, e.StepCount = r.FirstFrame, r.Grace, r.StepCount
	}
	if r.Flight != nil {
		e.Flight = r.Flight
	}
	if r.Steps != nil {
		e.Steps, e.Request = r.Steps, r.Request
	}
	if r.Result != nil {
		e.Result, e.Last, e.Tail, e.Notes = r.Result, r.Last, r.Tail, r.Notes
	}
	if r.Answered {
		e.Answered = true
	}
	if r.Reason != "" {
		e.Reason = r.Reason
	}
}

// firstUnsent returns the number of the first frame that is not known to be stored.
func (e *entry) firstUnsent() int64 {
	if e.Flight == nil {
		return 1
	}
	return e.Flight.First
}

// begun reports whether a frame of the shim was seen, so that the shim needs no
// definition any more.
func (e *entry) begun() bool {
	return e.State == stateEnded || e.Flight != nil && e.Flight.Last >= e.FirstFrame && e.FirstFrame > 0
}

// fold returns the state of the steps that the entry has.
func (e *entry) fold() frames.Fold { return frames.NewFold(e.Steps, e.Request) }

// position returns where an earlier process stopped sending frames.
func (e *entry) position() frames.Position {
	return frames.Position{
		Next:   e.firstUnsent(),
		Fold:   e.fold(),
		Flight: e.Flight,
		Ended:  e.State == stateEnded,
		Last:   e.Last,
		Setup:  e.Setup,
	}
}
