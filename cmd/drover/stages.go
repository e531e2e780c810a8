package main

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

// stages are the parts of a process. They run together and are stopped one
// after the other, the last added first: what depends on another part is added
// after it.
type stages struct {
	logger *slog.Logger
	parent context.Context //nolint:containedctx // the values and the life of every stage's context
	list   []*stage
	mu     sync.Mutex
	failed chan error
}

type stage struct {
	name   string
	cancel context.CancelCauseFunc
	done   chan struct{}
}

// newStages returns an empty list. The stages keep running when ctx ends,
// until wait stops them in order.
func newStages(ctx context.Context, logger *slog.Logger) *stages {
	return &stages{logger: logger, parent: context.WithoutCancel(ctx), failed: make(chan error, 1)}
}

// add starts a part. A part that ends before it is stopped, with an error or
// not, ends the process.
func (s *stages) add(name string, run func(ctx context.Context) error) {
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
			err = errors.New("it ended by itself")
		}
		select {
		case s.failed <- fmt.Errorf("%s: %w", name, err):
		default:
		}
	}()
}

// wait blocks until ctx ends or a part fails, then stops all parts in order.
func (s *stages) wait(ctx context.Context) error {
	var err error
	select {
	case <-ctx.Done():
	case err = <-s.failed:
	}
	s.stop()
	if err == nil {
		select {
		case err = <-s.failed: // it failed while stopping
		default:
		}
	}
	return err
}

func (s *stages) stop() {
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
			s.logger.Warn("a part did not stop in time", "part", st.name)
		}
		timer.Stop()
	}
}
