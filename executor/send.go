package executor

import (
	"context"
	"log/slog"
	"time"

	"github.com/drover-run/drover/run"
)

// run sends until all frames up to the last are stored, or the context ends.
func (s *shipper) run(ctx context.Context) {
	var lastShip time.Time
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		batch, pause, finished := s.cut(time.Now(), lastShip)
		switch {
		case finished:
			close(s.done)
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
		if !s.ship(ctx, batch, &splits) {
			return
		}
		lastShip = time.Now()
	}
}

// idlePause is how long the sender sleeps while nothing is queued; a new frame
// wakes it.
const idlePause = time.Hour

// cut returns the batch that is due, or else how long to wait.
func (s *shipper) cut(now, lastShip time.Time) (batch []run.Frame, pause time.Duration, finished bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.given || s.last > 0 && s.next > s.last {
		return nil, 0, true
	}
	if len(s.queue) == 0 {
		return nil, idlePause, false
	}
	if s.flight.Last >= s.next {
		// Recorded bounds must not change: wait for the whole batch.
		if s.want <= s.flight.Last {
			return nil, idlePause, false
		}
		return s.frames(int(s.flight.Last - s.next + 1)), 0, false
	}
	limit, next := batchBytes, lastShip.Add(max(s.pause, batchPause))
	if s.pause > 0 {
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
	switch complete := s.last > 0 && s.want > s.last; {
	case complete:
	case size >= limit && (s.pause == 0 || !now.Before(next)):
	case size >= limit:
		return nil, next.Sub(now), false
	case now.Before(due):
		return nil, due.Sub(now), false
	}
	return s.frames(n), 0, false
}

// frames returns the first n frames of the queue; the lock is held.
func (s *shipper) frames(n int) []run.Frame {
	batch := make([]run.Frame, n)
	for i := range batch {
		batch[i] = s.queue[i].frame
	}
	return batch
}

// ship sends a batch until it is stored, or the log is abandoned. It returns false
// if the context ended. If the gateway refuses content, ship finds it by halving
// the batch, at most splits times, and replaces it: see redaction.
func (s *shipper) ship(ctx context.Context, batch []run.Frame, splits *int) bool {
	first, last := batch[0].N, batch[len(batch)-1].N
	s.note(record{Flight: &bounds{First: first, Last: last}, Steps: s.steps.changed(), Ask: s.steps.ask})
	if ctx.Err() != nil {
		return false
	}
	retry := pauses(batchPause, shipRetryLimit)
	for as := asTheyAre; ; {
		err := s.try(ctx, run.FrameBatch{Key: s.key, Executor: s.executor, Set: s.set, Frames: as.of(batch, s.fault)})
		if ctx.Err() != nil {
			return false
		}
		switch run.CodeOf(err) {
		case "":
			s.refusing = as != asTheyAre
			s.stored(batch)
			return true
		case run.CodeConflict, run.CodeNotFound, run.CodeForbidden:
			s.log.Warn("gateway refuses frames", slog.Any("error", err))
			if s.refused(err) {
				s.giveUp()
			}
		case run.CodeInvalid, run.CodeTooLarge, run.CodeNotSupported, run.CodeUnreadable:
			if half := len(batch) / 2; half > 0 && *splits > 0 {
				*splits--
				return s.ship(ctx, batch[:half], splits) && (s.isGiven() || s.ship(ctx, batch[half:], splits))
			}
			s.leaveOut(err, as, first, last)
			as++
			if s.isGiven() {
				return true
			}
			continue // waiting does not help
		default:
			s.log.Debug("failed to send frames", slog.Any("error", err))
		}
		s.setFailing(true)
		if s.isGiven() {
			return true
		}
		if !retry.wait(ctx, nil) {
			return false
		}
	}
}

// try makes one call, and marks the sender as failing while the call takes long.
func (s *shipper) try(ctx context.Context, b run.FrameBatch) error {
	slow := time.AfterFunc(shipTimeout/5, func() { s.setFailing(true) })
	defer slow.Stop()
	callCtx, cancel := context.WithTimeout(ctx, shipTimeout)
	defer cancel()
	return s.desk.Ship(callCtx, b)
}

func (s *shipper) setFailing(failing bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing = failing
	s.wakeReader()
}

func (s *shipper) isGiven() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.given
}

// stored removes a batch from the queue.
func (s *shipper) stored(batch []run.Frame) {
	for _, f := range batch {
		s.steps.add(f)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing = false
	s.next = batch[len(batch)-1].N + 1
	if s.given {
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
	s.goBack()
}
