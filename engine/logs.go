package engine

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

const (
	// lateFrames is how long a follower waits for the last frames of a task
	// that is final already: an executor that lost the gateway completes the
	// task first and appends the frames later.
	lateFrames = 10 * time.Second
	// lookupTries is how often a piece of a log is looked up again if it was
	// packed, or packed again, after it was listed.
	lookupTries = 5
)

// Logs implements run.Service.
func (e *Engine) Logs(ctx context.Context, q run.LogQuery) (run.LogReader, error) {
	if err := checkLogQuery(q); err != nil {
		return nil, err
	}
	t, err := e.store.GetTask(ctx, q.Run, q.Task)
	if err != nil {
		return nil, err
	}
	if q.Step != nil && (*q.Step < run.SetupStep || *q.Step >= len(t.Steps)) {
		return nil, run.Errorf(run.CodeNotFound, "task %s has no step %d; it has the steps 0 to %d, and setup", q.Task, *q.Step, len(t.Steps)-1)
	}
	if q.Attempt > t.Attempt {
		return nil, run.Errorf(run.CodeNotFound, "task %s has no attempt %d; its newest is %d", q.Task, q.Attempt, t.Attempt)
	}
	if t.LogsExpired {
		return nil, expiredLog(q)
	}
	if q.Attempt == 0 {
		q.Attempt = t.Attempt // still 0 if no attempt has begun
	}
	changed, stop := e.store.Watch(q.Run)
	r := &logReader{engine: e, query: q, task: t, changed: changed, stop: stop}
	if err := r.seek(ctx); err != nil {
		stop()
		return nil, err
	}
	return r, nil
}

func expiredLog(q run.LogQuery) error {
	return run.Errorf(run.CodeGone, "the log of task %s was removed: logs are kept for a time only", q.Task)
}

func checkLogQuery(q run.LogQuery) error {
	switch {
	case q.Offset < 0:
		return run.Errorf(run.CodeInvalid, "the offset must not be negative")
	case q.Attempt < 0:
		return run.Errorf(run.CodeInvalid, "the attempt must not be negative")
	case q.Tail != nil && *q.Tail < 0:
		return run.Errorf(run.CodeInvalid, "the number of lines must not be negative")
	case q.Offset > 0 && (q.Tail != nil || !q.Since.IsZero()):
		return run.Errorf(run.CodeInvalid, "an offset goes neither with a time nor with a number of lines")
	}
	for _, s := range q.Streams {
		if !s.Valid() {
			return run.Errorf(run.CodeInvalid, "there is no stream %q: there are stdout, stderr, system, and service:NAME of each service", s)
		}
	}
	return nil
}

// logReader reads the pieces of one attempt's log in order.
type logReader struct {
	engine  *Engine
	query   run.LogQuery
	task    run.Task
	changed <-chan struct{}
	stop    func()

	at        records.BatchRef // the last piece read or skipped
	listed    []records.Batch  // the pieces that follow
	packed    packedLog        // the packed log read last
	frames    []run.Frame      // read but not yet returned
	skip      int64            // bytes still to skip
	offset    int64            // of the next chunk
	services  []string         // with output so far, sorted
	ended     bool             // the followed log has ended with its own frames
	lateTimer *time.Timer      // set once the task is final and frames are missing
	started   int64            // offset of the first chunk
}

// packedLog has the blocks of a packed log.
type packedLog struct {
	source run.Key
	last   int64
	blocks []run.LogBlock
}

// Offset implements run.LogReader.
func (r *logReader) Offset() int64 { return r.started }

// Services implements run.LogReader.
func (r *logReader) Services() []string { return r.services }

// sees records the service whose output a stream has, if it is one's.
func (r *logReader) sees(stream run.Stream) {
	name := stream.Service()
	if at, known := slices.BinarySearch(r.services, name); name != "" && !known {
		r.services = slices.Insert(r.services, at, name)
	}
}

// Close implements io.Closer.
func (r *logReader) Close() error {
	r.stop()
	if r.lateTimer != nil {
		r.lateTimer.Stop()
	}
	return nil
}

