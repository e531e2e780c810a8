package gateway

import (
	"context"
	"sync"
)

// streams are the answers that go on for as long as their clients listen. They
// are ended first at a shutdown, which would else wait for them.
type streams struct {
	mu      sync.Mutex
	ended   bool
	last    int
	cancels map[int]context.CancelCauseFunc
}

func newStreams() *streams { return &streams{cancels: make(map[int]context.CancelCauseFunc)} }

// open returns a context for a stream, which ends with its parent and with
// endAll. close must be called.
func (s *streams) open(parent context.Context) (ctx context.Context, closeStream func()) {
	ctx, cancel := context.WithCancelCause(parent)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		cancel(errShutdown())
		return ctx, func() {}
	}
	s.last++
	id := s.last
	s.cancels[id] = cancel
	return ctx, func() {
		cancel(nil)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.cancels, id)
	}
}

// endAll ends all streams, also those that are opened later.
func (s *streams) endAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for _, cancel := range s.cancels {
		cancel(errShutdown())
	}
}
