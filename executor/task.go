package executor

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drover-run/drover/run"
)

// task is the life of one key in this process.
type task struct {
	a   *Agent
	key run.Key
	log *slog.Logger

	stopping chan struct{} // closed once a stop is wanted
	closed   chan struct{} // closed once the claim is closed: the environment may go
	over     chan struct{} // closed once the result is known
	left     chan struct{} // closed once another member of the set has the key

	// mu is the lock of the key: every decision to start, and every answer
	// about the key, is made under it.
	mu      sync.Mutex
	entry   entry
	file    *journalFile // nil: the journal has nothing of the key
	def     *run.Definition
	ship    *shipper
	steps   stepFold // after all frames seen
	refused bool     // the token is not known any more
	stopped bool     // stopping is closed
	gone    bool     // closed is closed
	slot    bool     // it counts as in use
	waits   bool     // it ended, and counts as waiting to be adopted
	erased  bool     // it is over: nothing is written any more
	lost    bool     // left is closed
	unkept  bool     // the end is not in the set's journal yet
	retired bool     // all is done but the end of its claim: see retire
	asked   bool     // the desk may have granted the claim
	// dropped says why the key is to be given back, where that could not be
	// written down at once.
	dropped string
	contact time.Time
	changed chan struct{} // closed, and made anew, when the token or the answer changed
	abort   context.CancelCauseFunc
	// askChanged is closed, and made anew, when another step waits, or none.
	askChanged chan struct{}
	token      []byte    // that the key was delivered with, nil where it was not
	ticket     string    // proves that the key was delivered
	unknown    time.Time // since when the desk knows of no claim

	adopted chan struct{} // of capacity 1: wakes tellContact
	counted atomic.Bool   // its outcome is in the metrics
}

func newTask(a *Agent, key run.Key) *task {
	return &task{
		a:        a,
		key:      key,
		log:      a.log.With(slog.String("run_id", string(key.Run)), slog.String("key", key.String())),
		stopping: make(chan struct{}),
		closed:   make(chan struct{}),
		over:     make(chan struct{}),
		left:     make(chan struct{}),
		changed:  make(chan struct{}),

		askChanged: make(chan struct{}),
		adopted:    make(chan struct{}, 1),
	}
}

// takeSlot counts the task as in use, unless it is over here; the lock is held,
// or the task is new.
func (t *task) takeSlot() {
	if !t.slot && !t.waits && !t.erased {
		t.slot = true
		t.a.slots.take()
	}
}

// suspendSlot lets others have the slot of a task that ended and whose token is
// not known any more: the delivery by which its workflow finds it again may
// need that slot.
func (t *task) suspendSlot() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.slot {
		t.slot, t.waits = false, true
		t.a.slots.suspend()
	}
}

// freeSlot counts it no more; the lock is held.
func (t *task) freeSlot() {
	switch {
	case t.slot:
		t.a.slots.release()
	case t.waits:
		t.a.slots.finish()
	}
	t.slot, t.waits = false, false
}

// lives reports whether there is something to do for run.
func (t *task) lives() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.entry.State != stateClosed || t.entry.Token != nil && !t.entry.Answered
}

// notify wakes who waits for a changed token or answer; the lock is held.
func (t *task) notify() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// append writes a line to the journal and makes it true; the lock is held.
// After an error nothing has changed.
func (t *task) append(r record, d Durability) error {
	switch {
	case t.lost:
		return ErrLost
	case t.erased:
		return errErased
	}
	r.Time = t.a.now()
	if t.file == nil {
		f, err := t.a.journal.create(t.key, r)
		if err != nil {
			return err
		}
		t.file = f
	} else if err := t.file.append(r, d); err != nil {
		if errors.Is(err, ErrLost) {
			t.loseLocked()
		}
		return err
	}
	t.entry.apply(r)
	return nil
}

// details are what heartbeats of the task say; the lock is held.
func (t *task) details() HeartbeatDetails {
	return HeartbeatDetails{
		Executor:  t.a.who.id,
		Set:       t.a.set(),
		JournalID: t.a.who.journalID,
		Key:       t.key,
		Frame:     t.steps.seen,
	}
}

// wantStop stops the task, however far it is. It reports whether there is
// anything to stop.
func (t *task) wantStop() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.entry.State == stateClosed {
		return false
	}
	if t.stopped {
		return true
	}
	t.stopped = true
	close(t.stopping)
	if t.abort != nil && t.entry.State.launchable() {
		t.abort(errStopped)
	}
	return true
}

// closeClaim says that the claim is closed: the environment may go.
func (t *task) closeClaim() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.gone {
		t.gone = true
		close(t.closed)
	}
}

// settle says that nobody waits for the outcome any more. What is left of an
// ended task's frames is still shipped; of any other, nothing is left to do.
func (t *task) settle() {
	t.mu.Lock()
	ended, token := t.entry.State == stateEnded, t.entry.Token
	t.mu.Unlock()
	if ended {
		t.answered(token)
		return
	}
	t.closeClaim()
}

// refuse says that a token is not known any more.
func (t *task) refuse(token []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if bytes.Equal(t.entry.Token, token) && !t.entry.Answered && !t.refused {
		t.refused = true
		t.log.Warn("token is not known any more, waiting to be adopted")
		t.notify()
		wake(t.a.sweep)
	}
}

// erase removes the journal's entry and what is known of the key.
func (t *task) erase() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.removeEntry(); err != nil {
		t.log.Warn("removing journal entry failed", slog.Any("error", err))
		if t.file != nil && t.a.shared != nil {
			// Once closed it is nobody's at work: the set finds it again, and gives
			// it to a member, to end what is left.
			_ = t.file.close() // what it could not write the next one does
		}
	}
	t.part()
}

// letGo does the same for a key of which nothing ran, unless it was closed
// meanwhile: what that left behind stays. In a set it fails where the entry can
// not be removed, and then nothing has changed: who takes such an entry over
// may go on with it.
func (t *task) letGo() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.entry.State == stateClosed {
		t.freeSlot()
		return nil
	}
	if err := t.removeEntry(); err != nil {
		if t.a.shared != nil {
			return err
		}
		t.log.Warn("removing journal entry failed", slog.Any("error", err))
	}
	t.part()
	return nil
}

// removeEntry removes the journal's entry; the lock is held.
func (t *task) removeEntry() error {
	if t.lost {
		return ErrLost
	}
	if t.file == nil {
		return nil
	}
	err := t.file.remove()
	if errors.Is(err, ErrLost) {
		t.loseLocked()
	}
	return err
}

// part forgets what is known of the key; the lock is held.
func (t *task) part() {
	t.freeSlot()
	t.file, t.erased = nil, true
	t.a.forget(t)
}

// closeFile closes the journal's file and leaves it for the next process.
func (t *task) closeFile() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file == nil {
		return
	}
	if err := t.file.close(); err != nil {
		t.log.Warn("closing journal entry failed", slog.Any("error", err))
	}
	t.file = nil
}