// Next implements run.LogReader.
func (r *logReader) Next(ctx context.Context) (run.LogChunk, error) {
	for {
		// Frames after the end, such as a late frame of the environment, are
		// not returned, in any piece.
		for len(r.frames) > 0 && !r.ended {
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

// take converts the selected output of a frame to a chunk, and records the ends.
func (r *logReader) take(f run.Frame) (run.LogChunk, bool) {
	switch f.Kind {
	case run.FrameTaskEnd:
		r.ended = true
		return r.chunk(f)
	case run.FrameStepEnd:
		r.ended = r.ended || (r.query.Step != nil && f.Step == *r.query.Step)
	case run.FrameStepStart:
		// The setup has ended once a step begins.
		r.ended = r.ended || r.ofSetup()
	case run.FrameOutput:
		return r.chunk(f)
	case run.FrameOutputs, run.FrameArchiveRequest:
	}
	return run.LogChunk{}, false
}

// chunk returns the output of a frame, if the query selects it.
func (r *logReader) chunk(f run.Frame) (run.LogChunk, bool) {
	r.sees(f.Stream)
	if !r.selects(f.Step, f.Stream) {
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
}

// skipPiece records the ends and the services in a skipped piece, as take does.
func (r *logReader) skipPiece(o *run.LogOutline) {
	for _, p := range o.Parts {
		r.sees(p.Stream)
	}
	r.ended = r.ended || o.End || o.Begun && r.ofSetup() || r.query.Step != nil && slices.Contains(o.Ended, *r.query.Step)
}

// skipsPiece skips a piece without output that the query selects, and reports whether it
// did.
func (r *logReader) skipsPiece(o *run.LogOutline) bool {
	if slices.ContainsFunc(o.AllParts(), func(p run.LogPart) bool { return p.Bytes > 0 && r.selects(p.Step, p.Stream) }) {
		return false
	}
	r.skipPiece(o)
	return true
}

func (r *logReader) ofSetup() bool { return r.query.Step != nil && *r.query.Step == run.SetupStep }

// selects reports whether the query selects the output of a step on a stream. The output of
// services must be named: it is no part of the task's own log.
func (r *logReader) selects(step int, stream run.Stream) bool {
	if r.query.Step != nil && *r.query.Step != step {
		return false
	}
	if len(r.query.Streams) == 0 {
		return stream.Service() == ""
	}
	return slices.Contains(r.query.Streams, stream)
}

// load reads the next stored piece, if there is one.
func (r *logReader) load(ctx context.Context) (bool, error) {
	if r.query.Attempt == 0 {
		return false, nil
	}
	for try := 1; ; try++ {
		if len(r.listed) == 0 {
			var err error
			r.listed, err = r.engine.store.Batches(ctx, r.query.Run, r.task.Number, r.query.Attempt, r.at)
			if err == nil && len(r.listed) == 0 && try > 1 {
				err = r.missingError(ctx)
			}
			if err != nil || len(r.listed) == 0 {
				return false, err
			}
		}
		b := r.listed[0]
		frames, last, err := r.read(ctx, b)
		if run.CodeOf(err) == run.CodeNotFound && try < lookupTries {
			r.listed = nil // it was packed meanwhile
			continue
		}
		if err != nil {
			return false, err
		}
		seen := r.seen(b.Key)
		// An executor whose host lost power may have sent a batch again with
		// other bounds, and a rejected batch may have left an object with more
		// frames than its row has.
		r.frames = slices.DeleteFunc(frames, func(f run.Frame) bool { return f.N <= seen || f.N > last })
		r.at = records.BatchRef{Key: b.Key, Last: max(seen, last)}
		if last >= b.Last {
			r.listed = r.listed[1:]
		}
		return true, nil
	}
}

// missingError returns the error for a log that is missing because it expired, or
// because its run was deleted.
func (r *logReader) missingError(ctx context.Context) error {
	t, err := r.engine.store.GetTask(ctx, r.query.Run, r.query.Task)
	if err == nil && t.LogsExpired {
		err = expiredLog(r.query)
	}
	return err
}

// seen returns the last frame of a key that was read.
func (r *logReader) seen(key run.Key) int64 {
	if key != r.at.Key {
		return 0
	}
	return r.at.Last
}

// read reads the next frames of a batch, up to last: the whole batch, or a
// block of a packed log. It skips what has no output that the query selects.
func (r *logReader) read(ctx context.Context, b records.Batch) (frames []run.Frame, last int64, err error) {
	if !b.Packed {
		if b.Outline != nil && r.skipsPiece(b.Outline) {
			return nil, b.Last, nil
		}
		frames, err = r.engine.logs.GetFrames(ctx, b.Source, b.First)
		return frames, b.Last, err
	}
	blocks, err := r.blocks(ctx, b)
	if err != nil {
		return nil, 0, err
	}
	seen := r.seen(b.Key)
	i := slices.IndexFunc(blocks, func(block run.LogBlock) bool { return block.Last > seen })
	if i < 0 {
		return nil, b.Last, nil
	}
	if r.skipsPiece(&blocks[i].LogOutline) {
		return nil, blocks[i].Last, nil
	}
	frames, err = r.engine.logs.PackedFrames(ctx, b.Source, b.Last, blocks[i])
	return frames, blocks[i].Last, err
}

// blocks returns the blocks of a packed log.
func (r *logReader) blocks(ctx context.Context, b records.Batch) ([]run.LogBlock, error) {
	if r.packed.source == b.Source && r.packed.last == b.Last {
		return r.packed.blocks, nil
	}
	blocks, err := r.engine.logs.PackedBlocks(ctx, b.Source, b.Last, b.Bytes)
	if err == nil {
		r.packed = packedLog{source: b.Source, last: b.Last, blocks: blocks}
	}
	return blocks, err
}

// wait waits for more frames. done is true if none will come.
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
		if r.lateTimer == nil {
			r.lateTimer = time.NewTimer(lateFrames)
			// Frames stored before the task became final may have been missed
			// by the previous read: read once more before waiting.
			return false, nil
		}
	}
	var late <-chan time.Time
	if r.lateTimer != nil {
		late = r.lateTimer.C
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
