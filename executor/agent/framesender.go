package agent

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/drover-run/drover/run"
)

// Bounds of batches and the queue.
const (
	// batchBytes is the size from which a batch is sent at once.
	batchBytes = 256 << 10
	// queueBytes bounds the frames of one task in memory. Beyond it reading waits or,
	// while the gateway is unavailable, continues without keeping the frames.
	queueBytes = 1 << 20
	// batchPause is the least time between two batches that are not full. A line that
	// arrives after a longer silence is sent at once.
	batchPause = 100 * time.Millisecond
	// sharedPause is the same in an executor set, where recording a batch is a call to
	// an API server. It also applies to full batches, which are larger in a set.
	sharedPause = 500 * time.Millisecond
	sharedBytes = queueBytes
	// batchLinger is how long a frame waits for more frames, unless it is the last: a
	// short task is then one batch, and the delay is not visible.
	batchLinger = 40 * time.Millisecond
	// setupLinger is the same for the setup's frames. The frames of the first step
	// follow at once if there is no image to pull.
	setupLinger = 200 * time.Millisecond
	// sendTimeout bounds one call of the executor API.
	sendTimeout = 10 * time.Second
	// sendRetryLimit is the longest pause between two tries.
	sendRetryLimit = 5 * time.Second
	// frameOverhead is the size of a frame without its data.
	frameOverhead = 64
)

// senderConfig is the configuration of a frame sender.
type senderConfig struct {
	key      run.Key
	executor string
	set      string
	api      run.ExecutorAPI
	log      *slog.Logger
	// recordBatch records the bounds of a batch before the first try.
	recordBatch func(r record)
	// refused is called if the gateway answers that the claim is not ours, or that the
	// executor was removed. It reports whether that is permanent.
	refused func(err error) bool
	// pause, unless it is 0, is the least time between two batches, including full
	// ones, where recording a batch is expensive.
	pause time.Duration
}

// frameSender sends the frames of one task to the gateway, in order and in batches
// whose bounds stay the same over retries and restarts.
type frameSender struct {
	senderConfig

	wake  chan struct{} // of capacity 1: there may be something to send
	done  chan struct{} // closed when all frames are stored, or the log is abandoned
	steps stepFold      // after the frames before next; used by run alone
	fault error         // why the gateway refused frames last; used by run alone
	// refusing is set if no frame of the last batch was stored unchanged; used by run
	// alone.
	refusing bool

	mu          sync.Mutex
	queue       []queued
	due         time.Time // when the queue is sent at the latest, unless it is empty
	bytes       int
	next        int64         // the first frame that is not stored
	nextToQueue int64         // the next frame to be queued
	last        int64         // number of the last frame; 0 while it is unknown
	flight      bounds        // a batch of an earlier process, to be sent again with the same bounds
	failing     bool          // the last try failed, or takes long
	behind      bool          // frames from nextToQueue on were read and not kept
	abandoned   bool          // the log was abandoned
	resume      chan struct{} // closed, and replaced, when the reader may continue

	interrupt func() // see onRewind
}

type queued struct {
	frame run.Frame
	due   time.Time
}

// newFrameSender creates a frame sender that continues from the entry.
func newFrameSender(config senderConfig, e *entry) *frameSender {
	s := &frameSender{
		senderConfig: config,
		wake:         make(chan struct{}, 1),
		done:         make(chan struct{}),
		resume:       make(chan struct{}),
		steps:        foldFrom(e),
		next:         e.firstUnsent(),
		nextToQueue:  e.firstUnsent(),
	}
	if e.Flight != nil {
		s.flight = *e.Flight
	}
	if e.State == stateEnded {
		s.last, s.abandoned = e.Last, e.Last == 0
	}
	for _, f := range e.Setup {
		s.push(f)
	}
	return s
}

// nextFrame returns the number of the next frame to offer.
func (s *frameSender) nextFrame() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nextToQueue
}

// push queues a frame regardless of the size of the queue. It ignores frames that
// are queued or stored already.
func (s *frameSender) push(f run.Frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(f)
}

func (s *frameSender) add(f run.Frame) {
	if f.N != s.nextToQueue || s.behind || s.abandoned {
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
	s.nextToQueue++
	if sooner || s.bytes >= batchBytes || f.N == s.flight.Last || f.N == s.last {
		s.wakeSender()
	}
}

// offer queues a frame. While the gateway accepts frames, offer waits for space in
// the queue. While it does not, offer discards frames that exceed the queue, and
// the reader must read them again: see onRewind.
func (s *frameSender) offer(ctx context.Context, f run.Frame) error {
	for {
		s.mu.Lock()
		switch {
		case s.bytes < queueBytes || s.abandoned || f.N != s.nextToQueue || s.behind:
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

// finish sets the number of the last frame.
func (s *frameSender) finish(last int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = last
	s.wakeSender()
}

// skipTo skips lost frames, if none is queued.
func (s *frameSender) skipTo(n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) > 0 || s.flight.Last >= s.next {
		return false
	}
	s.next, s.nextToQueue = n, n
	return true
}

// missesFrames reports whether frames are missing that can not be read any more.
func (s *frameSender) missesFrames() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.abandoned && (s.last == 0 || s.nextToQueue <= s.last)
}

// allStored reports whether all frames up to the last are stored.
func (s *frameSender) allStored() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last > 0 && s.next > s.last
}

// abandon ends the sending: frames that are not stored are lost.
func (s *frameSender) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.abandoned = true
	s.queue, s.bytes = nil, 0
	s.wakeReader()
	s.wakeSender()
}

// onRewind sets a function that is called once, when frames that were read and not
// kept can be read again. The reader then returns to the next frame to queue.
func (s *frameSender) onRewind(interrupt func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.interrupt = interrupt
	s.rewindReader()
}

// isBehind reports whether frames were read and not kept.
func (s *frameSender) isBehind() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.behind && !s.abandoned
}

// rewindReader interrupts the reader if frames can be read again. The caller holds the
// lock.
func (s *frameSender) rewindReader() {
	if s.behind && !s.failing && len(s.queue) == 0 && s.interrupt != nil {
		s.behind = false
		s.interrupt()
		s.interrupt = nil
	}
}

// wakeSender wakes the sender. The caller holds the lock.
func (s *frameSender) wakeSender() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// wakeReader wakes waiting readers. The caller holds the lock.
func (s *frameSender) wakeReader() {
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
