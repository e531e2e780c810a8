package engine

import (
	"bytes"
	"context"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// piece is a part of a log that is read as a unit.
type piece struct {
	batch   records.Batch
	first   int64         // frame
	block   *run.LogBlock // set for a packed log
	outline run.LogOutline
	bytes   int64 // bytes of output that the query selects; lines likewise
	lines   int64
}

// seek positions the reader at the start of the query. It skips earlier pieces
// by their outlines, without reading them.
func (r *logReader) seek(ctx context.Context) error {
	q := &r.query
	if q.Attempt == 0 || q.Offset == 0 && q.Tail == nil && q.Since.IsZero() {
		r.skip, r.offset, r.started = q.Offset, q.Offset, q.Offset
		return nil
	}
	for try := 1; ; try++ {
		pieces, err := r.pieces(ctx)
		var start int64
		if err == nil {
			start, err = r.start(ctx, pieces)
		}
		if run.CodeOf(err) == run.CodeNotFound && try < lookupTries {
			continue // it was packed meanwhile
		}
		if err != nil {
			return err
		}
		r.position(pieces, start)
		return nil
	}
}

// position positions the reader at an offset.
func (r *logReader) position(pieces []piece, start int64) {
	r.skip, r.offset, r.started = start, start, start
	for i := range pieces {
		p := &pieces[i]
		if p.bytes > r.skip {
			r.at = records.BatchRef{Key: p.batch.Key, Last: p.first - 1}
			return
		}
		r.skip -= p.bytes
		r.at = records.BatchRef{Key: p.batch.Key, Last: p.batch.Last}
		if p.block != nil {
			r.at.Last = p.block.Last
		}
		r.skipPiece(&p.outline)
	}
}

// pieces lists the pieces of the log, up to the one in which the query ends.
func (r *logReader) pieces(ctx context.Context) ([]piece, error) {
	batches, err := r.engine.store.Batches(ctx, r.query.Run, r.task.Number, r.query.Attempt, records.BatchRef{})
	if err != nil {
		return nil, err
	}
	var all []piece
	for _, b := range batches {
		if !b.Packed {
			all = append(all, piece{batch: b, first: b.First, outline: *b.Outline})
			continue
		}
		blocks, err := r.blocks(ctx, b)
		if err != nil {
			return nil, err
		}
		for i := range blocks {
			all = append(all, piece{batch: b, first: blocks[i].First, block: &blocks[i], outline: blocks[i].LogOutline})
		}
	}
	for i := range all {
		p := &all[i]
		for _, part := range p.outline.AllParts() {
			if r.selects(part.Step, part.Stream) {
				p.bytes += part.Bytes
				p.lines += part.Lines
			}
		}
		if r.ofSetup() && p.outline.Begun {
			return all[:i+1], r.countSetup(ctx, p)
		}
	}
	return all, nil
}

// countSetup counts the output of the piece in which the setup ends. The outline has also
// later output outside of steps.
func (r *logReader) countSetup(ctx context.Context, p *piece) error {
	if p.bytes == 0 {
		return nil
	}
	chunks, err := r.selected(ctx, p)
	p.count(chunks)
	return err
}

// count counts the selected output that was read in place of what the outline counts.
func (p *piece) count(chunks []run.Frame) {
	p.bytes, p.lines = 0, 0
	for _, f := range chunks {
		p.bytes += int64(len(f.Data))
		p.lines += int64(bytes.Count(f.Data, []byte("\n")))
	}
}

// start returns the offset at which the query begins.
func (r *logReader) start(ctx context.Context, pieces []piece) (int64, error) {
	start := r.query.Offset
	if !r.query.Since.IsZero() {
		at, err := r.since(ctx, pieces)
		if err != nil {
			return 0, err
		}
		start = max(start, at)
	}
	if r.query.Tail != nil {
		at, err := r.tail(ctx, pieces, int64(*r.query.Tail))
		if err != nil {
			return 0, err
		}
		start = max(start, at)
	}
	return start, nil
}

// since returns the offset of the first output at or after the query's time.
func (r *logReader) since(ctx context.Context, pieces []piece) (int64, error) {
	offset := int64(0)
	for i := range pieces {
		p := &pieces[i]
		if p.bytes == 0 || p.outline.To.Before(r.query.Since) {
			offset += p.bytes
			continue
		}
		chunks, err := r.selected(ctx, p)
		if err != nil {
			return 0, err
		}
		for _, f := range chunks {
			if !f.Time.Before(r.query.Since) {
				return offset, nil
			}
			offset += int64(len(f.Data))
		}
	}
	return offset, nil
}

// tail returns the offset of the last n lines. Text after the last newline
// counts as a line.
func (r *logReader) tail(ctx context.Context, pieces []piece, n int64) (int64, error) {
	chunks, err := r.lastOutput(ctx, pieces)
	if err != nil {
		return 0, err
	}
	total, lines := int64(0), int64(0)
	for i := range pieces {
		total += pieces[i].bytes
		lines += pieces[i].lines
	}
	if len(chunks) == 0 || n == 0 {
		return total, nil
	}
	if !bytes.HasSuffix(chunks[len(chunks)-1].Data, []byte("\n")) {
		lines++
	}
	over := lines - n // lines to skip
	if over <= 0 {
		return 0, nil
	}
	offset := int64(0)
	for i := range pieces {
		p := &pieces[i]
		if p.lines < over {
			offset, over = offset+p.bytes, over-p.lines
			continue
		}
		if chunks, err = r.selected(ctx, p); err != nil {
			return 0, err
		}
		return offset + afterLines(chunks, over), nil
	}
	return offset, nil
}

// lastOutput returns the output of the last piece that has any. The object of a piece may
// hold less than its outline counts, so it counts what it reads.
func (r *logReader) lastOutput(ctx context.Context, pieces []piece) ([]run.Frame, error) {
	for i := len(pieces) - 1; i >= 0; i-- {
		p := &pieces[i]
		if p.bytes == 0 {
			continue
		}
		chunks, err := r.selected(ctx, p)
		if err != nil {
			return nil, err
		}
		p.count(chunks)
		if len(chunks) > 0 {
			return chunks, nil
		}
	}
	return nil, nil
}

// afterLines returns the size of the first n lines in bytes.
func afterLines(chunks []run.Frame, n int64) (size int64) {
	for _, f := range chunks {
		data := f.Data
		for len(data) > 0 {
			i := bytes.IndexByte(data, '\n')
			if i < 0 {
				size += int64(len(data))
				break
			}
			size += int64(i) + 1
			data = data[i+1:]
			if n--; n == 0 {
				return size
			}
		}
	}
	return size
}

// selected reads the output of a piece that the query selects.
func (r *logReader) selected(ctx context.Context, p *piece) ([]run.Frame, error) {
	var frames []run.Frame
	var err error
	if p.block != nil {
		frames, err = r.engine.logs.PackedFrames(ctx, p.batch.Source, p.batch.Last, *p.block)
	} else {
		frames, err = r.engine.logs.GetFrames(ctx, p.batch.Source, p.batch.First)
	}
	if err != nil {
		return nil, err
	}
	var out []run.Frame
	for _, f := range frames {
		if r.ofSetup() && f.Kind == run.FrameStepStart {
			break
		}
		if len(f.Output()) > 0 && r.selects(f.Step, f.Stream) {
			out = append(out, f)
		}
	}
	return out, nil
}
