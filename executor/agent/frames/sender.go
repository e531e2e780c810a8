package frames

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
	// SharedPause is the same in an executor set, where recording a batch is a call to
	// an API server. It also applies to full batches, which are larger in a set.
	SharedPause = 500 * time.Millisecond
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

// Config is the configuration of a frame sender.
type Config struct {
	Key      run.Key
	Executor string
	Set      string
	API      run.ExecutorAPI
	Log      *slog.Logger
	// RecordBatch records a batch before the first try.
	RecordBatch func(b Batch)
	// Refused is called if the gateway answers that the claim is not ours, or that the
	// executor was removed. It reports whether that is permanent.
	Refused func(err error) bool
	// Pause, unless it is 0, is the least time between two batches, including full
	// ones, where recording a batch is expensive.
	Pause time.Duration
}

// Sender sends the frames of one task to the gateway, in order and in batches
// whose bounds stay the same over retries and restarts.
type Sender struct {
	config Config

	wake  chan struct{} // of capacity 1: there may be something to send
	Done  chan struct{} // closed when all frames are stored, or the log is abandoned
	steps Fold          // after the frames before next; used by run alone
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
	flight      Bounds        // a batch of an earlier process, to be sent again with the same bounds
	failing     bool          // the last try failed, or takes long
	behind      bool          // frames from nextToQueue on were read and not kept
	abandoned   bool          // the log was abandoned
	resume      chan struct{} // closed, and replaced, when the reader may continue

	interrupt func() // see OnRewind
}

type queued struct {
	frame run.Frame
	due   time.Time
}

// Batch is a batch that is about to be sent. All frames before it are stored.
type Batch struct {
	Bounds Bounds
	// Steps is the state of the steps before the batch, nil if it has not changed since
	// the last batch; Request is then valid too.
	Steps   []run.StepResult
	Request *Request
}

// Position is where an earlier process stopped sending.
type Position struct {
	// Next is the first frame that is not known to be stored, and Fold the state of the
	// steps before it.
	Next int64
	Fold Fold
	// Flight is a batch that may have been sent, nil for none.
	Flight *Bounds
	// Ended means that the number of the last frame is known: Last, or 0 if the log was
	// abandoned.
	Ended bool
	Last  int64
	// Setup holds the frames of the setup.
	Setup []run.Frame
}

// NewSender creates a frame sender that continues from a position.
func NewSender(config Config, at Position) *Sender {
	s := &Sender{
		config:      config,
		wake:        make(chan struct{}, 1),
		Done:        make(chan struct{}),
		resume:      make(chan struct{}),
		steps:       at.Fold,
		next:        at.Next,
		nextToQueue: at.Next,
	}
	if at.Flight != nil {
		s.flight = *at.Flight
	}
	if at.Ended {
		s.last, s.abandoned = at.Last, at.Last == 0
	}
	for _, f := range at.Setup {
		s.Push(f)
	}
	return s
}

// NextFrame returns the number of the next frame to offer.
func (s *Sender) NextFrame() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nextToQueue
}

// Push queues a frame regardless of the size of the queue. It ignores frames that
// are queued or stored already.
func (s *Sender) Push(f run.Frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(f)
}

func (s *Sender) add(f run.Frame) {
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

// Offer queues a frame. While the gateway accepts frames, offer waits for space in
// the queue. While it does not, offer discards frames that exceed the queue, and
// the reader must read them again: see OnRewind.
func (s *Sender) Offer(ctx context.Context, f run.Frame) error {
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

// Finish sets the number of the last frame.
func (s *Sender) Finish(last int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = last
	s.wakeSender()
}

// SkipTo skips lost frames, if none is queued.
func (s *Sender) SkipTo(n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) > 0 || s.flight.Last >= s.next {
		return false
	}
	s.next, s.nextToQueue = n, n
	return true
}

// MissesFrames reports whether frames are missing that can not be read any more.
func (s *Sender) MissesFrames() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.abandoned && (s.last == 0 || s.nextToQueue <= s.last)
}

// AllStored reports whether all frames up to the last are stored.
func (s *Sender) AllStored() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last > 0 && s.next > s.last
}

// Abandon ends the sending: frames that are not stored are lost.
func (s *Sender) Abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.abandoned = true
	s.queue, s.bytes = nil, 0
	s.wakeReader()
	s.wakeSender()
}

// OnRewind sets a function that is called once, when frames that were read and not
// kept can be read again. The reader then returns to the next frame to queue.
func (s *Sender) OnRewind(interrupt func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.interrupt = interrupt
	s.rewindReader()
}

// IsBehind reports whether frames were read and not kept.
func (s *Sender) IsBehind() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.behind && !s.abandoned
}

// rewindReader interrupts the reader if frames can be read again. The caller holds the
// lock.
func (s *Sender) rewindReader() {
	if s.behind && !s.failing && len(s.queue) == 0 && s.interrupt != nil {
		s.behind = false
		s.interrupt()
		s.interrupt = nil
	}
}

// wakeSender wakes the sender. The caller holds the lock.
func (s *Sender) wakeSender() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// wakeReader wakes waiting readers. The caller holds the lock.
func (s *Sender) wakeReader() {
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

// Waiting returns how many frames are queued, and their size.
func (s *Sender) Waiting() (frames, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue), s.bytes
}
