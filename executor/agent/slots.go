package agent

import (
	"context"
	"sync"
)

// slots counts the slots of an executor. A task counts from its delivery, or its
// adoption, until its outcome was accepted. A poll counts while it waits for a
// task.
type slots struct {
	limit int

	mu       sync.Mutex
	used     int
	waiting  int // ended tasks that wait to be adopted
	reserved int
	open     bool          // the executor may poll for tasks
	changed  chan struct{} // closed, and replaced, with every change that may free a slot
}

func newSlots(limit int) *slots {
	return &slots{limit: limit, changed: make(chan struct{})}
}

// reserve waits until a slot is free and the executor may poll for tasks. It fails
// only with the context.
func (s *slots) reserve(ctx context.Context) error {
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
func (s *slots) try() (bool, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open && s.used+s.reserved < s.limit {
		s.reserved++
		return true, nil
	}
	return false, s.changed
}

// unreserve releases a reserved slot.
func (s *slots) unreserve() { s.change(func() { s.reserved-- }) }

// take counts a task, even beyond the limit.
func (s *slots) take() { s.change(func() { s.used++ }) }

// release stops counting a task.
func (s *slots) release() { s.change(func() { s.used-- }) }

// suspend counts a task as one that only waits to be adopted.
func (s *slots) suspend() { s.change(func() { s.used, s.waiting = s.used-1, s.waiting+1 }) }

// finish ends the wait of such a task.
func (s *slots) finish() { s.change(func() { s.waiting-- }) }

// setOpen sets whether the executor may poll for tasks.
func (s *slots) setOpen(open bool) { s.change(func() { s.open = open }) }

// inUse returns how many tasks count.
func (s *slots) inUse() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// idle reports whether no task counts or waits, and no poll may return one.
func (s *slots) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used == 0 && s.waiting == 0 && s.reserved == 0
}

// change applies a change and wakes waiting callers.
func (s *slots) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	if s.open && s.used+s.reserved < s.limit {
		close(s.changed)
		s.changed = make(chan struct{})
	}
}
