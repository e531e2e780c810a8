package journal

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/drover-run/drover/run"
)

const (
	// MaxLine is the longest line that a shim writes to its journal or to the
	// copy of it, newline included. The longest frame is one of outputs: they
	// have run.MaxOutputBytes (1 MiB), and JSON takes at most six bytes for one
	// of a value. That makes 6 MiB; the rest is for keys, quotes and the nonce.
	MaxLine = 8 << 20
	// lineBuffer holds any frame of usual size.
	lineBuffer = 64 << 10
	// lineKept is the largest buffer for a long line that is reused.
	lineKept = 1 << 20
)

// ErrDamaged is wrapped by the errors of a journal that cannot be read, or that
// lacks a frame. A retry does not help.
var ErrDamaged = errors.New("the journal is damaged")

// Damaged returns an error of CodeInternal that wraps ErrDamaged.
func Damaged(format string, args ...any) error {
	return &run.Error{Code: run.CodeInternal, Message: fmt.Sprintf(format, args...), Err: ErrDamaged}
}

var errLongLine = Damaged("the journal has a line of more than %d MiB", MaxLine>>20)

// LineReader reads lines, and buffers at most MaxLine bytes of one. It is not safe
// for concurrent use.
type LineReader struct {
	in   *bufio.Reader
	long []byte // the beginning of a line that does not fit the buffer, or comes in parts
	over bool   // long was returned
	skip bool   // the rest of a line that is too long comes next
}

// NewLineReader returns a LineReader that reads from in.
func NewLineReader(in io.Reader) *LineReader {
	return &LineReader{in: bufio.NewReaderSize(in, lineBuffer)}
}

// Next returns the next line, newline included. The line is valid until the
// next call. A line that is longer than MaxLine is an error that wraps
// ErrDamaged, with the beginning of the line; the next call skips the rest and
// returns the line after it. Other errors are those of the reader, such as
// io.EOF before the end of a line: Next may be called again, and continues.
func (r *LineReader) Next() ([]byte, error) {
	if r.over {
		r.over, r.long = false, r.long[:0]
		if cap(r.long) > lineKept {
			r.long = nil
		}
	}
	for {
		part, err := r.in.ReadSlice('\n')
		ended := err == nil
		if errors.Is(err, bufio.ErrBufferFull) {
			err = nil
		}
		switch {
		case r.skip:
			r.skip = !ended
			if err != nil {
				return nil, err
			}
			continue
		case ended && len(r.long) == 0:
			return part, nil
		case len(r.long)+len(part) > MaxLine:
			r.over, r.skip = true, !ended
			return r.long, errLongLine
		}
		r.long = append(r.long, part...)
		if ended {
			r.over = true
			return r.long, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// Reader reads the lines of a journal and checks that none is missing. It is not
// safe for concurrent use.
type Reader struct {
	lines *LineReader
	last  int64 // the number of the last line; 0 before the first
}

// NewReader returns a Reader of in, which is a journal, or its lines from any frame
// on.
func NewReader(in io.Reader) *Reader { return &Reader{lines: NewLineReader(in)} }

// Next returns the next line, newline included, and the number of its frame. The
// line is valid until the next call. A line without its end does not count: Next
// returns io.EOF until the end is there. Errors because of damage wrap ErrDamaged.
func (r *Reader) Next() (line []byte, n int64, err error) {
	if line, err = r.lines.Next(); err != nil {
		return nil, 0, err
	}
	n, ok := numberOf(line)
	switch {
	case !ok && r.last == 0:
		return nil, 0, Damaged("the first line of the journal is not a frame")
	case !ok:
		return nil, 0, Damaged("the journal has a line that is not a frame after frame %d", r.last)
	case r.last > 0 && n > r.last+1:
		return nil, 0, Damaged("the journal lacks the frames %d to %d", r.last+1, n-1)
	case r.last > 0 && n <= r.last:
		return nil, 0, Damaged("the journal has frame %d after frame %d", n, r.last)
	}
	r.last = n
	return line, n, nil
}
