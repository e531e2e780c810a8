// Package execstream is the protocol of a session: a command that a client runs in
// the environment of a running task. The same messages travel the whole way,
// from the client over the gateway and the executor to the shim in the
// environment.
//
// A client has at most Window messages of Stdin in flight: the shim acknowledges
// each one that the command has read. The shim can thus always read the next
// message, and notices the end of the connection also if the command reads
// nothing. Output needs no window: each part of the way forwards one message at
// a time, and stops reading while it cannot write.
package execstream

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Kind is the kind of a message.
type Kind byte

// The messages of a client. The first is Start; the end of the connection ends the
// session.
const (
	Start    Kind = 'S' // a StartRequest, as JSON
	Stdin    Kind = 'i' // bytes for the stdin of the command
	StdinEnd Kind = 'e' // the end of its stdin
	Resize   Kind = 'r' // a Size, as JSON
)

// The messages to a client. The last is Exit.
const (
	Ack    Kind = 'a' // one message of Stdin was read
	Stdout Kind = 'o' // bytes that the command wrote to its stdout, or to its terminal
	Stderr Kind = 'E'
	Exit   Kind = 'x' // an ExitStatus, as JSON
)

const (
	// MaxData is the size of the largest message, without its kind.
	MaxData = 32 << 10
	// Window is how many messages of Stdin may be in flight.
	Window = 8
)

// Message is one message.
type Message struct {
	Kind Kind
	Data []byte
}

// StartRequest describes the command of a session.
type StartRequest struct {
	Command []string `json:"command"`
	TTY     bool     `json:"tty,omitempty"`
	// Release ends the time for which a failed task is held, and runs no command;
	// Command only says so in the events.
	Release bool `json:"release,omitempty"`
	// Term is TERM of a session with a terminal; Size is the size of the terminal.
	Term string `json:"term,omitempty"`
	Size Size   `json:"size,omitzero"`
}

// Size is the size of a terminal, in characters.
type Size struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// ExitStatus is the end of a session.
type ExitStatus struct {
	// Code is the exit code of the command, by the convention of shells. It has no
	// meaning if Error is set.
	Code int `json:"code"`
	// Error is the reason why the session ended before the command did, or why the
	// command could not begin.
	Error string `json:"error,omitempty"`
	// Problem is the code of the error if the gateway refused the session.
	Problem string `json:"problem,omitempty"`
}

// The ends of a session other than that of its command.
var (
	ErrClientGone  = errors.New("the client disconnected")
	ErrCommandGone = errors.New("the connection to the task ended")
)

const (
	// tellTimeout bounds the last message to a client.
	tellTimeout = 2 * time.Second
	// closeTimeout bounds the wait for a client that was sent the last message to close
	// the connection.
	closeTimeout = time.Minute
)

// ErrTooLong is the error of a message that is longer than MaxData.
var ErrTooLong = errors.New("the message is too long")

// Encode returns a message of a kind whose data is v as JSON.
func Encode(kind Kind, v any) (Message, error) {
	data, err := json.Marshal(v)
	if err == nil && len(data) > MaxData {
		err = ErrTooLong
	}
	if err != nil {
		return Message{}, fmt.Errorf("encode a message: %w", err)
	}
	return Message{Kind: kind, Data: data}, nil
}

// Decode reads the data of a message into v.
func (m Message) Decode(v any) error {
	if err := json.Unmarshal(m.Data, v); err != nil {
		return fmt.Errorf("decode a message: %w", err)
	}
	return nil
}

// headerSize is the size of a header of a stream: the kind and the length of the data.
const headerSize = 5

// Write writes a message to a stream, with one call of Write.
func Write(w io.Writer, m Message) error {
	if len(m.Data) > MaxData {
		return ErrTooLong
	}
	buffer := make([]byte, headerSize, headerSize+len(m.Data))
	buffer[0] = byte(m.Kind)
	binary.BigEndian.PutUint32(buffer[1:], uint32(len(m.Data)))
	_, err := w.Write(append(buffer, m.Data...))
	return err
}

// Read reads a message from a stream. The error is io.EOF at the end of the stream
// between two messages.
func Read(r io.Reader) (Message, error) {
	var header [headerSize]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return Message{}, err
	}
	length := binary.BigEndian.Uint32(header[1:])
	if length > MaxData {
		return Message{}, ErrTooLong
	}
	m := Message{Kind: Kind(header[0]), Data: make([]byte, length)}
	if _, err := io.ReadFull(r, m.Data); err != nil {
		return Message{}, fmt.Errorf("read a message: %w", err)
	}
	return m, nil
}
