package agent

import (
	"sync"

	"github.com/drover-run/drover/executor/agent/frames"
	"github.com/drover-run/drover/run"
)

// seenFrames is the state of a task's steps after all frames that were read. It is safe
// for concurrent use.
type seenFrames struct {
	mu      sync.Mutex
	steps   frames.Fold
	changed chan struct{} // closed, and replaced, when the pending request changed
}

func newSeenFrames() *seenFrames { return &seenFrames{changed: make(chan struct{})} }

// reset replaces the state.
func (s *seenFrames) reset(steps frames.Fold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = steps
}

// add adds a frame that was read.
func (s *seenFrames) add(f run.Frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.steps.Request
	s.steps.Add(f)
	if s.steps.Request != before {
		close(s.changed)
		s.changed = make(chan struct{})
	}
}

// last returns the number of the last frame.
func (s *seenFrames) last() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.steps.Seen
}

// request returns the pending request, nil for none, and a channel that is closed once
// the request changes.
func (s *seenFrames) request() (*frames.Request, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.steps.Request, s.changed
}

// final returns n steps in their final state: see frames.Fold.
func (s *seenFrames) final(n int, running run.Status) []run.StepResult {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.steps.Final(n, running)
}
