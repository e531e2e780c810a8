package registration

import (
	"context"
	"sync"
)

// Slots counts the slots of an executor. A task counts from its delivery, or its
// adoption, until its outcome was accepted. A poll counts while it waits for a
// task.
type Slots struct {
	limit int

	mu       sync.Mutex
	used     int
	waiting  int // ended tasks that wait to be adopted
	reserved int
	open     bool          // the executor may poll for tasks
	changed  chan struct{} // closed, and replaced, with every change that may free a slot
}

// NewSlots returns the slots of an executor that runs limit tasks at a time.
func NewSlots(limit int) *Slots {
	return &Slots{limit: limit, changed: make(chan struct{})}
}

// Reserve waits until a slot is free and the executor may poll for tasks. It fails
// only with the context.
func (s *Slots) Reserve(ctx context.Context) error {
	for {
		ok, changed := s.try()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// try reserves a slot, or returns a channel that is closed when a retry may
// succeed.
func (s *Slots) try() (bool, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open && s.used+s.reserved < s.limit {
		s.reserved++
		return true, nil
	}
	return false, s.changed
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

// change applies a change and wakes waiting callers.
func (s *Slots) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	if s.open && s.used+s.reserved < s.limit {
		close(s.changed)
		s.changed = make(chan struct{})
	}
}
