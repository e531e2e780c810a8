package registration

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/drover-run/drover/run"
)

// overtake is how long polls may be overtaken by others that need less of the
// executor's resources. After that time no other poll gets any before them, so that a large
// task does not wait forever behind small ones.
const overtake = time.Minute

// Slots counts the slots of an executor, and the resources that it offers. A task counts
// from its delivery, or its adoption, until its outcome was accepted. A poll counts while
// it waits for a task.
type Slots struct {
	limit int
	offer run.Capacity // all slots together; 0: that resource is not counted

	mu       sync.Mutex
	allowed  int // slots that the gateway allows to use; negative: all of them
	used     int
	waiting  int // ended tasks that wait to be adopted
	reserved int
	taken    run.Capacity // by the tasks that count
	held     run.Capacity // by the polls that wait for a task
	open     bool         // the executor may poll for tasks
	// waiters are the polls that wait for a slot, in the order in which they get one.
	waiters []*waiter
	// labels identify the labels for which tasks wait, and labelsChanged is closed, and
	// replaced, when they change.
	labels        []string
	labelsOnly    bool // no other tasks wait
	labelsChanged chan struct{}
	// requests has what the tasks of labels reserve.
	requests map[string]run.Resources
}

// waiter is a poll that waits for a slot.
type waiter struct {
	labels string        // of the queue that it polls; "": the queue of the pool
	ready  chan struct{} // closed once it has a slot
	took   run.Capacity  // set before
	since  time.Time     // since when it is overtaken; zero if it is not
}

// NewSlots returns the slots of an executor that runs limit tasks at a time, which share
// its offer.
func NewSlots(limit int, offer run.Capacity) *Slots {
	return &Slots{limit: limit, offer: offer, allowed: -1, labelsChanged: make(chan struct{}), requests: map[string]run.Resources{}}
}

// Reserve waits until a slot is free and the executor may poll for tasks with the given
// labels (see run.LabelsID; "" for those of the whole pool). Polls get slots in the
// order of their calls, so that no queue waits forever behind another. Reserve fails
// only with the context. The caller must call release once.
func (s *Slots) Reserve(ctx context.Context, labels string) (release func(), err error) {
	w := &waiter{labels: labels, ready: make(chan struct{})}
	release = func() { s.change(func() { s.reserved, s.held = s.reserved-1, minus(s.held, w.took) }) }
	s.change(func() { s.waiters = append(s.waiters, w) })
	select {
	case <-w.ready:
		return release, nil
	case <-ctx.Done():
	}
	s.change(func() {
		if i := slices.Index(s.waiters, w); i >= 0 {
			s.waiters = slices.Delete(s.waiters, i, i+1)
			return
		}
		s.reserved, s.held = s.reserved-1, minus(s.held, w.took) // it got a slot at the same moment
	})
	return nil, context.Cause(ctx)
}

// Requested returns what the tasks with the given labels reserve: see Reserve.
func (s *Slots) Requested(labels string) run.Resources {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[labels]
}

// Share returns what a task takes that asks for the given resources: of those that it
// does not ask for, the share of a slot, but no GPU.
func (s *Slots) Share(asked run.Resources) run.Capacity {
	of := func(asked, offered int64) int64 {
		switch {
		case offered == 0:
			return 0
		case asked > 0:
			return asked
		}
		return offered / int64(s.limit)
	}
	c := asked.Capacity()
	return run.Capacity{CPU: of(c.CPU, s.offer.CPU), Memory: of(c.Memory, s.offer.Memory), GPUs: c.GPUs}
}

// Take counts a task, even beyond the limit.
func (s *Slots) Take(c run.Capacity) {
	s.change(func() { s.used, s.taken = s.used+1, plus(s.taken, c) })
}

// Release stops counting a task.
func (s *Slots) Release(c run.Capacity) {
	s.change(func() { s.used, s.taken = s.used-1, minus(s.taken, c) })
}

// Suspend counts a task as one that only waits to be adopted.
func (s *Slots) Suspend(c run.Capacity) {
	s.change(func() { s.used, s.taken, s.waiting = s.used-1, minus(s.taken, c), s.waiting+1 })
}

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
		if len(s.requests) >= maxRequests {
			clear(s.requests)
		}
		for i, l := range desired.Labels {
			s.requests[labels[i]] = run.ResourcesOf(l)
		}
		if !slices.Equal(labels, s.labels) {
			s.labels = labels
			close(s.labelsChanged)
			s.labelsChanged = make(chan struct{})
		}
	})
}

// maxRequests bounds Slots.requests. A task that is delivered after its labels were
// forgotten takes the share of a slot.
const maxRequests = 10_000

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

// InUse returns how many slots are in use: as many as tasks count, or more, if the tasks
// take a larger share of the resources.
func (s *Slots) InUse() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used == 0 {
		return 0
	}
	return max(s.used, s.taken.Slots(s.offer, s.limit))
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
			w.since = time.Time{}
			i++
			continue
		}
		took := s.Share(s.requests[w.labels])
		if !s.fits(took) {
			if w.since.IsZero() {
				w.since = time.Now()
			}
			if time.Since(w.since) >= overtake {
				return
			}
			i++
			continue
		}
		s.waiters = slices.Delete(s.waiters, i, i+1)
		w.took = took
		s.reserved, s.held = s.reserved+1, plus(s.held, took)
		close(w.ready)
	}
}

// eligible reports whether a poll may get a free slot.
func (s *Slots) eligible(w *waiter) bool {
	if w.labels != "" {
		return slices.Contains(s.labels, w.labels)
	}
	if !s.labelsOnly {
		return true
	}
	// An empty poll would hold the last slot for which tasks with labels wait, or the
	// resources that they need.
	own := s.Share(run.Resources{})
	return s.free() > 1 && !slices.ContainsFunc(s.labels, func(l string) bool { return !s.fits(plus(own, s.Share(s.requests[l]))) })
}

// fits reports whether the executor has resources left.
func (s *Slots) fits(c run.Capacity) bool {
	all := plus(plus(s.taken, s.held), c)
	return (s.offer.CPU == 0 || all.CPU <= s.offer.CPU) && (s.offer.Memory == 0 || all.Memory <= s.offer.Memory) && all.GPUs <= s.offer.GPUs
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

func plus(a, b run.Capacity) run.Capacity {
	return run.Capacity{CPU: a.CPU + b.CPU, Memory: a.Memory + b.Memory, GPUs: a.GPUs + b.GPUs}
}

func minus(a, b run.Capacity) run.Capacity {
	return run.Capacity{CPU: a.CPU - b.CPU, Memory: a.Memory - b.Memory, GPUs: a.GPUs - b.GPUs}
}
