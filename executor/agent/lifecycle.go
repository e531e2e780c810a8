package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/agent/frames"
	"github.com/drover-run/drover/run"
)

// run drives the task from its current state, until it is over and removed,
// requeued, or ctx ends.
func (t *task) run(ctx context.Context) {
	work, cancel := context.WithCancelCause(ctx)
	stopWatch := make(chan struct{})
	var side sync.WaitGroup
	t.mu.Lock()
	t.sender = t.newFrameSender(work)
	t.steps = t.entry.fold()
	if t.states[regionProgress].ended() {
		close(t.over)
	}
	t.mu.Unlock()
	side.Go(func() {
		select {
		case <-t.releasedCh:
			cancel(executor.ErrLost)
		case <-t.closed:
			cancel(errClaimClosed)
		case <-stopWatch:
		}
	})
	side.Go(func() { t.heartbeats(work) })
	side.Go(func() { t.sender.Run(work) })
	side.Go(func() { t.reclaim(work) })

	t.runLifecycle(work, &side)

	close(stopWatch)
	cancel(errShutdown)
	side.Wait()
	if t.in(keyClaimClosed) {
		t.discard(ctx)
	}
	if ctx.Err() != nil {
		t.closeFile()
	}
}

// runLifecycle does the work of run; side holds the goroutines that must end with it.
func (t *task) runLifecycle(ctx context.Context, side *sync.WaitGroup) {
	var h executor.Handle
	found := make(chan struct{})
	if t.progress().ended() {
		// The completion does not wait for the environment.
		side.Go(func() {
			there := t.attachAny(ctx)
			h = there
			close(found)
			t.read(ctx, there) // h may be replaced meanwhile
		})
	} else {
		h = t.environment(ctx)
		close(found)
		if t.in(stateClosed) {
			t.reportRequeue(ctx)
			return
		}
		if ctx.Err() != nil || t.in(keyReleased) {
			return
		}
		started := h // h may be replaced below, while these still run
		side.Go(func() { t.read(ctx, started) })
		if started != nil {
			side.Go(func() { t.stopOnRequest(ctx, started) })
			side.Go(func() { t.serveSteps(ctx, started) })
		}
	}
	if !t.finish(ctx) {
		return
	}
	select {
	case <-found:
	case <-ctx.Done():
		return
	}
	if h == nil {
		h = t.attachAny(ctx) // a failed start may have left an environment
	}
	if ctx.Err() != nil {
		return
	}
	if h != nil && (!t.recordAllStored(ctx) || !t.remove(ctx, h)) {
		return
	}
	t.a.hitFailpoint(pointRemoved, t.key)
	if t.a.shared != nil {
		t.erase() // a set learns from the claim that the key has begun: see journalHeldKey
		return
	}
	if h != nil || t.recordAllStored(ctx) {
		t.retire()
	}
}

// finish waits for the result, completes the task and waits until all frames are
// stored. It returns false if the context ended first.
func (t *task) finish(ctx context.Context) bool {
	select {
	case <-t.over:
	case <-ctx.Done():
		return false
	}
	t.awaitFrames(ctx)
	t.a.hitFailpoint(pointFramesSent, t.key)
	if !t.complete(ctx) {
		return false
	}
	select {
	case <-t.sender.Done:
		return true
	case <-ctx.Done():
		return false
	}
}

// recordAllStored records that no frames are left to read from the environment, which
// is removed next. A process that finds the entry without the environment then
// misses nothing. In a set the record must succeed, as in confirmOwnership.
func (t *task) recordAllStored(ctx context.Context) bool {
	t.mu.Lock()
	last := t.entry.Last
	t.mu.Unlock()
	r := record{}
	if last > 0 {
		r.Flight = &frames.Bounds{First: last + 1, Last: last}
	}
	if t.a.shared != nil {
		return t.confirmOwnership(ctx, r)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if last == 0 {
		return true
	}
	if err := t.append(r, executor.Kept); err != nil {
		t.log.WarnContext(ctx, "failed to record that all frames are stored", "error", err)
	}
	return true
}

// confirmOwnership writes a line to a set's journal before an action that cannot be undone.
// Until the line is written, another member may have the key and need what the
// action removes. It returns false if another member has the key, or if the context
// ended first.
func (t *task) confirmOwnership(ctx context.Context, r record) bool {
	retry := pauses(t.a.opts.timing.retryFirst, t.a.opts.timing.retryLimit)
	for {
		err := t.ensureEndRecorded()
		if err == nil {
			t.mu.Lock()
			err = t.append(r, executor.Kept)
			t.mu.Unlock()
		}
		switch {
		case err == nil:
			return true
		case errors.Is(err, executor.ErrLost), errors.Is(err, errErased):
			return false
		}
		t.log.WarnContext(ctx, "failed to record the removal of the environment", "error", err)
		if !retry.wait(ctx, t.releasedCh) {
			return false
		}
	}
}

// newFrameSender creates the frame sender of the task. The caller holds the lock.
func (t *task) newFrameSender(ctx context.Context) *frames.Sender {
	pause := time.Duration(0)
	if t.a.shared != nil {
		pause = frames.SharedPause
	}
	return frames.NewSender(frames.Config{
		Key:      t.key,
		Executor: t.a.identity.ID,
		Set:      t.a.set(),
		API:      t.a.api,
		Log:      t.log,
		RecordBatch: func(b frames.Batch) {
			t.recordBatch(ctx, record{Flight: &b.Bounds, Steps: b.Steps, Request: b.Request})
		},
		Refused: t.framesRefused,
		Pause:   pause,
	}, t.entry.position())
}

// recordBatch records the bounds of a batch before it is sent. In a set it retries
// until they are recorded: another member may have to send the same batch.
func (t *task) recordBatch(ctx context.Context, r record) {
	retry := pauses(t.a.opts.timing.retryFirst, t.a.opts.timing.retryLimit)
	for {
		err := t.tryRecordBatch(r)
		if err == nil {
			return
		}
		t.log.WarnContext(ctx, "failed to record a batch", "error", err)
		switch {
		case t.a.shared == nil:
			return
		case errors.Is(err, executor.ErrLost):
			<-ctx.Done()
			return
		case !retry.wait(ctx, nil):
			return
		}
	}
}

func (t *task) tryRecordBatch(r record) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.append(r, executor.Kept); err != nil {
		return err
	}
	if err := t.file.compact(t.entry.record); err != nil {
		t.log.Warn("failed to compact the journal", "error", err)
	}
	return nil
}

