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

// execution runs a task in this process, once, from the state that the journal has. It
// follows the environment, sends the frames and reports the outcome.
type execution struct {
	*task

	over chan struct{} // closed once the result is known
	// unstarted is the result of a task whose steps have not begun and are not started any
	// more; nil otherwise. The key's lock guards it.
	unstarted *run.TaskResult
}

func newExecution(t *task) *execution { return &execution{task: t, over: make(chan struct{})} }

// run drives the task from its current state, until it is over and removed,
// requeued, or ctx ends.
func (x *execution) run(ctx context.Context) {
	work, cancel := context.WithCancelCause(ctx)
	stopWatch := make(chan struct{})
	var side sync.WaitGroup
	x.mu.Lock()
	x.sender = x.newFrameSender(work)
	x.seen.reset(x.entry.fold())
	if x.states[regionProgress].ended() {
		close(x.over)
	}
	x.mu.Unlock()
	side.Go(func() {
		select {
		case <-x.releasedCh:
			cancel(executor.ErrLost)
		case <-x.closed:
			cancel(errClaimClosed)
		case <-stopWatch:
		}
	})
	side.Go(func() { x.heartbeat.run(work) })
	side.Go(func() { x.sender.Run(work) })
	side.Go(func() { x.claim.run(work) })

	x.runLifecycle(work, &side)

	close(stopWatch)
	cancel(errShutdown)
	side.Wait()
	if x.in(keyClaimClosed) {
		x.discard(ctx)
	}
	if ctx.Err() != nil {
		x.closeFile()
	}
}

// runLifecycle does the work of run; side holds the goroutines that must end with it.
func (x *execution) runLifecycle(ctx context.Context, side *sync.WaitGroup) {
	var h executor.Handle
	found := make(chan struct{})
	if x.progress().ended() {
		// The completion does not wait for the environment.
		side.Go(func() {
			there := x.attachAny(ctx)
			h = there
			close(found)
			x.read(ctx, there) // h may be replaced meanwhile
		})
	} else {
		h = newLauncher(x).environment(ctx)
		close(found)
		if x.in(stateClosed) {
			x.reportRequeue(ctx)
			return
		}
		if ctx.Err() != nil || x.in(keyReleased) {
			return
		}
		started := h // h may be replaced below, while these still run
		side.Go(func() { x.read(ctx, started) })
		if started != nil {
			side.Go(func() { x.stopOnRequest(ctx, started) })
			side.Go(func() { x.serveSteps(ctx, started) })
			side.Go(func() { x.a.sessions.Serve(ctx, x.key, started, x.over) })
		}
	}
	if !x.finish(ctx) {
		return
	}
	select {
	case <-found:
	case <-ctx.Done():
		return
	}
	if h == nil {
		h = x.attachAny(ctx) // a failed start may have left an environment
	}
	if ctx.Err() != nil {
		return
	}
	if h != nil && (!x.recordAllStored(ctx) || !x.remove(ctx, h)) {
		return
	}
	x.a.hitFailpoint(pointRemoved, x.key)
	if x.a.shared != nil {
		x.erase() // a set learns from the claim that the key has begun: see journalHeldKey
		return
	}
	if h != nil || x.recordAllStored(ctx) {
		x.retire()
	}
}

// finish waits for the result, completes the task and waits until all frames are
// stored. It returns false if the context ended first.
func (x *execution) finish(ctx context.Context) bool {
	select {
	case <-x.over:
	case <-ctx.Done():
		return false
	}
	x.awaitFrames(ctx)
	x.a.hitFailpoint(pointFramesSent, x.key)
	if !x.complete(ctx) {
		return false
	}
	select {
	case <-x.sender.Done:
		return true
	case <-ctx.Done():
		return false
	}
}

