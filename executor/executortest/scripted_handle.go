package executortest

import (
	"context"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/run"
)

// continuation describes how the frames of an environment continue.
type continuation struct {
	ended   bool
	err     error
	changed <-chan struct{}
}

// scriptedHandle is a handle on an environment of a Scripted driver.
type scriptedHandle struct {
	driver *Scripted
	key    run.Key
}

var _ executor.Handle = (*scriptedHandle)(nil)

// Events implements executor.Handle.
func (h *scriptedHandle) Events(ctx context.Context, from int64) iter.Seq2[run.Frame, error] {
	return func(yield func(run.Frame, error) bool) {
		for {
			frames, then := h.next(from)
			for _, f := range frames {
				if !yield(f, nil) {
					return
				}
				from = f.N + 1
			}
			if then.err != nil {
				yield(run.Frame{}, then.err)
				return
			}
			if then.ended {
				return
			}
			select {
			case <-then.changed:
			case <-ctx.Done():
				yield(run.Frame{}, run.Errorf(run.CodeCanceled, "follow the task: %w", context.Cause(ctx)))
				return
			}
		}
	}
}

// next returns the existing frames from number from on, and how they continue.
func (h *scriptedHandle) next(from int64) (frames []run.Frame, then continuation) {
	s := h.driver
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return nil, continuation{err: s.down}
	}
	e := s.envs[h.key]
	if e == nil {
		return nil, continuation{err: run.Errorf(run.CodeNotFound, "the environment was removed")}
	}
	if !e.begun {
		return nil, continuation{err: run.Errorf(run.CodeNotFound, "the task did not begin")}
	}
	skip := min(max(from-e.first, 0), int64(len(e.frames)))
	return slices.Clone(e.frames[skip:]), continuation{ended: e.ended, err: e.gone, changed: s.changed}
}

// CopyTo implements executor.Handle: it is not supported.
func (h *scriptedHandle) CopyTo(context.Context, string, io.Reader) error {
	return run.Errorf(run.CodeNotSupported, "the scripted driver copies nothing")
}

// CopyFrom implements executor.Handle: it is not supported.
func (h *scriptedHandle) CopyFrom(context.Context, string) (io.ReadCloser, error) {
	return nil, run.Errorf(run.CodeNotSupported, "the scripted driver copies nothing")
}

// Stop implements executor.Handle.
func (h *scriptedHandle) Stop(context.Context, time.Duration) error {
	s := h.driver
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return s.down
	}
	s.count(h.key).Stops++
	if e := s.envs[h.key]; e != nil && e.begun && !e.script.IgnoreStop && !e.script.CleansUp {
		s.end(e, run.TaskResult{Status: run.StatusStopped, Reason: "stopped"})
	}
	s.notify()
	return nil
}

// Abort implements executor.Handle.
func (h *scriptedHandle) Abort(context.Context, time.Duration) error {
	s := h.driver
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return s.down
	}
	s.count(h.key).Aborts++
	if e := s.envs[h.key]; e != nil && e.begun && !e.script.IgnoreStop {
		s.end(e, run.TaskResult{Status: run.StatusStopped, Reason: "aborted"})
	}
	s.notify()
	return nil
}

// Remove implements executor.Handle.
func (h *scriptedHandle) Remove(context.Context) error {
	s := h.driver
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return s.down
	}
	s.count(h.key).Removes++
	s.drop(h.key)
	s.notify()
	return nil
}
