package shim

import (
	"bytes"
	"errors"
	"fmt"
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
	// lineAfter is how long the beginning of a line waits for its end, where lines are
	// kept whole. A prompt is shown then.
	lineAfter = time.Second
	// maxLine is the longest line that is kept whole.
	maxLine = 64 << 10
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
	whole   bool // lines are kept whole

	mu      sync.Mutex
	pending []byte
	pieces  []piece // of pending
	timer   *time.Timer
	frames  []run.Frame
	lines   map[run.Stream]*line // begun lines, if whole
	late    *time.Timer
	tail    outputTail
}

// piece is pending output of one stream.
type piece struct {
	stream run.Stream
	since  time.Time // arrival of its first byte
	size   int
}

// line is the beginning of a line.
type line struct {
	text  []byte
	since time.Time
}

func newSink(j *journal.Writer, step int, whole bool) *sink {
	s := &sink{journal: j, step: step, whole: whole, lines: make(map[run.Stream]*line)}
	s.timer = time.AfterFunc(time.Hour, s.flush)
	s.timer.Stop()
	s.late = time.AfterFunc(time.Hour, s.flushLate)
	s.late.Stop()
	return s
}

// add adds output. It keeps no reference to p.
func (s *sink) add(stream run.Stream, p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.whole {
		s.addLines(stream, p)
	} else {
		s.append(stream, p)
	}
}

// addLines adds the lines that p completes, and keeps the beginning of the next one.
func (s *sink) addLines(stream run.Stream, p []byte) {
	begun := s.lines[stream]
	if begun == nil {
		begun = &line{}
		s.lines[stream] = begun
	}
	complete := bytes.LastIndexByte(p, '\n') + 1
	if rest := len(p) - complete; rest > maxLine || complete == 0 && len(begun.text)+rest > maxLine {
		complete = len(p)
	}
	if complete > 0 {
		s.append(stream, begun.text)
		begun.text = begun.text[:0]
		s.append(stream, p[:complete])
		p = p[complete:]
	}
	if len(p) == 0 {
		return
	}
	if len(begun.text) == 0 {
		begun.since = time.Now()
		if !s.waits() {
			s.late.Reset(lineAfter)
		}
	}
	begun.text = append(begun.text, p...)
}

// waits reports whether a begun line waits for its end.
func (s *sink) waits() bool {
	for _, begun := range s.lines {
		if len(begun.text) > 0 {
			return true
		}
	}
	return false
}

// append adds output to the pending one.
func (s *sink) append(stream run.Stream, p []byte) {
	if len(p) == 0 {
		return
	}
	if n := len(s.pieces); n == 0 || s.pieces[n-1].stream != stream {
		s.pieces = append(s.pieces, piece{stream: stream, since: time.Now()})
	}
	s.pieces[len(s.pieces)-1].size += len(p)
	waiting := len(s.pending) > 0
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

// flushLate adds the lines whose end did not arrive in time.
func (s *sink) flushLate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := lineAfter
	for stream, begun := range s.lines {
		if len(begun.text) == 0 {
			continue
		}
		if wait := lineAfter - time.Since(begun.since); wait > 0 {
			next = min(next, wait)
			s.late.Reset(next)
			continue
		}
		s.append(stream, begun.text)
		begun.text = begun.text[:0]
	}
}

// finish writes the pending output and the begun lines of the streams.
func (s *sink) finish(streams ...run.Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, stream := range streams {
		if begun := s.lines[stream]; begun != nil {
			s.append(stream, begun.text)
			begun.text = begun.text[:0]
		}
	}
	s.write(true)
}

// write writes full frames and those of all streams but the last one, and with all
// also the rest.
func (s *sink) write(all bool) {
	s.frames = s.frames[:0]
	rest := s.pending
	var last piece
	for i, p := range s.pieces {
		ended := all || i < len(s.pieces)-1
		for p.size >= run.MaxFrameData || ended && p.size > 0 {
			n := min(p.size, run.MaxFrameData)
			s.frames = append(s.frames, run.Frame{
				Time: p.since.UTC(), Kind: run.FrameOutput, Step: s.step, Stream: p.stream, Data: rest[:n],
			})
			rest = rest[n:]
			p.size -= n
		}
		last = p
	}
	if len(s.frames) == 0 {
		return
	}
	s.journal.Append(s.frames...)
	s.pending = append(s.pending[:0], rest...)
	s.pieces = s.pieces[:0]
	if len(rest) == 0 {
		s.timer.Stop()
		return
	}
	last.since = time.Now()
	s.pieces = append(s.pieces, last)
}

