package agent

import (
	"context"
	"errors"
	"sync"

	"github.com/drover-run/drover/run"
)

var (
	errShutdown    = errors.New("the executor is shutting down")
	errClaimClosed = errors.New("the claim is closed")
)

// Run registers the executor, resumes the keys of the journal and runs tasks until
// ctx ends; then it returns nil once its own goroutines have ended. It may be
// called once. Errors: CodeForbidden if the executor was removed: all its tasks are
// then stopped and removed.
func (a *Agent) Run(ctx context.Context) (err error) {
	leave := a.join(ctx)
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	var group sync.WaitGroup
	defer func() {
		close(a.ended)
		cancel(errShutdown)
		group.Wait()
		err = errors.Join(err, a.Close())
		leave()
	}()

	running, finished := 0, make(chan struct{})
	start := func(t *task) {
		if t.executed {
			return // a restored task was adopted before Run began
		}
		t.executed = true
		running++
		group.Go(func() {
			newExecution(t).run(work)
			select {
			case finished <- struct{}{}:
			case <-work.Done():
			}
		})
	}
	for _, t := range a.restored {
		if t.hasWork() {
			start(t)
		}
	}
	a.restored = nil
	removed := make(chan error, 1)
	group.Go(func() {
		if err := a.registration.Run(work); err != nil {
			removed <- err
		}
	})
	group.Go(func() { a.registration.CheckHealth(work) })
	group.Go(func() { a.sweepLoop(work) })
	group.Go(func() { a.sessions.Run(work) })
	group.Go(func() { a.retiredLoop(work) })

	var removedErr error // why Run returns once the last task has ended
	done, ending := ctx.Done(), false
	for !ending || running > 0 {
		select {
		case t := <-a.spawn:
			start(t)
		case <-finished:
			running--
		case removedErr = <-removed:
			a.log.ErrorContext(ctx, "executor was removed", "error", removedErr)
			a.registration.Close(errShutdown)
			if a.shared != nil {
				return removedErr // its keys belong to the set
			}
			for _, t := range a.all() {
				t.signal(eventClaimClosed)
			}
			ending = true
		case <-done:
			a.registration.Close(errShutdown)
			if removedErr != nil || !a.opts.DrainFinish {
				return removedErr
			}
			a.log.InfoContext(ctx, "waiting for tasks to finish", "tasks", running)
			done, ending = nil, true
		}
	}
	if removedErr != nil {
		a.clear(ctx)
	} else {
		a.forgetAll(work)
	}
	return removedErr
}

// clear removes all remaining environments and entries of a removed executor.
func (a *Agent) clear(ctx context.Context) {
	for _, t := range a.all() {
		t.erase()
	}
	keys, err := a.driver.List(ctx)
	if err != nil {
		a.log.WarnContext(ctx, "failed to list environments", "error", err)
	}
	for _, key := range keys {
		if err := a.removeEnvironment(ctx, key); err != nil {
			a.log.WarnContext(ctx, "failed to remove environment", "key", key.String(), "error", err)
		}
	}
}

// removeEnvironment removes the environment of a key if there is one.
func (a *Agent) removeEnvironment(ctx context.Context, key run.Key) error {
	h, err := a.driver.Attach(ctx, key)
	if run.CodeOf(err) == run.CodeNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	return h.Remove(ctx)
}
