package executor

import (
	"context"
	"log/slog"
	"sync"

	"github.com/drover-run/drover/run"
)

// keeper implements KeyHandler for an agent.
type keeper struct{ a *Agent }

var _ Keeper = keeper{}

// Willing implements KeyHandler.
func (k keeper) Willing() bool {
	k.a.mu.Lock()
	defer k.a.mu.Unlock()
	return !k.a.shut && !k.a.draining
}

// Gain implements KeyHandler. It does the same as loadJournal and Run do with a key that the
// journal had at the start.
func (k keeper) Gain(ctx context.Context, p Page) error {
	a := k.a
	if !a.begin() {
		return run.Errorf(run.CodeUnavailable, "%w", errShutdown)
	}
	defer a.calls.Done()
	t, fresh := a.enter(p.Key)
	if !fresh {
		return run.Errorf(run.CodeConflict, "%s is being handled", p.Key)
	}
	l := a.journal.open(p)
	live, err := t.recall(l)
	if err != nil || !live {
		a.forget(t)
		return err
	}
	t.log.Info("key taken over", slog.String("state", string(l.entry.State)))
	a.metrics.gained.Inc()
	if !t.lives() {
		return nil // a closed key: the agent keeps it in memory
	}
	wake(t.adopted)
	select {
	case a.spawn <- t:
	case <-a.ended: // Close leaves it to the other members
	case <-ctx.Done():
	}
	return nil
}

// Lose implements KeyHandler.
func (k keeper) Lose(key run.Key) {
	if t := k.a.find(key); t != nil {
		t.lose()
	}
}

// Ordered implements KeyHandler.
func (k keeper) Ordered(ctx context.Context, key run.Key, o Order) bool {
	t := k.a.find(key)
	if t == nil || !k.a.begin() {
		return false // the request stays in the journal for the next holder of the key
	}
	defer k.a.calls.Done()
	if o.Stop {
		t.wantStop()
	}
	if o.Token != nil {
		ctx, cancel := k.a.untilEnded(ctx)
		defer cancel()
		t.takeOrder(ctx, o)
	}
	return true
}

// takeOrder adopts a task of this member on the request of another member.
func (t *task) takeOrder(ctx context.Context, o Order) {
	t.mu.Lock()
	known := string(t.entry.Token) == string(o.Token)
	t.mu.Unlock()
	if known {
		o.Taken()
		return
	}
	out, err := t.adopt(ctx, Adoption{Key: t.key, Token: o.Token})
	if err != nil {
		t.log.Warn("failed to adopt task", slog.Any("error", err))
		return // the request is delivered again
	}
	if out.Pending() || t.answerOrder(ctx, o.Token, out) {
		o.Taken()
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

// answerOrder reports the outcome of a key of which nothing ran. It returns false
// if the report was not accepted; the request then stays pending.
func (t *task) answerOrder(ctx context.Context, token []byte, out Outcome) bool {
	out.Executor = t.a.who.id
	retry := pauses(t.a.opts.timing.retryFirst, t.a.opts.timing.retryLimit)
	for {
		err := t.a.complete(ctx, token, out)
		if err == nil || run.CodeOf(err) == run.CodeNotFound {
			return true
		}
		if !retry.wait(ctx, t.left) || t.isLost() {
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
		case <-a.known:
			a.shared.Run(member, keeper{a})
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

// lose drops a key that another member has taken over. The state of this member is
// invalid, and it does nothing more for the key.
func (t *task) lose() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.loseLocked()
}

func (t *task) loseLocked() {
	if t.lost {
		return
	}
	t.log.Warn("another member of the set has the key")
	t.a.metrics.lost.Inc()
	t.lost, t.erased, t.file = true, true, nil
	t.freeSlot()
	t.a.forget(t)
	close(t.left)
}

func (t *task) isLost() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lost
}
