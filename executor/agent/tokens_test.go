package agent_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/drover-run/drover/executor/agent"
	"github.com/drover-run/drover/run"
)

// delivery is one scheduled activity.
type delivery struct {
	kind    string
	key     run.Key
	journal string

	token   string
	attempt int
	details *agent.HeartbeatDetails
	last    time.Time
	closed  bool
	stop    bool
	// terminated: its workflow was terminated.
	terminated bool
	done       chan struct{}
	out        agent.Outcome
}

// tokenService is a fake of Temporal.
type tokenService struct {
	w *testEnv

	mu      sync.Mutex
	n       int
	byToken map[string]*delivery
	queues  map[string][]*delivery
	changed chan struct{}
	down    bool
}

func newTokenService(w *testEnv) *tokenService {
	return &tokenService{w: w, byToken: map[string]*delivery{}, queues: map[string][]*delivery{}, changed: make(chan struct{})}
}

// schedule schedules an activity and waits for its end: an outcome, or none if the
// activity was lost.
func (s *tokenService) schedule(queue string, d delivery) *delivery {
	s.mu.Lock()
	s.n++
	d.token, d.attempt, d.done = fmt.Sprintf("token-%d", s.n), 1, make(chan struct{})
	s.byToken[d.token] = &d
	s.queues[queue] = append(s.queues[queue], &d)
	s.notify()
	s.mu.Unlock()
	for {
		s.mu.Lock()
		wait := heartbeatTimeout
		if !d.last.IsZero() {
			wait = time.Until(d.last.Add(heartbeatTimeout))
		}
		if wait <= 0 && !s.down {
			d.closed = true
			s.mu.Unlock()
			return &d
		}
		s.mu.Unlock()
		select {
		case <-d.done:
			return &d
		case <-time.After(max(wait, time.Second)):
		case <-s.w.ctx.Done():
			return &d
		}
	}
}

func (s *tokenService) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// poll waits for a delivery of a queue.
func (s *tokenService) poll(ctx context.Context, queue string) *delivery {
	for ctx.Err() == nil { // a worker that stopped takes no delivery that is scheduled later
		s.mu.Lock()
		changed := s.changed
		if q := s.queues[queue]; len(q) > 0 && !s.down {
			d := q[0]
			s.queues[queue] = q[1:]
			d.last = time.Now()
			s.mu.Unlock()
			return d
		}
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return nil
}

func (s *tokenService) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
	s.notify()
}

// forget closes all deliveries of a task, as the end of its workflow does.
func (s *tokenService) forget(task int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for token, d := range s.byToken {
		if d.key.Task == task && !d.closed {
			delete(s.byToken, token)
			d.terminated = true
			close(d.done)
		}
	}
}

// stop requests a stop of the newest delivery of a task.
func (s *tokenService) stop(task int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.byToken {
		if d.key.Task == task && !d.closed {
			d.stop = true
		}
	}
}

func (s *tokenService) heartbeat(token []byte, details agent.HeartbeatDetails) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.byToken[string(token)]
	switch {
	case s.down:
		return run.Errorf(run.CodeUnavailable, "down")
	case d == nil || d.closed:
		return run.Errorf(run.CodeNotFound, "no such token")
	}
	d.last, d.details = time.Now(), &details
	if d.stop {
		return agent.ErrStopRequested
	}
	return nil
}

func (s *tokenService) complete(token []byte, out agent.Outcome) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.byToken[string(token)]
	switch {
	case s.down:
		return run.Errorf(run.CodeUnavailable, "down")
	case d == nil || d.closed:
		return run.Errorf(run.CodeNotFound, "no such token")
	}
	d.closed, d.out = true, out
	close(d.done)
	return nil
}

// dump returns the deliveries that are not closed.
func (s *tokenService) dump() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, d := range s.byToken {
		if !d.closed {
			fmt.Fprintf(&b, "open: %s of %s, token %s, last %s, details %+v\n", d.kind, d.key, d.token, d.last, d.details)
		}
	}
	for q, list := range s.queues {
		for _, d := range list {
			fmt.Fprintf(&b, "queued in %s: %s of %s\n", q, d.kind, d.key)
		}
	}
	return b.String()
}
