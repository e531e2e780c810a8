package gateway

import (
	"context"
	"sync"
)

// streams tracks the open streaming responses. A shutdown ends them first,
// because it would else wait for them.
type streams struct {
	mu      sync.Mutex
	ended   bool
	last    int
	cancels map[int]context.CancelCauseFunc
}

func newStreams() *streams { return &streams{cancels: make(map[int]context.CancelCauseFunc)} }

// open returns a context for a stream. The context ends with its parent and with
// endAll. The caller must call closeStream.
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

// endAll ends all streams, including those opened later.
func (s *streams) endAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for _, cancel := range s.cancels {
		cancel(errShutdown())
	}
}