// framesRefused reports whether the gateway will never accept the task's frames:
// its result is known, and no caller waits any more. If the executor was removed,
// other members of its set still send them.
func (t *task) framesRefused(err error) bool {
	t.a.registration.SuspectRemoval(err)
	t.mu.Lock()
	defer t.mu.Unlock()
	wake(t.a.sweep)
	return t.states.in(tokenAnswered) && (t.a.shared == nil || run.CodeOf(err) != run.CodeForbidden)
}

// awaitFrames waits until all frames are stored, but not for long: an unavailable
// gateway does not delay a result.
func (t *task) awaitFrames(ctx context.Context) {
	timer := time.NewTimer(t.a.opts.timing.framesTimeout)
	defer timer.Stop()
	select {
	case <-t.sender.Done:
	case <-timer.C:
		t.log.WarnContext(ctx, "task completes before all frames are stored")
	case <-ctx.Done():
	}
}

// complete reports the outcome until it is accepted. It returns false if the
// context ended first.
func (t *task) complete(ctx context.Context) bool {
	retry := pauses(t.a.opts.timing.retryFirst, t.a.opts.timing.retryLimit)
	for ctx.Err() == nil {
		if t.in(keyReleased) {
			return false
		}
		t.mu.Lock()
		token, now, changed := t.entry.Token, t.states, t.changed
		outcome := Outcome{Executor: t.a.identity.ID, Ended: t.entry.Result}
		closed := now.in(stateClosed)
		if closed { // the token may belong to an adoption, which can not be requeued
			outcome = Outcome{Executor: t.a.identity.ID, JournalID: t.a.identity.JournalID, NeverStarted: fmt.Sprintf("executor %s requeued it: %s", t.a.identity.ID, t.entry.Reason)}
		}
		t.mu.Unlock()
		if now.in(tokenAnswered) {
			return true
		}
		if now.in(tokenRefused, tokenNone) {
			if closed {
				return false // a later adoption finds the key closed
			}
			t.signal(eventSlotSuspended)
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		err := t.ensureEndRecorded()
		if err == nil {
			err = t.a.complete(ctx, token, outcome)
		}
		switch {
		case err == nil:
			t.a.hitFailpoint(pointAccepted, t.key)
			t.answered(token)
			t.a.hitFailpoint(pointAnswered, t.key)
		case run.CodeOf(err) == run.CodeNotFound:
			t.refuse(token)
		default:
			t.log.WarnContext(ctx, "failed to complete task", "error", err)
			retry.wait(ctx, changed)
		}
	}
	return false
}

// complete reports an outcome once. In a set no other member may be able to report
// one.
func (a *Agent) complete(ctx context.Context, token []byte, outcome Outcome) error {
	if a.shared != nil {
		if err := a.shared.Valid(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, a.opts.timing.call)
	defer cancel()
	return a.tokens.Complete(ctx, token, outcome)
}

// answered records that the outcome was accepted under the token.
func (t *task) answered(token []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if string(t.entry.Token) != string(token) {
		return // adopted meanwhile: the new token needs an outcome
	}
	accepted := record{Answered: true}
	if err := t.record(eventAnswered, accepted, executor.Lazy); err != nil {
		t.log.Warn("failed to record the accepted outcome", "error", err)
		t.applyUnrecorded(eventAnswered, accepted)
	}
	t.notify()
}

// requeue closes the key, of which nothing ran, so that it may be queued again. It
// fails if the journal can not be written, or if the key is not launchable any
// more.
func (t *task) requeue(reason string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.states[regionProgress].launchable() {
		return errors.New("the key can not be closed any more")
	}
	r := record{Reason: reason}
	if t.entry.State == stateNew {
		r.Token = t.token // the outcome is reported under it
	}
	if err := t.record(eventRequeued, r, executor.Kept); err != nil {
		return err
	}
	t.count(outcomeRequeued)
	t.log.Info("task requeued", "reason", reason)
	return nil
}

// reportRequeue reports that the key was closed, also when the executor shuts
// down, and retires the key once the report was accepted.
func (t *task) reportRequeue(ctx context.Context) {
	t.mu.Lock()
	token := t.entry.Token
	t.mu.Unlock()
	if token == nil {
		return
	}
	ctx, cancel := t.shutdownContext(ctx)
	defer cancel()
	if !t.complete(ctx) {
		return
	}
	if t.a.shared != nil { // a failed start leaves its environment in a set
		if err := t.a.removeEnvironment(ctx, t.key); err != nil {
			t.log.WarnContext(ctx, "failed to remove environment", "error", err)
		}
		t.erase()
		return
	}
	t.retire()
}

// shutdownContext returns a context that ends a fixed time after ctx.
func (t *task) shutdownContext(ctx context.Context) (context.Context, context.CancelFunc) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(t.a.opts.timing.shutdown, cancel)
	})
	return late, func() { stop(); cancel() }
}
