package registration

import (
	"context"
	"slices"
	"sync"

	"github.com/drover-run/drover/run"
)

// Slots counts the slots of an executor. A task counts from its delivery, or its
// adoption, until its outcome was accepted. A poll counts while it waits for a
// task.
type Slots struct {
	limit int

	mu       sync.Mutex
	allowed  int // slots that the gateway allows to use; negative: all of them
	used     int
	waiting  int // ended tasks that wait to be adopted
	reserved int
	open     bool // the executor may poll for tasks
	// waiters are the polls that wait for a slot, in the order in which they get one.
	waiters []*waiter
	// labels identify the labels for which tasks wait, and labelsChanged is closed, and
	// replaced, when they change.
	labels        []string
	labelsOnly    bool // no other tasks wait
	labelsChanged chan struct{}
}

// waiter is a poll that waits for a slot.
type waiter struct {
	labels string        // of the queue that it polls; "": the queue of the pool
	ready  chan struct{} // closed once it has a slot
}

// NewSlots returns the slots of an executor that runs limit tasks at a time.
func NewSlots(limit int) *Slots {
	return &Slots{limit: limit, allowed: -1, labelsChanged: make(chan struct{})}
}

// Reserve waits until a slot is free and the executor may poll for tasks with the given
// labels (see run.LabelsID; "" for those of the whole pool). Polls get slots in the
// order of their calls, so that no queue waits forever behind another. Reserve fails
// only with the context.
func (s *Slots) Reserve(ctx context.Context, labels string) error {
	w := &waiter{labels: labels, ready: make(chan struct{})}
	s.change(func() { s.waiters = append(s.waiters, w) })
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	s.change(func() {
		if i := slices.Index(s.waiters, w); i >= 0 {
			s.waiters = slices.Delete(s.waiters, i, i+1)
			return
		}
		s.reserved-- // it got a slot at the same moment
	})
	return context.Cause(ctx)
}

// Unreserve releases a reserved slot.
func (s *Slots) Unreserve() { s.change(func() { s.reserved-- }) }

// Take counts a task, even beyond the limit.
func (s *Slots) Take() { s.change(func() { s.used++ }) }

// Release stops counting a task.
func (s *Slots) Release() { s.change(func() { s.used-- }) }

// Suspend counts a task as one that only waits to be adopted.
func (s *Slots) Suspend() { s.change(func() { s.used, s.waiting = s.used-1, s.waiting+1 }) }

// Finish ends the wait of such a task.
func (s *Slots) Finish() { s.change(func() { s.waiting-- }) }

// setOpen sets whether the executor may poll for tasks.
func (s *Slots) setOpen(open bool) { s.change(func() { s.open = open }) }

// demand applies what the gateway says about waiting tasks: the labels that they
// require, and how many slots may be used.
func (s *Slots) demand(desired run.DesiredState) {
	labels := make([]string, len(desired.Labels))
	for i, l := range desired.Labels {
		labels[i] = run.LabelsID(run.LabelsText(l))
	}
	s.change(func() {
		s.allowed = -1
		if desired.Slots != nil {
			s.allowed = max(0, *desired.Slots)
		}
		s.labelsOnly = desired.LabelsOnly
		if !slices.Equal(labels, s.labels) {
			s.labels = labels
			close(s.labelsChanged)
			s.labelsChanged = make(chan struct{})
		}
	})
}

// Exhausted ends the polls for tasks until the gateway says again how many slots may be
// used.
func (s *Slots) Exhausted() { s.change(func() { s.allowed = 0 }) }

// Labels returns the labels for which tasks wait, and a channel that is closed when
// they change.
func (s *Slots) Labels() ([]string, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.labels, s.labelsChanged
}

// InUse returns how many tasks count.
func (s *Slots) InUse() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// idle reports whether no task counts or waits, and no poll may return one.
func (s *Slots) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used == 0 && s.waiting == 0 && s.reserved == 0
}

// change applies a change, and gives free slots to the polls that wait.
func (s *Slots) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	for i := 0; i < len(s.waiters) && s.free() > 0; {
		w := s.waiters[i]
		if !s.eligible(w) {
			i++
			continue
		}
		s.waiters = slices.Delete(s.waiters, i, i+1)
		s.reserved++
		close(w.ready)
	}
}

// eligible reports whether a poll may get a free slot.
func (s *Slots) eligible(w *waiter) bool {
	if w.labels != "" {
		return slices.Contains(s.labels, w.labels)
	}
	// An empty poll would hold the last slot for which tasks with labels wait.
	return !s.labelsOnly || s.free() > 1
}

// free returns how many slots polls may get.
func (s *Slots) free() int {
	limit := s.limit
	if s.allowed >= 0 {
		limit = min(limit, s.allowed)
	}
	if !s.open {
		return 0
	}
	return limit - s.used - s.reserved
}
