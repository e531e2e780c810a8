package frames

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

// recordingAPI records the frames that are sent.
type recordingAPI struct {
	run.ExecutorAPI

	mu      sync.Mutex
	err     error
	delay   time.Duration
	refuse  func(frames []run.Frame) error
	calls   int
	batches []Bounds
	times   []time.Time
	frames  []run.Frame
}

func (d *recordingAPI) AppendFrames(ctx context.Context, b run.FrameBatch) error {
	d.mu.Lock()
	delay, err := d.delay, d.err
	d.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-ctx.Done():
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.calls++; d.refuse != nil {
		if err := d.refuse(b.Frames); err != nil {
			return err
		}
	}
	d.frames = append(d.frames, b.Frames...)
	d.batches = append(d.batches, Bounds{First: b.Frames[0].N, Last: b.Frames[len(b.Frames)-1].N})
	d.times = append(d.times, time.Now())
	return nil
}

func (d *recordingAPI) set(err error, delay time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err, d.delay = err, delay
}

// start is the position of a task that has just begun.
func start() Position { return Position{Next: 1} }

// withSender runs a frame sender until the test's body returns.
func withSender(t *testing.T, at Position, body func(t *testing.T, s *Sender, d *recordingAPI)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &recordingAPI{}
		s := NewSender(Config{
			API:         d,
			Log:         slog.New(slog.DiscardHandler),
			RecordBatch: func(Batch) {},
			Refused:     func(error) bool { return false },
		}, at)
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { s.Run(ctx) })
		body(t, s, d)
		cancel()
		group.Wait()
	})
}

func output(n int64, size int) run.Frame {
	return run.Frame{Version: 1, N: n, Kind: run.FrameOutput, Data: make([]byte, size)}
}

func TestFrameSender_sends_a_short_task_as_one_batch(t *testing.T) {
	withSender(t, start(), func(t *testing.T, s *Sender, d *recordingAPI) {
		began := time.Now()
		for n := range int64(5) {
			s.Push(output(n+1, 10))
		}
		s.Finish(5)
		<-s.Done
		require.Equal(t, []Bounds{{First: 1, Last: 5}}, d.batches)
		require.Equal(t, began, d.times[0], "the end is sent at once")
	})
}

func TestFrameSender_sends_sparse_lines_soon(t *testing.T) {
	withSender(t, start(), func(t *testing.T, s *Sender, d *recordingAPI) {
		for n := range int64(3) {
			at := time.Now()
			s.Push(output(n+1, 10))
			advance(time.Second)
			synctest.Wait()
			require.Len(t, d.times, int(n)+1)
			require.Equal(t, batchLinger, d.times[n].Sub(at))
		}
	})
}

func TestFrameSender_gathers_dense_lines(t *testing.T) {
	withSender(t, start(), func(t *testing.T, s *Sender, d *recordingAPI) {
		for n := range int64(1000) {
			s.Push(output(n+1, 10))
			advance(time.Millisecond)
		}
		advance(time.Second)
		synctest.Wait()
		require.LessOrEqual(t, len(d.batches), 12)
		for i := 1; i < len(d.times); i++ {
			require.Equal(t, batchPause, d.times[i].Sub(d.times[i-1]))
		}
	})
}

func TestFrameSender_sends_full_batches_at_once(t *testing.T) {
	withSender(t, start(), func(t *testing.T, s *Sender, d *recordingAPI) {
		began := time.Now()
		for n := range int64(200) {
			require.NoError(t, s.Offer(t.Context(), output(n+1, run.MaxFrameData)))
		}
		s.Finish(200)
		<-s.Done
		require.Equal(t, began, d.times[len(d.times)-1])
		require.Greater(t, len(d.batches), 2)
	})
}

func TestFrameSender_waits_for_a_slow_API(t *testing.T) {
	withSender(t, start(), func(t *testing.T, s *Sender, d *recordingAPI) {
		d.set(nil, time.Second)
		began := time.Now()
		for n := range int64(1000) {
			require.NoError(t, s.Offer(t.Context(), output(n+1, run.MaxFrameData)))
			s.mu.Lock()
			require.LessOrEqual(t, s.bytes, queueBytes+run.MaxFrameData+frameOverhead)
			require.False(t, s.behind)
			s.mu.Unlock()
		}
		require.Greater(t, time.Since(began), 10*time.Second)
		s.Finish(1000)
		<-s.Done
	})
}

func TestFrameSender_keeps_little_while_the_API_is_unavailable(t *testing.T) {
	withSender(t, start(), func(t *testing.T, s *Sender, d *recordingAPI) {
		const last = 5000
		d.set(run.Errorf(run.CodeUnavailable, "away"), 0)
		rewind := make(chan struct{})
		s.OnRewind(func() { close(rewind) })
		began := time.Now()
		for n := range int64(last) {
			require.NoError(t, s.Offer(t.Context(), output(n+1, run.MaxFrameData)))
			s.mu.Lock()
			require.LessOrEqual(t, s.bytes, queueBytes+run.MaxFrameData+frameOverhead)
			s.mu.Unlock()
		}
		require.Less(t, time.Since(began), time.Minute, "the reader is not blocked")
		s.Finish(last)
		require.True(t, s.IsBehind())
		advance(time.Minute)
		d.set(nil, 0)
		<-rewind
		for n := s.NextFrame(); n <= last; n++ {
			require.NoError(t, s.Offer(t.Context(), output(n, run.MaxFrameData)))
		}
		<-s.Done
		next := int64(1)
		for _, b := range d.batches {
			require.Equal(t, next, b.First)
			next = b.Last + 1
		}
		require.Equal(t, int64(last+1), next)
	})
}

func TestFrameSender_keeps_the_bounds_of_an_earlier_process(t *testing.T) {
	at := Position{Next: 4, Flight: &Bounds{First: 4, Last: 7}}
	withSender(t, at, func(t *testing.T, s *Sender, d *recordingAPI) {
		require.Equal(t, int64(4), s.NextFrame())
		for n := int64(4); n <= 6; n++ {
			s.Push(output(n, 10))
		}
		advance(time.Minute)
		synctest.Wait()
		require.Empty(t, d.batches)
		for n := int64(7); n <= 9; n++ {
			s.Push(output(n, 10))
		}
		s.Finish(9)
		<-s.Done
		require.Equal(t, []Bounds{{First: 4, Last: 7}, {First: 8, Last: 9}}, d.batches)
	})
}

func TestFrameSender_records_the_batch_first(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &recordingAPI{}
		var noted []string
		s := NewSender(Config{
			API: d,
			Log: slog.New(slog.DiscardHandler),
			RecordBatch: func(b Batch) {
				noted = append(noted, fmt.Sprintf("%d-%d after %d, %d steps", b.Bounds.First, b.Bounds.Last, len(d.batches), len(b.Steps)))
			},
		}, start())
		s.Push(run.Frame{N: 1, Kind: run.FrameStepStart})
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { s.Run(ctx) })
		advance(time.Second)
		s.Push(run.Frame{N: 2, Kind: run.FrameStepEnd, Status: run.StatusSuccess})
		s.Finish(2)
		<-s.Done
		cancel()
		group.Wait()
		require.Equal(t, []string{"1-1 after 0, 0 steps", "2-2 after 1, 1 steps"}, noted)
		require.Equal(t, run.StatusSuccess, s.steps.Results()[0].Status)
	})
}

// advance advances virtual time.
func advance(d time.Duration) { <-time.After(d) }
