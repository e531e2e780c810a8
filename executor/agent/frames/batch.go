package frames

import (
	"context"
	"time"

	"github.com/drover-run/drover/internal/retry"
	"github.com/drover-run/drover/run"
)

// Run sends until all frames up to the last are stored, or the context ends.
func (s *Sender) Run(ctx context.Context) {
	var lastSend time.Time
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		batch, pause, finished := s.cut(time.Now(), lastSend)
		switch {
		case finished:
			close(s.Done)
			return
		case batch == nil:
			timer.Reset(pause)
			select {
			case <-s.wake:
			case <-timer.C:
			case <-ctx.Done():
				return
			}
			continue
		}
		splits := maxSplits
		if s.refusing {
			splits = 0 // the gateway seems to refuse all frames
		}
		if !s.sendBatch(ctx, batch, &splits) {
			return
		}
		lastSend = time.Now()
	}
}

// idlePause is how long the sender sleeps while nothing is queued; a new frame
// wakes it.
const idlePause = time.Hour

// cut returns the batch that is due, or else how long to wait.
func (s *Sender) cut(now, lastSend time.Time) (batch []run.Frame, pause time.Duration, finished bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.abandoned || s.last > 0 && s.next > s.last {
		return nil, 0, true
	}
	if len(s.queue) == 0 {
		return nil, idlePause, false
	}
	if s.flight.Last >= s.next {
		// Recorded bounds must not change: wait for the whole batch.
		if s.nextToQueue <= s.flight.Last {
			return nil, idlePause, false
		}
		return s.frames(int(s.flight.Last - s.next + 1)), 0, false
	}
	limit, next := batchBytes, lastSend.Add(max(s.config.Pause, batchPause))
	if s.config.Pause > 0 {
		limit = sharedBytes
	}
	n, size := 0, 0
	for n < len(s.queue) && n < run.MaxBatchFrames && size < limit {
		size += frameSize(s.queue[n].frame)
		n++
	}
	due := s.due
	if next.After(due) {
		due = next
	}
	switch complete := s.last > 0 && s.nextToQueue > s.last; {
	case complete:
	case size >= limit && (s.config.Pause == 0 || !now.Before(next)):
	case size >= limit:
		return nil, next.Sub(now), false
	case now.Before(due):
		return nil, due.Sub(now), false
	}
	return s.frames(n), 0, false
}

// frames returns the first n frames of the queue; the lock is held.
func (s *Sender) frames(n int) []run.Frame {
	batch := make([]run.Frame, n)
	for i := range batch {
		batch[i] = s.queue[i].frame
	}
	return batch
}

// sendBatch sends a batch until it is stored, or the log is abandoned. It returns false
// if the context ended. If the gateway refuses content, ship finds it by halving
// the batch, at most splits times, and replaces it: see redaction.
func (s *Sender) sendBatch(ctx context.Context, batch []run.Frame, splits *int) bool {
	first, last := batch[0].N, batch[len(batch)-1].N
	end := batch[len(batch)-1].Kind == run.FrameTaskEnd
	s.config.RecordBatch(Batch{Bounds: Bounds{First: first, Last: last, End: end}, Steps: s.steps.changed(), Request: s.steps.Request})
	if ctx.Err() != nil {
		return false
	}
	pauses := retry.Doubling(batchPause, sendRetryLimit)
	for level := redactNone; ; {
		err := s.try(ctx, run.FrameBatch{Key: s.config.Key, Executor: s.config.Executor, Set: s.config.Set, Frames: level.apply(batch, s.fault)})
		if ctx.Err() != nil {
			return false
		}
		switch run.CodeOf(err) {
		case "":
			s.refusing = level != redactNone
			s.stored(batch)
			return true
		case run.CodeConflict, run.CodeNotFound, run.CodeForbidden:
			s.config.Log.WarnContext(ctx, "gateway refuses frames", "error", err)
			if s.config.Refused(err) {
				s.Abandon()
			}
		case run.CodeInvalid, run.CodeTooLarge, run.CodeNotSupported, run.CodeUnreadable:
			if half := len(batch) / 2; half > 0 && *splits > 0 {
				*splits--
				return s.sendBatch(ctx, batch[:half], splits) && (s.isAbandoned() || s.sendBatch(ctx, batch[half:], splits))
			}
			s.logRefused(err, level, first, last)
			level++
			if s.isAbandoned() {
				return true
			}
			continue // waiting does not help
		default:
			s.config.Log.DebugContext(ctx, "failed to send frames", "error", err)
		}
		s.setFailing(true)
		if s.isAbandoned() {
			return true
		}
		if retry.Sleep(ctx, pauses.NextBackOff()) != nil {
			return false
		}
	}
}

// try makes one call, and marks the sender as failing while the call takes long.
func (s *Sender) try(ctx context.Context, b run.FrameBatch) error {
	slow := time.AfterFunc(sendTimeout/5, func() { s.setFailing(true) })
	defer slow.Stop()
	callCtx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	return s.config.API.AppendFrames(callCtx, b)
}

func (s *Sender) setFailing(failing bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing = failing
	s.wakeReader()
}

func (s *Sender) isAbandoned() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.abandoned
}

// stored removes a batch from the queue.
func (s *Sender) stored(batch []run.Frame) {
	for _, f := range batch {
		s.steps.Add(f)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing = false
	s.next = batch[len(batch)-1].N + 1
	if s.abandoned {
		return
	}
	for _, f := range batch {
		s.bytes -= frameSize(f)
	}
	s.queue = append([]queued(nil), s.queue[len(batch):]...)
	for i, q := range s.queue {
		if i == 0 || q.due.Before(s.due) {
			s.due = q.due
		}
	}
	s.wakeReader()
	s.rewindReader()
}
