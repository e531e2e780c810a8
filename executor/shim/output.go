package shim

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drover-run/drover/executor/shim/journal"
	"github.com/drover-run/drover/executor/shim/process"
	"github.com/drover-run/drover/internal/mask"
	"github.com/drover-run/drover/run"
)

const (
	// flushAfter is how long output may wait for more, so that a burst of lines
	// becomes one frame.
	flushAfter = 10 * time.Millisecond
	// readSize is how much is read from a pipe at once.
	readSize = 64 << 10
	// pipeSize exceeds the capacity of pipes.
	pipeSize = 1 << 20
	// finishTimeout bounds the wait for the end of a pipe whose processes have ended.
	finishTimeout = 100 * time.Millisecond
)

// sink converts the output of one step into frames, in the order of arrival. It is
// safe for concurrent use. If the journal can not be written its callers block, and
// so do the processes that write to the pipes.
type sink struct {
	journal *journal.Writer
	step    int

	mu      sync.Mutex
	stream  run.Stream
	pending []byte
	since   time.Time // arrival of the first pending byte
	timer   *time.Timer
	frames  []run.Frame
	tail    outputTail
}

func newSink(j *journal.Writer, step int) *sink {
	s := &sink{journal: j, step: step}
	s.timer = time.AfterFunc(time.Hour, s.flush)
	s.timer.Stop()
	return s
}

// add adds output. It keeps no reference to p.
func (s *sink) add(stream run.Stream, p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream != stream {
		s.write(true)
		s.stream = stream
	}
	waiting := len(s.pending) > 0
	if !waiting {
		s.since = time.Now()
	}
	s.pending = append(s.pending, p...)
	s.tail.add(p)
	if len(s.pending) >= run.MaxFrameData {
		s.write(false)
	}
	if len(s.pending) > 0 && !waiting {
		s.timer.Reset(flushAfter)
	}
}

// flush writes the pending output.
func (s *sink) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write(true)
}

// write writes full frames, and with all also the rest.
func (s *sink) write(all bool) {
	s.frames = s.frames[:0]
	rest := s.pending
	for len(rest) >= run.MaxFrameData || (all && len(rest) > 0) {
		n := min(len(rest), run.MaxFrameData)
		s.frames = append(s.frames, run.Frame{
			Time: s.since.UTC(), Kind: run.FrameOutput, Step: s.step, Stream: s.stream, Data: rest[:n],
		})
		rest = rest[n:]
	}
	if len(s.frames) == 0 {
		return
	}
	s.journal.Append(s.frames...)
	s.pending = append(s.pending[:0], rest...)
	s.since = time.Now()
	if len(rest) == 0 {
		s.timer.Stop()
	}
}

// pipeReader copies the output of a pipe to a sink, masked.
type pipeReader struct {
	pipe   *os.File
	read   atomic.Int64  // bytes
	done   chan struct{} // closed at the end of the pipe
	caught atomic.Pointer[chan struct{}]
}

// newPipeReader starts to read. It ends with the pipe, or with finish.
func newPipeReader(pipe *os.File, secrets *mask.Set, to *sink, stream run.Stream) *pipeReader {
	p := &pipeReader{pipe: pipe, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		defer to.flush()
		masked := secrets.Stream(func(text []byte) { to.add(stream, text) })
		defer masked.Close()
		buf := make([]byte, readSize)
		take := func(n int) {
			p.read.Add(int64(n))
			masked.Write(buf[:n])
		}
		for {
			n, err := pipe.Read(buf)
			take(n)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				err = p.empty(buf, take)
			}
			if err != nil {
				return
			}
		}
	}()
	return p
}

// empty reads the current content of the pipe, for catchUp.
func (p *pipeReader) empty(buf []byte, take func(n int)) error {
	if err := p.pipe.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	for total := 0; total < pipeSize; {
		n, err := process.ReadNow(p.pipe, buf)
		if errors.Is(err, process.ErrEmptyPipe) {
			break
		}
		if err != nil {
			return err
		}
		take(n)
		total += n
	}
	close(*p.caught.Load())
	return nil
}

// catchUp returns once all current content of the pipe has reached the sink. On a
// busy machine silence for a while is no proof of that. It is not for concurrent
// use.
func (p *pipeReader) catchUp() {
	caught := make(chan struct{})
	p.caught.Store(&caught)
	if err := p.pipe.SetReadDeadline(time.Now()); err != nil {
		return // closed, or a system without deadlines for pipes
	}
	select {
	case <-caught:
	case <-p.done:
	}
}

// finish reads the remaining output after the processes of the task have ended, and
// stops reading.
func (p *pipeReader) finish() {
	timer := time.NewTimer(finishTimeout)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C: // a process that can not be killed holds the pipe
		p.catchUp()
	}
	_ = p.pipe.Close()
	<-p.done
}
