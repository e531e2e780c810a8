package agent

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/agent/frames"
	"github.com/drover-run/drover/internal/truncate"
	"github.com/drover-run/drover/run"
)

// task is one key in this process.
type task struct {
	a   *Agent
	key run.Key
	log *slog.Logger
	// delivered means that a delivery added the key to this process. Any other caller
	// that adds a key without an entry does not know yet what ran of it.
	delivered bool
	executed  bool // it has an execution; only Run's goroutine uses it

	stopping   chan struct{} // closed once a stop is requested
	forced     chan struct{} // closed once a stop is forced
	closed     chan struct{} // closed once the claim is closed: the environment may be removed
	releasedCh chan struct{} // closed once another member of the set has the key

	// mu is the lock of the key: every decision to start, and every answer about the
	// key, is made under it.
	mu     sync.Mutex
	states states // changed by enter only
	entry  entry
	file   *journalFile // nil: the journal has no entry of the key
	def    *run.Definition
	// reloaded: an earlier process, or this one, had another definition, with which services
	// may have been started.
	reloaded bool
	// reserved is what the task takes of the resources of the executor while it counts.
	reserved run.Capacity
	sender   *frames.Sender
	// requeueReason is why the key is to be requeued, if that could not be journaled
	// at once.
	requeueReason string
	changed       chan struct{} // closed, and replaced, when the token or the answer changed
	abort         context.CancelCauseFunc
	resuming      bool      // abort ends a start that finds steps which an earlier process launched
	token         []byte    // of the delivery, nil if there was none
	unknown       time.Time // since when the gateway has no claim

	// The heartbeat and the frames have locks of their own, and take no other lock while
	// they hold theirs.
	claim     *claim
	heartbeat *heartbeat
	seen      *seenFrames

	counted atomic.Bool // its outcome is in the metrics
}

func newTask(a *Agent, key run.Key) *task {
	t := &task{
		a:          a,
		key:        key,
		log:        a.log.With("run_id", string(key.Run), "key", key.String()),
		stopping:   make(chan struct{}),
		forced:     make(chan struct{}),
		closed:     make(chan struct{}),
		releasedCh: make(chan struct{}),
		changed:    make(chan struct{}),
		states:     initialStates(),
		seen:       newSeenFrames(),
	}
	t.claim = &claim{t: t, adopted: make(chan struct{}, 1)}
	t.heartbeat = &heartbeat{t: t}
	return t
}

// hasWork reports whether run has work to do.
func (t *task) hasWork() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.states.in(stateClosed) || t.states.in(tokenValid, tokenRefused)
}

// notify wakes goroutines that wait for a changed token or answer. The caller holds
// the lock.
func (t *task) notify() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// writable returns an error if this process may not write the entry any more. The
// caller holds the lock.
func (t *task) writable() error {
	switch {
	case t.states.in(keyReleased):
		return executor.ErrLost
	case t.states.in(keyErased):
		return errErased
	}
	return nil
}

// append writes a record that changes no state to the journal and applies it; record
// does the same for the others. The caller holds the lock. After an error nothing has
// changed, unless it is ErrLost: the key is then released.
func (t *task) append(r record, d executor.Durability) error {
	if err := t.writable(); err != nil {
		return err
	}
	r.Time = t.a.now()
	if t.file == nil {
		f, err := t.a.journal.create(t.key, r)
		if err != nil {
			return err
		}
		t.file = f
	} else if err := t.file.append(r, d); err != nil {
		if errors.Is(err, executor.ErrLost) {
			t.releaseLocked()
		}
		return err
	}
	t.entry.apply(r)
	return nil
}

// details returns the heartbeat details of the task. The caller holds the lock.
func (t *task) details() HeartbeatDetails {
	return HeartbeatDetails{
		Executor:  t.a.identity.ID,
		Set:       t.a.set(),
		JournalID: t.a.identity.JournalID,
		Key:       t.key,
		Frame:     t.seen.last(),
	}
}

