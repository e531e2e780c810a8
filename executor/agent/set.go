package agent

import (
	"context"
	"sync"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/run"
)

// keyHandler implements KeyHandler for an agent.
type keyHandler struct{ a *Agent }

var _ executor.KeyHandler = keyHandler{}

// Accepting implements KeyHandler.
func (k keyHandler) Accepting() bool {
	k.a.mu.Lock()
	defer k.a.mu.Unlock()
	return !k.a.callsClosed && !k.a.registration.Closed()
}

// Adopt implements KeyHandler. It does the same as loadJournal and Run do with a key that the
// journal had at the start.
func (k keyHandler) Adopt(ctx context.Context, p executor.JournalEntry) error {
	a := k.a
	if !a.beginCall() {
		return run.Errorf(run.CodeUnavailable, "%w", errShutdown)
	}
	defer a.calls.Done()
	t, fresh := a.getOrAdd(p.Key, false)
	if !fresh {
		return run.Errorf(run.CodeConflict, "%s is being handled", p.Key)
	}
	l := a.journal.open(p)
	active, err := t.restore(l)
	if err != nil || !active {
		a.forget(t)
		return err
	}
	t.log.InfoContext(ctx, "key taken over", "state", string(l.entry.State))
	a.metrics.adopted.Inc()
	if !t.hasWork() {
		return nil // a closed key: the agent keeps it in memory
	}
	wake(t.claim.adopted)
	select {
	case a.spawn <- t:
	case <-a.ended: // Close leaves it to the other members
	case <-ctx.Done():
	}
	return nil
}

// Release implements KeyHandler.
func (k keyHandler) Release(key run.Key) {
	if t := k.a.find(key); t != nil {
		t.release()
	}
}

// Deliver implements KeyHandler.
func (k keyHandler) Deliver(ctx context.Context, key run.Key, o executor.KeyRequest) bool {
	t := k.a.find(key)
	if t == nil || !k.a.beginCall() {
		return false // the request stays in the journal for the next holder of the key
	}
	defer k.a.calls.Done()
	if o.Stop || o.Force {
		t.requestStop(o.Force)
	}
	if o.Token != nil {
		ctx, cancel := k.a.untilEnded(ctx)
		defer cancel()
		k.adoptOnRequest(ctx, t, o)
	}
	return true
}

// adoptOnRequest adopts a task of this member on the request of another member.
func (k keyHandler) adoptOnRequest(ctx context.Context, t *task, o executor.KeyRequest) {
	t.mu.Lock()
	known := string(t.entry.Token) == string(o.Token)
	t.mu.Unlock()
	if known {
		o.Ack()
		return
	}
	requested := &adoption{task: t, Adoption: Adoption{Key: t.key, Token: o.Token}}
	out, err := requested.adopt(ctx)
	if err != nil {
		t.log.WarnContext(ctx, "failed to adopt task", "error", err)
		return // the request is delivered again
	}
	if out.Pending() || k.answerRequest(ctx, t, o.Token, out) {
		o.Ack()
	}
}

// untilEnded returns a context that also ends with Run: the set's context ends
// later, when no call is left.
func (a *Agent) untilEnded(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-a.ended:
			cancel(errShutdown)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// answerRequest reports the outcome of a key of which nothing ran. It returns false
// if the report was not accepted; the request then stays pending.
func (k keyHandler) answerRequest(ctx context.Context, t *task, token []byte, out Outcome) bool {
	out.Executor = t.a.identity.ID
	retry := pauses(t.a.opts.timing.retryFirst, t.a.opts.timing.retryLimit)
	for {
		err := t.a.complete(ctx, token, out)
		if err == nil || run.CodeOf(err) == run.CodeNotFound {
			return true
		}
		if !retry.wait(ctx, t.releasedCh) || t.in(keyReleased) {
			return false
		}
	}
}

// join makes the executor a member of its set as soon as it is registered: the set
// holds the claims, and the gateway must have the member on record. The returned
// function hands over the remaining keys, after all else is closed.
func (a *Agent) join(ctx context.Context) (leave func()) {
	if a.shared == nil {
		return func() {}
	}
	member, end := context.WithCancelCause(context.WithoutCancel(ctx))
	var group sync.WaitGroup
	group.Go(func() {
		select {
		case <-a.registration.Registered():
			a.shared.Run(member, keyHandler{a})
		case <-member.Done():
		}
	})
	return func() {
		end(errShutdown)
		group.Wait()
	}
}

// find returns the task of a key, nil for none.
func (a *Agent) find(key run.Key) *task {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tasks[key]
}

// release drops a key that another member has taken over. The state of this member is
// invalid, and it does nothing more for the key.
func (t *task) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.releaseLocked()
}

func (t *task) releaseLocked() {
	if t.states.in(keyReleased) {
		return
	}
	t.log.Warn("another member of the set has the key")
	t.a.metrics.released.Inc()
	t.file = nil
	t.a.forget(t)
	t.move(eventReleased)
}
