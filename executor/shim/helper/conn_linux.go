package helper

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// maxDescriptors is how many file descriptors a message may carry.
const maxDescriptors = 2

// conn carries messages as JSON, and file descriptors with them. Writes are safe for
// concurrent use; reads are for one goroutine.
type conn struct {
	socket  *net.UnixConn
	decoder *json.Decoder

	mu sync.Mutex // of writes

	received []*os.File // by the reader, with the bytes read so far
}

func newConn(socket *net.UnixConn) *conn {
	c := &conn{socket: socket}
	c.decoder = json.NewDecoder(descriptorReader{c})
	return c
}

// send writes a message. The descriptors travel with its first byte.
func (c *conn) send(message any, files ...*os.File) error {
	text, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("encode a message for a helper container: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(files) > 0 {
		descriptors := make([]int, len(files))
		for i, f := range files {
			descriptors[i] = int(f.Fd())
		}
		if _, _, err := c.socket.WriteMsgUnix(text[:1], syscall.UnixRights(descriptors...), nil); err != nil {
			return err
		}
		text = text[1:]
	}
	_, err = c.socket.Write(text)
	return err
}

// receive reads a message. files are the descriptors that came with it or before.
func (c *conn) receive(message any) (files []*os.File, err error) {
	err = c.decoder.Decode(message)
	files, c.received = c.received, nil
	if err != nil {
		closeAll(files)
		return nil, err
	}
	return files, nil
}

func (c *conn) close() { _ = c.socket.Close() }

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// descriptorReader reads bytes and keeps the descriptors that come with them: a plain
// read would drop these.
type descriptorReader struct{ c *conn }

// Read implements io.Reader.
func (r descriptorReader) Read(p []byte) (int, error) {
	const descriptorSize = 4
	rights := make([]byte, syscall.CmsgSpace(maxDescriptors*descriptorSize))
	n, used, _, _, err := r.c.socket.ReadMsgUnix(p, rights)
	if used > 0 {
		files, parsed := parseRights(rights[:used])
		r.c.received = append(r.c.received, files...)
		err = errors.Join(err, parsed)
	}
	if err == nil && n == 0 && len(p) > 0 {
		err = io.EOF
	}
	return max(n, 0), err // -1 after an error
}

func parseRights(text []byte) ([]*os.File, error) {
	messages, err := syscall.ParseSocketControlMessage(text)
	if err != nil {
		return nil, fmt.Errorf("read file descriptors: %w", err)
	}
	var files []*os.File
	for i := range messages {
		descriptors, err := syscall.ParseUnixRights(&messages[i])
		if err != nil {
			continue // another kind of message
		}
		for _, d := range descriptors {
			syscall.CloseOnExec(d)
			files = append(files, os.NewFile(uintptr(d), "pipe"))
		}
	}
	return files, nil
}
