// Package transfer is the protocol by which a task's shim and its executor transfer
// archives, while a step waits.
//
// A step that moves an archive writes a frame of kind run.FrameArchiveRequest, and waits. The
// executor that has the task opens connections to the shim, one after another, each
// for one purpose: Inquire reads the request of the step, Pack makes the shim pack
// files and reads the archive, Unpack makes it unpack one, Send sends the answer,
// which ends the step. All but the last may be repeated as often as needed, by any
// process. A connection that breaks off never counts as an end: only an end message
// completes a stream.
//
// Not every connection reports that it broke off: one into a pod may stay silent
// indefinitely. So the shim sends keepalives while it works, and the executor
// treats a connection without any for maxSilence as broken off.
package transfer

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/drover-run/drover/internal/archive"
	"github.com/drover-run/drover/run"
)

// Version is the version of the protocol of this build. A shim accepts requests of
// versions up to its own.
const Version = 1

const (
	// chunk is how much of an archive one message carries.
	chunk = 64 << 10
	// maxMessage bounds any message.
	maxMessage = 256 << 10
	// keepaliveInterval is the interval of a shim's keepalives while it works.
	keepaliveInterval = 10 * time.Second
	// maxSilence is the silence after which a connection counts as broken off. A
	// process on a busy host may miss a keepalive or two.
	maxSilence = 3 * keepaliveInterval
)

// kind is the kind of a message.
type kind byte

const (
	kindRequest   kind = 'r' // JSON of a request; the first of a connection
	kindData      kind = 'd' // of an archive
	kindEnd       kind = 'e' // JSON of an end; the last of its direction
	kindKeepalive kind = 'p' // empty keepalive; never after an end
)

// verb is the purpose of a connection.
type verb string

const (
	verbInquire verb = "inquire"
	verbPack    verb = "pack"
	verbUnpack  verb = "unpack"
	verbAnswer  verb = "answer"
)

// request is the first message of a connection.
type request struct {
	Version    int     `json:"v"`
	Frame      int64   `json:"ask"` // number of the frame with the step's request
	Verb       verb    `json:"do"`
	Keepalives bool    `json:"pulses,omitempty"` // the executor accepts keepalives
	Limits     Limits  `json:"limits,omitzero"`
	Answer     *Answer `json:"answer,omitempty"`
}

// Limits bound an archive; 0 is no limit.
type Limits struct {
	Entries int64 `json:"entries,omitempty"`
	Bytes   int64 `json:"bytes,omitempty"`
}

// StepRequest is the request of a step, as Inquire returns it.
type StepRequest struct {
	// Frame is the number of the frame with the request.
	Frame int64 `json:"-"`
	// Keepalives means that the shim sends keepalives while it packs and unpacks. A shim
	// of an older build does not, and may be silent for as long as that takes.
	Keepalives bool `json:"pulses,omitempty"`

	Type string   `json:"type"`           // as run.ArchiveStep has it
	Keys []string `json:"keys,omitempty"` // of a cache, evaluated
}

// Answer is the answer to the request of a step.
type Answer struct {
	// Lines are for its log.
	Lines []string `json:"lines,omitempty"`
	// Fault says why the step failed, as a message that follows its name, such as
	// "could not restore the cache: ..."; "" if it succeeded.
	Fault string `json:"fault,omitempty"`
}

// end is the last message of a direction.
type end struct {
	Stats   archive.Stats `json:"stats,omitzero"`
	Request *StepRequest  `json:"ask,omitempty"`
	Code    run.Code      `json:"code,omitempty"` // "" for success
	Fault   string        `json:"fault,omitempty"`
}

func (e end) err() error {
	if e.Code == "" {
		return nil
	}
	return &FaultError{Code: e.Code, Message: e.Fault}
}

// FaultError is an error of the shim in the environment. A retry does not help.
type FaultError struct {
	Code    run.Code
	Message string
}

// Error implements error.
func (f *FaultError) Error() string { return f.Message }

// errCut is the error of a stream that ended without an end message.
var errCut = errors.New("the connection broke off")

// cut converts an error of the connection: a retry may help.
func cut(err error) error {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errCut
	}
	return &run.Error{Code: run.CodeUnavailable, Message: "transfer an archive between executor and task: " + err.Error(), Err: err}
}

// wire reads and writes messages. One goroutine may read and others write.
type wire struct {
	rw   io.ReadWriteCloser
	head [5]byte // kind and length of the current message

	mu  sync.Mutex // guards writes
	out []byte
}

func (w *wire) write(k kind, payload []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.put(k, payload)
}

// put writes a message. The caller holds the lock.
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
		return fmt.Errorf("encode a message: %w", err)
	}
	if len(text) > maxMessage {
		return fmt.Errorf("a message of %d bytes is too long", len(text))
	}
	return w.write(k, text)
}

// header reads the header of the next message other than a keepalive.
func (w *wire) header() (kind, int, error) {
	for {
		if _, err := io.ReadFull(w.rw, w.head[:]); err != nil {
			return 0, 0, err
		}
		n := binary.BigEndian.Uint32(w.head[1:])
		if n > maxMessage {
			return 0, 0, fmt.Errorf("a message claims to have %d bytes", n)
		}
		if kind(w.head[0]) != kindKeepalive || n > 0 {
			return kind(w.head[0]), int(n), nil
		}
	}
}

// readJSON reads a message of the given kind.
func (w *wire) readJSON(want kind, v any) error {
	k, n, err := w.header()
	if err != nil {
		return err
	}
	if k != want {
		return fmt.Errorf("got a message of kind %q instead of kind %q", byte(k), byte(want))
	}
	return w.payload(n, v)
}

func (w *wire) payload(n int, v any) error {
	text := make([]byte, n)
	if _, err := io.ReadFull(w.rw, text); err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("read a message: %w", err)
	}
	return nil
}

// stream reads data until the end message.
type stream struct {
	wire *wire
	left int // of the current message
	end  *end
	err  error
}

// Read implements io.Reader. io.EOF means that the stream is complete.
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

// next reads the header of the next data message.
func (s *stream) next() error {
	k, n, err := s.wire.header()
	switch {
	case err != nil:
		return cut(err)
	case k == kindData:
		s.left = n
		return nil
	case k != kindEnd:
		return cut(fmt.Errorf("got a message of kind %q within an archive", byte(k)))
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

// send writes all of r as data. It returns an error of r and one of the connection
// separately.
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
