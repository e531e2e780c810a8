package executor

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/drover-run/drover/run"
)

// Bounds of shipping.
const (
	// batchBytes is the size from which a batch is sent at once.
	batchBytes = 256 << 10
	// queueBytes bounds the frames of one task in memory. Beyond it reading
	// waits, or goes on without keeping what it reads while the desk is away.
	queueBytes = 1 << 20
	// batchPause is the least time between two batches that are not full. A
	// line that comes later than that after the one before it is sent at once.
	batchPause = 100 * time.Millisecond
	// sharedPause is the same in an executor set, where each batch is noted
	// by a call to an API server. It holds for full batches too, which are
	// larger there instead.
	sharedPause = 500 * time.Millisecond
	sharedBytes = queueBytes
	// batchLinger is how long a frame waits for company, unless it is the
	// last: it lets a short task be one batch, and nobody sees the difference.
	batchLinger = 40 * time.Millisecond
	// setupLinger is the same for the setup's frames, which are followed by
	// the first step's at once where there is nothing to pull.
	setupLinger = 200 * time.Millisecond
	// shipTimeout bounds one call of the desk.
	shipTimeout = 10 * time.Second
	// shipRetryLimit is the longest pause between two tries.
	shipRetryLimit = 5 * time.Second
	// frameOverhead is what a frame counts beside its data.
	frameOverhead = 64
)

// shipping is what a shipper works with.
type shipping struct {
	key      run.Key
	executor string
	set      string
	desk     run.Desk
	log      *slog.Logger
	// note writes the bounds of a batch down before it is first tried.
	note func(r record)
	// refused is called when the desk says that the claim is not ours, or that
	// the executor was removed. It reports whether that is for good.
	refused func(err error) bool
	// pause, unless it is 0, is the least time between two batches, full ones
	// as well, where to note one is dear.
	pause time.Duration
}

// shipper sends the frames of one task to the desk, in order and in batches
// whose bounds stay the same over retries and restarts.
type shipper struct {
	shipping

	wake  chan struct{} // of capacity 1: there may be something to send
	done  chan struct{} // closed when all is stored, or given up
	steps stepFold      // after the frames before next; used by run alone
	fault error         // why the desk refused frames last; used by run alone
	// refusing says that of the last batch nothing was stored as it is; used by
	// run alone.
	refusing bool

	mu      sync.Mutex
	queue   []queued
	due     time.Time // when the queue is sent at the latest, unless it is empty
	bytes   int
	next    int64         // the first frame that is not stored
	want    int64         // the next frame to be queued
	last    int64         // the number of the last frame; 0 while it is not known
	flight  bounds        // a batch of an earlier process, to be sent again as it was
	failing bool          // the last try failed, or takes long
	behind  bool          // frames from want on were read and not kept
	given   bool          // given up
	resume  chan struct{} // closed, and made anew, when the reader may go on

	interrupt func() // see onRoom
}

type queued struct {
	frame run.Frame
	due   time.Time
}

// newShipper makes a shipper that goes on where the entry says.
func newShipper(with shipping, e *entry) *shipper {
	s := &shipper{
		shipping: with,
		wake:     make(chan struct{}, 1),
		done:     make(chan struct{}),
		resume:   make(chan struct{}),
		steps:    foldFrom(e),
		next:     e.unshipped(),
		want:     e.unshipped(),
	}
	if e.Flight != nil {
		s.flight = *e.Flight
	}
	if e.State == stateEnded {
		s.last, s.given = e.Last, e.Last == 0
	}
	for _, f := range e.Setup {
		s.push(f)
	}
	return s
}

// wanted returns the number of the frame to be offered next.
func (s *shipper) wanted() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.want
}

// push queues a frame whatever the size of the queue. Frames that are not
// wanted, since they are queued or stored already, are ignored.
func (s *shipper) push(f run.Frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(f)
}

func (s *shipper) add(f run.Frame) {
	if f.N != s.want || s.behind || s.given {
		return
	}
	linger := batchLinger
	if f.Step == run.SetupStep {
		linger = setupLinger
	}
	q := queued{frame: f, due: time.Now().Add(linger)}
	sooner := len(s.queue) == 0 || q.due.Before(s.due)
	if sooner {
		s.due = q.due
	}
	s.queue = append(s.queue, q)
	s.bytes += frameSize(f)
	s.want++
	if sooner || s.bytes >= batchBytes || f.N == s.flight.Last || f.N == s.last {
		s.poke()
	}
}

// offer queues a frame, waiting for room while the desk takes frames. While
// it does not, frames beyond the room are not kept, and the reader must come
// back for them: see behindOf.
func (s *shipper) offer(ctx context.Context, f run.Frame) error {
	for {
		s.mu.Lock()
		switch {
		case s.bytes < queueBytes || s.given || f.N != s.want || s.behind:
			s.add(f)
			s.mu.Unlock()
			return nil
		case s.failing:
			s.behind = true
			s.mu.Unlock()
			return nil
		}
		resume := s.resume
		s.mu.Unlock()
		select {
		case <-resume:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// finish says that last is the number of the last frame.
func (s *shipper) finish(last int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = last
	s.poke()
}

// skipTo leaves out frames that can not be had any more, if none is queued.
func (s *shipper) skipTo(n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) > 0 || s.flight.Last >= s.next {
		return false
	}
	s.next, s.want = n, n
	return true
}

// lacks reports whether frames are missing that no reader will bring.
func (s *shipper) lacks() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.given && (s.last == 0 || s.want <= s.last)
}

// hasAll reports whether all frames up to the last are stored.
func (s *shipper) hasAll() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last > 0 && s.next > s.last
}

// giveUp ends the shipping: what is not stored will not be.
func (s *shipper) giveUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.given = true
	s.queue, s.bytes = nil, 0
	s.wakeReader()
	s.poke()
}

// onRoom sets what is called, once, when frames that were read and not kept
// can be read again: the reader goes back to what is wanted.
func (s *shipper) onRoom(interrupt func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.interrupt = interrupt
	s.goBack()
}

// isBehind reports whether frames were read and not kept.
func (s *shipper) isBehind() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.behind && !s.given
}

// goBack sends the reader back if it is time; the lock is held.
func (s *shipper) goBack() {
	if s.behind && !s.failing && len(s.queue) == 0 && s.interrupt != nil {
		s.behind = false
		s.interrupt()
		s.interrupt = nil
	}
}

// poke wakes the sender; the lock is held.
func (s *shipper) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// wakeReader wakes readers that wait; the lock is held.
func (s *shipper) wakeReader() {
	close(s.resume)
	s.resume = make(chan struct{})
}

func frameSize(f run.Frame) int {
	size := len(f.Data) + frameOverhead
	for k, v := range f.Outputs {
		size += len(k) + len(v)
	}
	return size
}
