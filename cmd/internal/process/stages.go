package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// stopTimeout bounds how long one stage may take to stop.
const stopTimeout = 30 * time.Second

var errStopping = errors.New("drover is stopping")

// Stages are the parts of a process. They run concurrently and are stopped one
// after the other, in reverse order: a part is added after the parts that it
// depends on.
type Stages struct {
	logger *slog.Logger
	parent context.Context //nolint:containedctx // the parent of every stage's context
	list   []*stage
	mu     sync.Mutex
	failed chan error
}

type stage struct {
	name   string
	cancel context.CancelCauseFunc
	done   chan struct{}
}

// newStages returns an empty list. The stages continue to run when ctx ends,
// until wait stops them in order.
func newStages(ctx context.Context, logger *slog.Logger) *Stages {
	return &Stages{logger: logger, parent: context.WithoutCancel(ctx), failed: make(chan error, 1)}
}

// Add starts a part. If a part ends before it is stopped, with or without an
// error, the process ends.
func (s *Stages) Add(name string, run func(ctx context.Context) error) {
	ctx, cancel := context.WithCancelCause(s.parent)
	st := &stage{name: name, cancel: cancel, done: make(chan struct{})}
	s.mu.Lock()
	s.list = append(s.list, st)
	s.mu.Unlock()
	go func() {
		defer close(st.done)
		err := run(ctx)
		if err == nil && ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("ended unexpectedly")
		}
		select {
		case s.failed <- fmt.Errorf("%s: %w", name, err):
		default:
		}
	}()
}

// Failed receives the error of a part that failed, if nothing else received it.
func (s *Stages) Failed() <-chan error { return s.failed }

// wait blocks until ctx ends or a part fails, then stops all parts in order.
func (s *Stages) wait(ctx context.Context) error {
	var err error
	select {
	case <-ctx.Done():
	case err = <-s.failed:
	}
	s.stop()
	if err == nil {
		select {
		case err = <-s.failed: // a part failed while it stopped
		default:
		}
	}
	return err
}

func (s *Stages) stop() {
	s.mu.Lock()
	list := s.list
	s.list = nil
	s.mu.Unlock()
	for _, st := range slices.Backward(list) {
		st.cancel(errStopping)
		timer := time.NewTimer(stopTimeout)
		select {
		case <-st.done:
		case <-timer.C:
			s.logger.Warn("failed to stop a part in time", "part", st.name)
		}
		timer.Stop()
	}
}