// source is where the output of a step comes from.
type source interface {
	// Read waits for output. The error is io.EOF after its end, os.ErrDeadlineExceeded
	// after the deadline.
	Read(buf []byte) (stream run.Stream, n int, err error)
	// ReadNow is like Read, with process.ErrEmptyPipe instead of waiting.
	ReadNow(buf []byte) (stream run.Stream, n int, err error)
	SetReadDeadline(at time.Time) error
	// Close closes the source and ends Read.
	Close() error
}

// onePipe is a pipe whose output is of one stream.
type onePipe struct {
	*os.File
	stream run.Stream
}

func (p onePipe) Read(buf []byte) (run.Stream, int, error) {
	n, err := p.File.Read(buf)
	return p.stream, n, err
}

func (p onePipe) ReadNow(buf []byte) (run.Stream, int, error) {
	n, err := process.ReadNow(p.File, buf)
	return p.stream, n, err
}

// bothPipes are a pipe for stdout and one for stderr.
type bothPipes struct{ *process.Outputs }

func (p bothPipes) Read(buf []byte) (run.Stream, int, error) {
	i, n, err := p.Outputs.Read(buf)
	return streams()[i], n, err
}

func (p bothPipes) ReadNow(buf []byte) (run.Stream, int, error) {
	i, n, err := p.Outputs.ReadNow(buf)
	return streams()[i], n, err
}

// streams are the outputs of a process, in the order of its file descriptors.
func streams() [2]run.Stream { return [2]run.Stream{run.StreamStdout, run.StreamStderr} }

// stepPipes are the pipes of a step.
type stepPipes struct {
	stdout, stderr *os.File // for the step
	sources        []source
}

// openPipes creates the pipes of a step.
func openPipes(how run.Streams) (stepPipes, error) {
	if how == run.StreamsSplit {
		both, w, err := process.NewOutputs()
		if err != nil { // not on this system
			return separatePipes()
		}
		return stepPipes{stdout: w[0], stderr: w[1], sources: []source{bothPipes{both}}}, nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return stepPipes{}, fmt.Errorf("create a pipe: %w", err)
	}
	return stepPipes{stdout: w, stderr: w, sources: []source{onePipe{r, run.StreamStdout}}}, nil
}

// separatePipes creates two pipes that are read each by itself.
func separatePipes() (stepPipes, error) {
	outR, outW, err := os.Pipe()
	if err != nil {
		return stepPipes{}, fmt.Errorf("create a pipe: %w", err)
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		return stepPipes{}, errors.Join(fmt.Errorf("create a pipe: %w", err), outR.Close(), outW.Close())
	}
	return stepPipes{
		stdout: outW, stderr: errW,
		sources: []source{onePipe{outR, run.StreamStdout}, onePipe{errR, run.StreamStderr}},
	}, nil
}

func (p stepPipes) closeWriters() {
	_ = p.stdout.Close()
	if p.stderr != p.stdout {
		_ = p.stderr.Close()
	}
}

func (p stepPipes) closeSources() error {
	var errs []error
	for _, s := range p.sources {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// pipeReader copies the output of a source to a sink, masked.
type pipeReader struct {
	pipe   source
	read   atomic.Int64  // bytes
	done   chan struct{} // closed at the end of the source
	caught atomic.Pointer[chan struct{}]
}

// newPipeReader starts to read. It ends with the source, or with finish.
func newPipeReader(pipe source, secrets *mask.Set, to *sink) *pipeReader {
	p := &pipeReader{pipe: pipe, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		masked := make(map[run.Stream]*mask.Stream)
		buf := make([]byte, max(readSize, os.Getpagesize()))
		take := func(stream run.Stream, n int) {
			if n == 0 {
				return
			}
			m := masked[stream]
			if m == nil {
				m = secrets.Stream(func(text []byte) { to.add(stream, text) })
				masked[stream] = m
			}
			p.read.Add(int64(n))
			m.Write(buf[:n])
		}
		for {
			stream, n, err := pipe.Read(buf)
			take(stream, n)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				err = p.empty(buf, take)
			}
			if err != nil {
				break
			}
		}
		for _, stream := range streams() {
			if m := masked[stream]; m != nil {
				m.Close()
				to.finish(stream)
			}
		}
	}()
	return p
}

// empty reads the current content of the source, for catchUp.
func (p *pipeReader) empty(buf []byte, take func(run.Stream, int)) error {
	if err := p.pipe.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	for total := 0; total < pipeSize; {
		stream, n, err := p.pipe.ReadNow(buf)
		if errors.Is(err, process.ErrEmptyPipe) {
			break
		}
		if err != nil {
			return err
		}
		take(stream, n)
		total += n
	}
	close(*p.caught.Load())
	return nil
}

// catchUp returns once all current content of the source has reached the sink. On a
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
