// Package transfer is the protocol by which archives pass between a task's shim
// and its executor, while a step waits.
//
// A step that moves an archive tells so by a frame of kind run.FrameAsk, and
// waits. Whoever has the task opens connections to the shim, one after another,
// each for one purpose: Inquire asks what the step wants, Pack has the shim pack
// files and reads the archive, Unpack has it unpack one, Send ends the step. All
// but the last may be repeated as often as needed, by whatever process. A
// connection that breaks off is never taken for an end: only a last message makes
// a stream whole.
//
// Not every connection tells that it broke off: one into a pod may stay silent for
// ever. So the shim sends pulses while it works, and who hears nothing for some of
// them takes the connection for broken off.
package transfer

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/drover-run/drover/archive"
	"github.com/drover-run/drover/run"
)

// Version is the version of the protocol that this build speaks. A shim takes
// requests of versions up to its own.
const Version = 1

const (
	// chunk is how much of an archive one message carries.
	chunk = 64 << 10
	// maxMessage bounds any message.
	maxMessage = 256 << 10
	// pulseEach is how often a shim sends a pulse while it works.
	pulseEach = 10 * time.Second
	// maxSilence is after how long a silence a connection is taken for broken
	// off. Who works on a busy host may miss a pulse or two.
	maxSilence = 3 * pulseEach
)

// kind is what a message is.
type kind byte

const (
	kindRequest kind = 'r' // JSON of a request; the first of a connection
	kindData    kind = 'd' // of an archive
	kindEnd     kind = 'e' // JSON of an end; the last of its direction
	kindPulse   kind = 'p' // nothing; never after an end
)

// verb is what a connection is for.
type verb string

const (
	verbInquire verb = "inquire"
	verbPack    verb = "pack"
	verbUnpack  verb = "unpack"
	verbAnswer  verb = "answer"
)

// request opens a connection.
type request struct {
	Version int     `json:"v"`
	Ask     int64   `json:"ask"` // the number of the frame that asks
	Verb    verb    `json:"do"`
	Pulses  bool    `json:"pulses,omitempty"` // are understood
	Limits  Limits  `json:"limits,omitzero"`
	Answer  *Answer `json:"answer,omitempty"`
}

// Limits bound what is packed or unpacked; 0 is no limit.
type Limits struct {
	Entries int64 `json:"entries,omitempty"`
	Bytes   int64 `json:"bytes,omitempty"`
}

// Ask is what a step wants, as Inquire tells it.
type Ask struct {
	// Frame is the number of the frame that asks.
	Frame int64 `json:"-"`
	// Pulses is that the shim sends them while it packs and unpacks. A shim of
	// an older build does not, and may be silent for as long as that takes.
	Pulses bool `json:"pulses,omitempty"`

	Type string   `json:"type"`           // as run.ArchiveStep tells it
	Keys []string `json:"keys,omitempty"` // of a cache, evaluated
}

// Answer is what a step that asked is told in the end.
type Answer struct {
	// Lines are for its log.
	Lines []string `json:"lines,omitempty"`
	// Fault says why the step failed, in words that follow its name, such as
	// "could not restore the cache: ..."; "" where it succeeded.
	Fault string `json:"fault,omitempty"`
}

// end is the last message of a direction.
type end struct {
	Stats archive.Stats `json:"stats,omitzero"`
	Ask   *Ask          `json:"ask,omitempty"`
	Code  run.Code      `json:"code,omitempty"` // "" where all went well
	Fault string        `json:"fault,omitempty"`
}

func (e end) err() error {
	if e.Code == "" {
		return nil
	}
	return &FaultError{Code: e.Code, Message: e.Fault}
}

// FaultError is what the shim says went wrong in the environment. To try again is of
// no use.
type FaultError struct {
	Code    run.Code
	Message string
}

// Error implements error.
func (f *FaultError) Error() string { return f.Message }

// errCut is the fault of a stream that ended before its end was told.
var errCut = errors.New("the connection broke off")

// cut is an error of the way between the two: to try again may help.
func cut(err error) error {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errCut
	}
	return &run.Error{Code: run.CodeUnavailable, Message: "passing an archive between executor and task: " + err.Error(), Err: err}
}

// wire reads and writes messages. One goroutine may read and others write.
type wire struct {
	rw   io.ReadWriteCloser
	head [5]byte // kind and length of what is read

	mu  sync.Mutex // of what is written
	out []byte
}

func (w *wire) write(k kind, payload []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.put(k, payload)
}

// put writes a message; the lock is held.
func (w *wire) put(k kind, payload []byte) error {
	w.out = append(append(w.out[:0], byte(k)), 0, 0, 0, 0)
	binary.BigEndian.PutUint32(w.out[1:], uint32(len(payload)))
	w.out = append(w.out, payload...)
	_, err := w.rw.Write(w.out)
	return err
}

func (w *wire) writeJSON(k kind, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding a message: %w", err)
	}
	if len(text) > maxMessage {
		return fmt.Errorf("a message of %d bytes is too long", len(text))
	}
	return w.write(k, text)
}

// header reads the beginning of a message that is no pulse.
func (w *wire) header() (kind, int, error) {
	for {
		if _, err := io.ReadFull(w.rw, w.head[:]); err != nil {
			return 0, 0, err
		}
		n := binary.BigEndian.Uint32(w.head[1:])
		if n > maxMessage {
			return 0, 0, fmt.Errorf("a message claims to have %d bytes", n)
		}
		if kind(w.head[0]) != kindPulse || n > 0 {
			return kind(w.head[0]), int(n), nil
		}
	}
}

// readJSON reads a message of the kind.
func (w *wire) readJSON(want kind, v any) error {
	k, n, err := w.header()
	if err != nil {
		return err
	}
	if k != want {
		return fmt.Errorf("a message of kind %q came in the place of one of kind %q", byte(k), byte(want))
	}
	return w.payload(n, v)
}

func (w *wire) payload(n int, v any) error {
	text := make([]byte, n)
	if _, err := io.ReadFull(w.rw, text); err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("reading a message: %w", err)
	}
	return nil
}

// stream reads data until the end of a direction is told.
type stream struct {
	wire *wire
	left int // of the message that is read
	end  *end
	err  error
}

// Read implements io.Reader. io.EOF means that the stream is whole.
func (s *stream) Read(b []byte) (int, error) {
	for s.err == nil && s.left == 0 {
		s.err = s.next()
	}
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.wire.rw.Read(b[:min(len(b), s.left)])
	s.left -= n
	if err != nil {
		s.err = cut(err)
	}
	return n, nil
}

// next reads up to the next data.
func (s *stream) next() error {
	k, n, err := s.wire.header()
	switch {
	case err != nil:
		return cut(err)
	case k == kindData:
		s.left = n
		return nil
	case k != kindEnd:
		return cut(fmt.Errorf("a message of kind %q came within an archive", byte(k)))
	}
	var e end
	if err := s.wire.payload(n, &e); err != nil {
		return cut(err)
	}
	if err := e.err(); err != nil {
		return err
	}
	s.end = &e
	return io.EOF
}

// send writes all of r as data. It tells an error of r from one of the
// connection.
func (w *wire) send(r io.Reader) (source, conn error) {
	buffer := make([]byte, chunk)
	for {
		n, err := r.Read(buffer)
		if n > 0 {
			if fault := w.write(kindData, buffer[:n]); fault != nil {
				return nil, cut(fault)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil, nil
		case err != nil:
			return err, nil
		}
	}
}
