package engine

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// lateFrames is how long a follower waits for the last frames of a task that
// is final already: an executor that lost the gateway completes first and
// ships on.
const lateFrames = 10 * time.Second

// Logs implements run.Service.
func (e *Engine) Logs(ctx context.Context, q run.LogQuery) (run.LogReader, error) {
	if q.Offset < 0 {
		return nil, run.Errorf(run.CodeInvalid, "the offset must not be negative")
	}
	t, err := e.store.GetTask(ctx, q.Run, q.Task)
	if err != nil {
		return nil, err
	}
	if q.Step != nil && (*q.Step < run.SetupStep || *q.Step >= len(t.Steps)) {
		return nil, run.Errorf(run.CodeInvalid, "task %s has steps 0 to %d, and setup", q.Task, len(t.Steps)-1)
	}
	if q.Attempt < 0 {
		return nil, run.Errorf(run.CodeInvalid, "the attempt must not be negative")
	}
	if q.Attempt > t.Attempt {
		return nil, run.Errorf(run.CodeNotFound, "task %s has no attempt %d; its newest is %d", q.Task, q.Attempt, t.Attempt)
	}
	if q.Attempt == 0 {
		q.Attempt = t.Attempt // still 0 where nothing has begun
	}
	changed, stop := e.store.Watch(q.Run)
	return &logReader{engine: e, query: q, task: t, changed: changed, stop: stop, skip: q.Offset, offset: q.Offset}, nil
}

// logReader walks the batches of one attempt.
type logReader struct {
	engine  *Engine
	query   run.LogQuery
	task    run.Task
	changed <-chan struct{}
	stop    func()

	at     records.BatchRef // of the batch read last
	seen   int64            // greatest frame number of its key so far
	frames []run.Frame      // of it, not yet given out
	skip   int64            // bytes still to be left out
	offset int64            // of the next chunk
	ended  bool             // what is followed has ended by its own frames
	late   *time.Timer      // set once the task is final and frames are missing
}

// Close implements io.Closer.
func (r *logReader) Close() error {
	r.stop()
	if r.late != nil {
		r.late.Stop()
	}
	return nil
}

// Next implements run.LogReader.
func (r *logReader) Next(ctx context.Context) (run.LogChunk, error) {
	for {
		for len(r.frames) > 0 {
			f := r.frames[0]
			r.frames = r.frames[1:]
			if chunk, ok := r.take(f); ok {
				return chunk, nil
			}
		}
		if r.ended {
			return run.LogChunk{}, io.EOF
		}
		more, err := r.load(ctx)
		if err != nil {
			return run.LogChunk{}, err
		}
		if more {
			continue
		}
		if done, err := r.wait(ctx); done || err != nil {
			if err == nil {
				err = io.EOF
			}
			return run.LogChunk{}, err
		}
	}
}

// take turns an output frame of what is asked into a chunk, and notes the ends.
func (r *logReader) take(f run.Frame) (run.LogChunk, bool) {
	selected := r.query.Step == nil || f.Step == *r.query.Step
	switch f.Kind {
	case run.FrameTaskEnd:
		r.ended = true
	case run.FrameStepEnd:
		r.ended = r.ended || (r.query.Step != nil && selected)
	case run.FrameStepStart:
		// The setup has ended once a step begins.
		r.ended = r.ended || (r.query.Step != nil && *r.query.Step == run.SetupStep)
	case run.FrameOutput:
		if !selected {
			return run.LogChunk{}, false
		}
		data := f.Data
		if n := min(r.skip, int64(len(data))); n > 0 {
			data, r.skip = data[n:], r.skip-n
		}
		if len(data) == 0 {
			return run.LogChunk{}, false
		}
		chunk := run.LogChunk{Offset: r.offset, Time: f.Time, Step: f.Step, Stream: f.Stream, Data: data}
		r.offset += int64(len(data))
		return chunk, true
	case run.FrameOutputs:
	}
	return run.LogChunk{}, false
}

// load reads the next stored batch, if there is one.
func (r *logReader) load(ctx context.Context) (bool, error) {
	if r.query.Attempt == 0 {
		return false, nil
	}
	batches, err := r.engine.store.Batches(ctx, r.query.Run, r.task.Number, r.query.Attempt, r.at)
	if err != nil || len(batches) == 0 {
		return false, err
	}
	b := batches[0]
	frames, err := r.engine.logs.GetFrames(ctx, b.Source, b.First)
	if err != nil {
		return false, err
	}
	if b.Key != r.at.Key {
		r.seen = 0
	}
	// A host that lost power may have sent a batch again in other bounds.
	r.frames = slices.DeleteFunc(frames, func(f run.Frame) bool { return f.N <= r.seen })
	r.at = records.BatchRef{Key: b.Key, First: b.First}
	r.seen = max(r.seen, b.Last)
	return true, nil
}

// wait waits for more to come. done says that nothing will.
func (r *logReader) wait(ctx context.Context) (done bool, err error) {
	if !r.query.Follow {
		return true, nil
	}
	t, err := r.engine.store.GetTask(ctx, r.query.Run, r.query.Task)
	if err != nil {
		return false, err
	}
	if r.query.Attempt == 0 && t.Attempt > 0 {
		r.query.Attempt = t.Attempt
		return false, nil
	}
	if t.Status.Final() || t.Attempt > r.query.Attempt {
		if r.query.Attempt == 0 || t.Executor == "" {
			return true, nil
		}
		if r.late == nil {
			r.late = time.NewTimer(lateFrames)
			// What was stored before the task became final may have been
			// missed by the read before: look once more before waiting.
			return false, nil
		}
	}
	var late <-chan time.Time
	if r.late != nil {
		late = r.late.C
	}
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case <-r.changed:
		return false, nil
	case <-late:
		return true, nil
	}
}
