package frames

import (
	"slices"

	"github.com/drover-run/drover/run"
)

// Fold is the state of a task's steps after the frames added.
type Fold struct {
	steps   []run.StepResult
	Request *Request // the pending request of a step; never changed, but replaced
	Seen    int64    // the last frame added
	dirty   bool     // changed since the last call of changed
}

// NewFold continues from the state that a journal has.
func NewFold(steps []run.StepResult, request *Request) Fold {
	return Fold{steps: slices.Clone(steps), Request: request}
}

// Add applies one frame. Frames that were added before have no effect.
func (s *Fold) Add(f run.Frame) {
	if f.N <= s.Seen {
		return
	}
	s.Seen = f.N
	if f.Step < 0 || f.Step >= run.MaxSteps {
		return
	}
	switch f.Kind {
	case run.FrameStepStart:
		*s.at(f.Step) = run.StepResult{Status: run.StatusRunning, Stage: f.Stage, Started: f.Time}
	case run.FrameStepEnd:
		step := s.at(f.Step)
		step.Status, step.ExitCode, step.TimedOut, step.Ended = f.Status, f.ExitCode, f.TimedOut, f.Time
		s.Request = nil
	case run.FrameArchiveRequest:
		s.Request, s.dirty = &Request{Frame: f.N, Step: f.Step}, true
	case run.FrameOutput, run.FrameOutputs, run.FrameTaskEnd:
	}
}

func (s *Fold) at(i int) *run.StepResult {
	s.dirty = true
	for len(s.steps) <= i {
		s.steps = append(s.steps, run.StepResult{Status: run.StatusNotStarted})
	}
	return &s.steps[i]
}

// Results returns a copy.
func (s *Fold) Results() []run.StepResult { return slices.Clone(s.steps) }

// changed returns a copy if anything changed since the last call, else nil.
func (s *Fold) changed() []run.StepResult {
	if !s.dirty {
		return nil
	}
	s.dirty = false
	return s.Results()
}

// Final returns n steps in their final state: the running one has the status given,
// those that never began are skipped.
func (s *Fold) Final(n int, running run.Status) []run.StepResult {
	all := s.Results()
	for len(all) < n {
		all = append(all, run.StepResult{Status: run.StatusNotStarted})
	}
	for i := range all {
		switch all[i].Status {
		case run.StatusNotStarted:
			all[i].Status = run.StatusSkipped
		case run.StatusRunning:
			all[i].Status = running
		default:
		}
	}
	return all
}

// Request is a pending request of a step that waits for the executor.
type Request struct {
	Frame int64 `json:"n"` // frame that holds the request
	Step  int   `json:"s"`
}

// Bounds are the first and last number of a batch of frames.
type Bounds struct {
	First int64 `json:"a"`
	Last  int64 `json:"b"`
	End   bool  `json:"end,omitempty"` // the last frame is a task_end
}
