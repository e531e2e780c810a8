package kubernetes

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/shim"
	"github.com/drover-run/drover/executor/shim/journal"
	"github.com/drover-run/drover/run"
)

const (
	// statusLag is how long after the end of its processes a container may
	// still be reported as running.
	statusLag = 10 * time.Second
	// followTries is how many times in a row the follower tries to read an
	// unreadable journal. followPause is the pause between the tries.
	followTries = 3
	followPause = 300 * time.Millisecond
)

// follower is one iteration over the frames of an environment.
type follower struct {
	*handle
	next  int64 // number of the next frame to yield
	yield func(run.Frame) bool
	done  bool // the last frame was yielded, or the caller stopped the iteration
	seen  *corev1.Pod
	// damageErr holds the stderr output of the last reader.
	damageErr error
}

// follow yields frames until the end. The session prints the journal from its
// beginning, or is nil.
func (f *follower) follow(ctx context.Context, s *session) error {
	for tries := 0; ; tries++ {
		before, began := f.next, time.Now()
		code, err := f.read(ctx, s)
		s = nil
		if f.done {
			return nil
		}
		if ctx.Err() != nil {
			return ServerError(context.Cause(ctx), "follow the task %s", f.key)
		}
		if f.next > before || time.Since(began) > statusLag {
			tries = 0
		}
		if over, judged := f.evaluate(ctx, code, err, tries > 0); over || judged != nil {
			return judged
		}
		if damage := f.damage(code, err); damage != nil {
			if code != shim.ExitDamaged && f.driver.journalEnded(ctx, f.pod, f.next) {
				f.damageErr = damage
				return f.finishDamaged(ctx)
			}
			return executor.Damaged(damage, false)
		}
		if tries+1 >= followTries {
			return run.Errorf(run.CodeUnavailable, "follow the task %s: %w", f.key, readerError(code, err))
		}
		if err := pause(ctx, followPause); err != nil {
			return err
		}
	}
}

// read yields the frames that one reader process prints, and returns its exit
// code.
func (f *follower) read(ctx context.Context, s *session) (code int, err error) {
	if s == nil {
		if s, err = f.driver.follow(ctx, f.pod, f.next); err != nil {
			return 0, err
		}
	}
	defer s.close()
	for !f.done {
		line, err := s.line(ctx)
		if errors.Is(err, io.EOF) {
			code, err := s.outcome()
			f.damageErr = journal.Damaged("%s", s.stderr.String())
			return code, err
		}
		if err != nil {
			return 0, err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue // a keepalive
		}
		frame, err := journal.Decode(line)
		if err != nil {
			return 0, err
		}
		f.take(ctx, frame)
	}
	return shim.ExitDone, nil
}

// take yields a frame unless it was yielded before, and reports whether the
// caller wants more frames.
func (f *follower) take(ctx context.Context, frame run.Frame) bool {
	if f.done || frame.N < f.next {
		return !f.done
	}
	last := frame.Kind == run.FrameTaskEnd
	if last {
		frame = f.withReason(ctx, frame)
	}
	f.next = frame.N + 1
	f.done = !f.yield(frame) || last
	return !f.done
}

// withReason adds the reason from the pod's status to the end of a task that was ended
// from outside, or whose services have ended, while the cluster still has that status.
func (f *follower) withReason(ctx context.Context, end run.Frame) run.Frame {
	result := end.Result
	if result != nil && (result.Cause == run.CauseStep || result.Cause == run.CauseTimeout) {
		return executor.WithNotes(end, f.endedServices(ctx, result))
	}
	if result == nil || result.Cause != run.CauseVanished {
		return end
	}
	pod, err := f.driver.pod(ctx, f.pod)
	if err != nil || pod == nil || pod.UID != f.uid {
		return end
	}
	text := disruption(pod)
	if text == "" {
		return end
	}
	detailed := *result
	detailed.Reason = text + " (" + result.Reason + ")"
	if len(detailed.Reason) <= run.MaxReason {
		end.Result = &detailed
	}
	return end
}

// evaluate decides after the reader ended before the task did. It returns the
// final error, or over if the iteration has ended. If it returns neither, the
// journal has to be read again.
func (f *follower) evaluate(ctx context.Context, code int, failed error, again bool) (over bool, err error) {
	switch {
	case failed == nil && code == shim.ExitNoJournal:
		return true, run.Errorf(run.CodeNotFound, "the task has not begun")
	case failed == nil && code == shim.ExitSpoiled:
		return true, f.finishDamaged(ctx)
	}
	// If the shim ended, or no process can run in the container, the pod's
	// status shows it soon. After the first broken connection, just reconnect.
	waitForEnd := failed == nil || again
	timeout, cancel := context.WithTimeout(ctx, statusLag)
	defer cancel()
	err = f.driver.await(timeout, f.pod, func(pod *corev1.Pod) (bool, error) {
		if pod != nil && pod.UID == f.uid {
			f.seen = pod
		}
		switch {
		case pod == nil || pod.UID != f.uid:
			return false, executor.Ended(run.CauseVanished, f.goneReason())
		case isOver(pod):
			over = true
			return true, f.finish(ctx, pod)
		case !mainRuns(pod):
			return false, run.Errorf(run.CodeNotFound, "the task has not begun: its container does not run yet")
		}
		return !waitForEnd, nil
	})
	if err != nil && !over && timeout.Err() != nil && ctx.Err() == nil {
		err = nil
	}
	return over, err
}

// goneReason returns why the pod does not exist any more, as far as the follower
// saw it.
func (f *follower) goneReason() string {
	if f.seen != nil {
		if text := disruption(f.seen); text != "" {
			return text
		}
	}
	return deletedText
}

// finish yields the remaining frames in the log of an ended container.
func (f *follower) finish(ctx context.Context, pod *corev1.Pod) error {
	err := f.driver.readLog(ctx, f.pod, f.nonce, f.next, func(frame run.Frame) bool { return f.take(ctx, frame) })
	switch {
	case f.done:
		return nil
	case errors.Is(err, journal.ErrDamaged):
		return executor.Damaged(err, true)
	case err != nil:
		return err
	}
	return endError(pod)
}

// finishDamaged ends the iteration over a task that has ended and whose journal is
// damaged. The copy in the container's log may be complete.
func (f *follower) finishDamaged(ctx context.Context) error {
	err := f.driver.readLog(ctx, f.pod, f.nonce, f.next, func(frame run.Frame) bool { return f.take(ctx, frame) })
	switch {
	case f.done:
		return nil
	case err != nil && !errors.Is(err, journal.ErrDamaged):
		return err
	}
	return executor.Damaged(f.damageErr, true)
}

// damage returns the error of a damaged journal of a task that is still
// running, if that ended the reader.
func (f *follower) damage(code int, err error) error {
	switch {
	case errors.Is(err, journal.ErrDamaged):
		return err
	case err == nil && code == shim.ExitDamaged:
		return f.damageErr
	}
	return nil
}

// readerError returns the error of a reader that ended too early.
func readerError(code int, err error) error {
	if err != nil {
		return err
	}
	return run.Errorf(run.CodeUnavailable, "the reader of its journal ended with exit code %d", code)
}