// recordAllStored records that no frames are left to read from the environment, which
// is removed next. A process that finds the entry without the environment then
// misses nothing. In a set the record must succeed, as in confirmOwnership.
func (x *execution) recordAllStored(ctx context.Context) bool {
	x.mu.Lock()
	last := x.entry.Last
	x.mu.Unlock()
	r := record{}
	if last > 0 {
		r.Flight = &frames.Bounds{First: last + 1, Last: last}
	}
	if x.a.shared != nil {
		return x.confirmOwnership(ctx, r)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if last == 0 {
		return true
	}
	if err := x.append(r, executor.Kept); err != nil {
		x.log.WarnContext(ctx, "failed to record that all frames are stored", "error", err)
	}
	return true
}

// confirmOwnership writes a line to a set's journal before an action that cannot be undone.
// Until the line is written, another member may have the key and need what the
// action removes. It returns false if another member has the key, or if the context
// ended first.
func (x *execution) confirmOwnership(ctx context.Context, r record) bool {
	retry := pauses(x.a.opts.timing.retryFirst, x.a.opts.timing.retryLimit)
	for {
		err := x.ensureEndRecorded()
		if err == nil {
			x.mu.Lock()
			err = x.append(r, executor.Kept)
			x.mu.Unlock()
		}
		switch {
		case err == nil:
			return true
		case errors.Is(err, executor.ErrLost), errors.Is(err, errErased):
			return false
		}
		x.log.WarnContext(ctx, "failed to record the removal of the environment", "error", err)
		if !retry.wait(ctx, x.releasedCh) {
			return false
		}
	}
}

// newFrameSender creates the frame sender of the task. The caller holds the lock.
func (x *execution) newFrameSender(ctx context.Context) *frames.Sender {
	pause := time.Duration(0)
	if x.a.shared != nil {
		pause = frames.SharedPause
	}
	return frames.NewSender(frames.Config{
		Key:      x.key,
		Executor: x.a.identity.ID,
		Set:      x.a.set(),
		API:      x.a.api,
		Log:      x.log,
		RecordBatch: func(b frames.Batch) {
			x.recordBatch(ctx, record{Flight: &b.Bounds, Steps: b.Steps, Request: b.Request})
		},
		Refused: x.framesRefused,
		Pause:   pause,
	}, x.entry.position())
}

// recordBatch records the bounds of a batch before it is sent. In a set it retries
// until they are recorded: another member may have to send the same batch.
func (x *execution) recordBatch(ctx context.Context, r record) {
	retry := pauses(x.a.opts.timing.retryFirst, x.a.opts.timing.retryLimit)
	for {
		err := x.tryRecordBatch(r)
		if err == nil {
			return
		}
		x.log.WarnContext(ctx, "failed to record a batch", "error", err)
		switch {
		case x.a.shared == nil:
			return
		case errors.Is(err, executor.ErrLost):
			<-ctx.Done()
			return
		case !retry.wait(ctx, nil):
			return
		}
	}
}

func (x *execution) tryRecordBatch(r record) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	// The batch may contain the end, which the next member must not move.
	if err := x.ensureEndRecordedLocked(); err != nil {
		return err
	}
	if err := x.append(r, executor.Kept); err != nil {
		return err
	}
	if err := x.file.compact(x.entry.record); err != nil {
		x.log.Warn("failed to compact the journal", "error", err)
	}
	return nil
}

// framesRefused reports whether the gateway will never accept the task's frames:
// its result is known, and no caller waits any more. If the executor was removed,
// other members of its set still send them.
func (x *execution) framesRefused(err error) bool {
	x.a.registration.SuspectRemoval(err)
	x.mu.Lock()
	defer x.mu.Unlock()
	wake(x.a.sweep)
	return x.states.in(tokenAnswered) && (x.a.shared == nil || run.CodeOf(err) != run.CodeForbidden)
}

// awaitFrames waits until all frames are stored, but not for long: an unavailable
// gateway does not delay a result.
func (x *execution) awaitFrames(ctx context.Context) {
	timer := time.NewTimer(x.a.opts.timing.framesTimeout)
	defer timer.Stop()
	select {
	case <-x.sender.Done:
	case <-timer.C:
		x.log.WarnContext(ctx, "task completes before all frames are stored")
	case <-ctx.Done():
	}
}

// complete reports the outcome until it is accepted. It returns false if the
// context ended first.
func (x *execution) complete(ctx context.Context) bool {
	retry := pauses(x.a.opts.timing.retryFirst, x.a.opts.timing.retryLimit)
	for ctx.Err() == nil {
		if x.in(keyReleased) {
			return false
		}
		x.mu.Lock()
		token, now, changed := x.entry.Token, x.states, x.changed
		outcome := Outcome{Executor: x.a.identity.ID, Ended: x.entry.Result}
		closed := now.in(stateClosed)
		if closed { // the token may belong to an adoption, which can not be requeued
			outcome = Outcome{Executor: x.a.identity.ID, JournalID: x.a.identity.JournalID, NeverStarted: fmt.Sprintf("executor %s requeued it: %s", x.a.identity.ID, x.entry.Reason)}
		}
		x.mu.Unlock()
		if now.in(tokenAnswered) {
			return true
		}
		if now.in(tokenRefused, tokenNone) {
			if closed {
				return false // a later adoption finds the key closed
			}
			x.signal(eventSlotSuspended)
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		err := x.ensureEndRecorded()
		if err == nil {
			err = x.a.complete(ctx, token, outcome)
		}
		switch {
		case err == nil:
			x.a.hitFailpoint(pointAccepted, x.key)
			x.answered(token)
			x.a.hitFailpoint(pointAnswered, x.key)
		case run.CodeOf(err) == run.CodeNotFound:
			x.refuse(token)
		default:
			x.log.WarnContext(ctx, "failed to complete task", "error", err)
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
func (x *execution) reportRequeue(ctx context.Context) {
	x.mu.Lock()
	token := x.entry.Token
	x.mu.Unlock()
	if token == nil {
		return
	}
	ctx, cancel := x.shutdownContext(ctx)
	defer cancel()
	if !x.complete(ctx) {
		return
	}
	if x.a.shared != nil { // a failed start leaves its environment in a set
		if err := x.a.removeEnvironment(ctx, x.key); err != nil {
			x.log.WarnContext(ctx, "failed to remove environment", "error", err)
		}
		x.erase()
		return
	}
	x.retire()
}

// shutdownContext returns a context that ends a fixed time after ctx.
func (x *execution) shutdownContext(ctx context.Context) (context.Context, context.CancelFunc) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(x.a.opts.timing.shutdown, cancel)
	})
	return late, func() { stop(); cancel() }
}
