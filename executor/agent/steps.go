package agent

import (
	"slices"

	"github.com/drover-run/drover/run"
)

// stepFold is the state of a task's steps after the frames added.
type stepFold struct {
	steps   []run.StepResult
	request *pendingRequest // the pending request of a step; never changed, but replaced
	seen    int64           // the last frame added
	dirty   bool            // changed since the last call of changed
}

// foldFrom continues from a journal entry.
func foldFrom(e *entry) stepFold { return stepFold{steps: slices.Clone(e.Steps), request: e.Request} }

// add applies one frame. Frames that were added before have no effect.
func (s *stepFold) add(f run.Frame) {
	if f.N <= s.seen {
		return
	}
	s.seen = f.N
	if f.Step < 0 || f.Step >= run.MaxSteps {
		return
	}
	switch f.Kind {
	case run.FrameStepStart:
		*s.at(f.Step) = run.StepResult{Status: run.StatusRunning, Started: f.Time}
	case run.FrameStepEnd:
		step := s.at(f.Step)
		step.Status, step.ExitCode, step.TimedOut, step.Ended = f.Status, f.ExitCode, f.TimedOut, f.Time
		s.request = nil
	case run.FrameArchiveRequest:
		s.request, s.dirty = &pendingRequest{Frame: f.N, Step: f.Step}, true
	case run.FrameOutput, run.FrameOutputs, run.FrameTaskEnd:
	}
}

func (s *stepFold) at(i int) *run.StepResult {
	s.dirty = true
	for len(s.steps) <= i {
		s.steps = append(s.steps, run.StepResult{Status: run.StatusNotStarted})
	}
	return &s.steps[i]
}

// results returns a copy.
func (s *stepFold) results() []run.StepResult { return slices.Clone(s.steps) }

// changed returns a copy if anything changed since the last call, else nil.
func (s *stepFold) changed() []run.StepResult {
	if !s.dirty {
		return nil
	}
	s.dirty = false
	return s.results()
}

// final returns n steps in their final state: the running one has the status given,
// those that never began are skipped.
func (s *stepFold) final(n int, running run.Status) []run.StepResult {
	all := s.results()
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
