package shim

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/drover-run/drover/executor/transfer"
	"github.com/drover-run/drover/internal/archive"
	"github.com/drover-run/drover/run"
)

const (
	// TransferFile is the socket in the shim's directory that serves a step that moves
	// an archive, as long as the step waits.
	TransferFile = "transfer"
	// maxSocketPath is the longest path of a socket, on any system.
	maxSocketPath = 100
)

// archiveListener listens for the executor while a step waits. A new connection replaces the
// current one: an executor that was killed may have left a connection that does not
// end.
type archiveListener struct {
	task     *task
	transfer archiveTransfer
	listener net.Listener
	answers  chan transfer.Answer // of capacity 1
	done     chan struct{}        // closed when no connection is served any more

	mu       sync.Mutex
	closed   bool
	answered bool
	session  *session
}

// session is one connection.
type session struct {
	listener *archiveListener
	conn     net.Conn
	work     *fileHelper
	done     chan struct{}
}

var _ transfer.Handler = (*session)(nil)

// newArchiveListener creates the socket; serve begins to accept connections.
func newArchiveListener(t *task, e archiveTransfer) (*archiveListener, error) {
	path, err := socketPath(filepath.Join(t.dir, TransferFile))
	if err != nil {
		return nil, err
	}
	// The shim holds the lock: no process listens on an existing socket.
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("remove an old socket: %w", err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen for the executor: %w", err)
	}
	return &archiveListener{task: t, transfer: e, listener: listener, answers: make(chan transfer.Answer, 1), done: make(chan struct{})}, nil
}

// socketPath returns a path that is short enough for a socket, relative to the
// working directory if necessary: on a host that is the shim's directory.
func socketPath(path string) (string, error) {
	if len(path) <= maxSocketPath {
		return path, nil
	}
	here, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("get the working directory: %w", err)
	}
	short, err := filepath.Rel(here, path)
	if err != nil || len(short) > maxSocketPath {
		return "", fmt.Errorf("the path %s is too long for a socket", path)
	}
	return short, nil
}

// serve serves the step of the frame until close.
func (d *archiveListener) serve(frame int64) {
	go func() {
		defer close(d.done)
		for {
			conn, err := d.listener.Accept()
			if err != nil {
				d.replaceSession(nil)
				return
			}
			v := &session{listener: d, conn: conn, work: newFileHelper(d.task), done: make(chan struct{})}
			if !d.replaceSession(v) {
				_ = conn.Close()
				return
			}
			go func() {
				defer close(v.done)
				transfer.Serve(v.conn, frame, v)
			}()
		}
	}()
}

// replaceSession ends the current session and installs the next one. It reports whether
// the listener is open.
func (d *archiveListener) replaceSession(next *session) bool {
	d.mu.Lock()
	before := d.session
	open := !d.closed
	if d.session = next; !open {
		d.session = nil
	}
	d.mu.Unlock()
	if before != nil {
		before.end()
	}
	return open
}

// close ends the current session and closes the listener. It may be called again.
func (d *archiveListener) close() {
	d.mu.Lock()
	d.closed = true
	v := d.session
	d.mu.Unlock()
	_ = d.listener.Close() // removes the socket
	if v != nil {
		v.end()
	}
	<-d.done
}

// end ends a session and its work. A session that has delivered the answer ends by
// itself once the answer was confirmed.
func (v *session) end() {
	v.listener.mu.Lock()
	answered := v.listener.answered
	v.listener.mu.Unlock()
	if !answered {
		_ = v.conn.Close()
	}
	v.work.abort()
	<-v.done
}

// Request implements transfer.Handler.
func (v *session) Request() transfer.StepRequest { return v.listener.transfer.request }

// Pack implements transfer.Handler.
func (v *session) Pack(w io.Writer, l transfer.Limits) (archive.Stats, error) {
	if v.listener.transfer.pack == nil {
		return archive.Stats{}, run.Errorf(run.CodeInvalid, "the step saves nothing")
	}
	d, err := v.work.do(helperRequest{Pack: v.listener.transfer.pack, Limits: archive.Limits(l)}, nil, w)
	return d.Stats, err
}

// Unpack implements transfer.Handler.
func (v *session) Unpack(r io.Reader, l transfer.Limits) (archive.Stats, error) {
	if v.listener.transfer.unpack == "" {
		return archive.Stats{}, run.Errorf(run.CodeInvalid, "the step restores nothing")
	}
	d, err := v.work.do(helperRequest{Unpack: v.listener.transfer.unpack, Limits: archive.Limits(l)}, r, nil)
	return d.Stats, err
}

// Answer implements transfer.Handler.
func (v *session) Answer(a transfer.Answer) bool {
	v.listener.mu.Lock()
	defer v.listener.mu.Unlock()
	if v.listener.answered || v.listener.closed {
		return false
	}
	v.listener.answered = true
	v.listener.answers <- a
	return true
}