// requestStop stops the task in any state; force means without a cleanup. It reports
// whether there is anything to stop. The service repeats requests, so a repeated one
// is not forced.
func (t *task) requestStop(force bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.states.in(stateClosed) {
		return false
	}
	known := t.states.stopped()
	if force {
		t.move(eventStopForced)
	} else {
		t.move(eventStopRequested)
	}
	if known {
		return true
	}
	if t.abort != nil && (t.resuming || t.states[regionProgress].launchable()) {
		t.abort(errStopped)
	}
	return true
}

// settle records that no workflow waits for the outcome any more. The remaining
// frames of an ended task are still sent; any other task needs no more work.
func (t *task) settle() {
	t.mu.Lock()
	ended, token := t.states[regionProgress].ended(), t.entry.Token
	t.mu.Unlock()
	if ended {
		t.answered(token)
		return
	}
	t.signal(eventClaimClosed)
}

// refuse records that a token is not valid any more.
func (t *task) refuse(token []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if bytes.Equal(t.entry.Token, token) && !t.states.in(tokenAnswered, tokenRefused) {
		t.move(eventTokenRefused)
		t.log.Warn("token is not valid any more, waiting for adoption")
		t.notify()
		wake(t.a.sweep)
	}
}

// erase removes the journal entry and the task in memory.
func (t *task) erase() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.removeEntry(); err != nil {
		t.log.Warn("failed to remove journal entry", "error", err)
		if t.file != nil && t.a.shared != nil {
			// After Close the entry belongs to no member: the set finds it again and assigns
			// it to a member, which ends the task.
			_ = t.file.close() // the next member writes what this one could not
		}
	}
	t.detach()
}

// dropEntry does the same for a key of which nothing ran, unless it was closed
// meanwhile: its environment then stays. In a set it fails if the entry can not be
// removed, and then nothing has changed: the member that takes over the entry may
// continue the task.
func (t *task) dropEntry() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.states.in(stateClosed) {
		t.move(eventSlotFreed)
		return nil
	}
	if err := t.removeEntry(); err != nil {
		if t.a.shared != nil {
			return err
		}
		t.log.Warn("failed to remove journal entry", "error", err)
	}
	t.detach()
	return nil
}

// removeEntry removes the journal entry. The caller holds the lock.
func (t *task) removeEntry() error {
	if t.states.in(keyReleased) {
		return executor.ErrLost
	}
	if t.file == nil {
		return nil
	}
	err := t.file.remove()
	if errors.Is(err, executor.ErrLost) {
		t.releaseLocked()
	}
	return err
}

// detach removes the task from memory. The caller holds the lock.
func (t *task) detach() {
	t.move(eventErased)
	t.file = nil
	t.a.forget(t)
}

// closeFile closes the journal entry and leaves it to the next process.
func (t *task) closeFile() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file == nil {
		return
	}
	if err := t.file.close(); err != nil {
		t.log.Warn("failed to close journal entry", "error", err)
	}
	t.file = nil
}

// requeuedOutcome is the outcome of a key that is closed in this journal, or whose claim
// this journal held.
func (t *task) requeuedOutcome(reason string) Outcome {
	return Outcome{Requeued: reason, JournalID: t.a.identity.JournalID}
}

// deliveredAgain answers for a delivered key that this process already has.
func (t *task) deliveredAgain() Outcome {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.states.in(stateClosed) {
		return t.requeuedOutcome(t.entry.Reason)
	}
	d := t.details()
	return Outcome{Claimed: &d}
}

// stoppedResult is the result of a task that was stopped before its steps began.
func (t *task) stoppedResult() *run.TaskResult {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.resultOf(run.StatusStopped, "", "stopped before it began")
}

// resultOf builds a result that the shim did not report. The caller holds the lock.
func (t *task) resultOf(status run.Status, cause run.Cause, reason string) *run.TaskResult {
	n := t.entry.StepCount
	if t.def != nil {
		n = len(t.def.Steps)
	}
	return &run.TaskResult{
		Status: status,
		Cause:  cause,
		Reason: truncate.String(reason, run.MaxReason, ""),
		Ended:  t.a.now(),
		Steps:  t.seen.final(n, run.StatusFailed),
	}
}
