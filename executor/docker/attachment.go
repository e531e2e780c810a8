package docker

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/drover-run/drover/executor/shim/journal"
	"github.com/drover-run/drover/run"
)

const (
	// tailBytes is how many bytes of output that is not a frame are kept, to
	// explain why a container ended.
	tailBytes = 2 << 10
)

// attachment is a connection to the streams of a main container. It is not safe
// for concurrent use.
type attachment struct {
	conn  types.HijackedResponse
	nonce []byte
	lines *journal.LineReader
	tail  tail
	first int64 // number of the first frame the shim will write, if known; else 0
}

// attach connects to the container's streams. The connection yields what the
// container writes from now on. With stdin set, the shim's order can be written
// to it. While another reader of the streams blocks the daemon, the daemon does
// not answer, so attach may take as long as the context lasts.
func (d *Driver) attach(ctx context.Context, id, nonce string, stdin bool) (*attachment, error) {
	conn, err := d.openStreams(ctx, id, stdin)
	if err != nil {
		// The client reports only the status of a refusal. The next inspection
		// of the container finds the cause.
		return nil, &run.Error{Code: run.CodeUnavailable, Message: "attach to container " + id + ": " + daemonText(err), Err: err}
	}
	a := &attachment{conn: conn, nonce: []byte(nonce + " ")}
	a.lines = journal.NewLineReader(&demultiplexer{source: conn.Reader, stderr: &a.tail})
	return a, nil
}

// openStreams calls ContainerAttach, which waits for the daemon's answer even
// after the context has ended. openStreams returns when the context ends.
func (d *Driver) openStreams(ctx context.Context, id string, stdin bool) (types.HijackedResponse, error) {
	type answer struct {
		conn types.HijackedResponse
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		conn, err := d.client.ContainerAttach(ctx, id, container.AttachOptions{Stream: true, Stdin: stdin, Stdout: true, Stderr: true})
		answers <- answer{conn, err}
	}()
	select {
	case got := <-answers:
		return got.conn, got.err
	case <-ctx.Done():
		go func() {
			if late := <-answers; late.err == nil {
				late.conn.Close()
			}
		}()
		return types.HijackedResponse{}, context.Cause(ctx)
	}
}

func (a *attachment) close() { a.conn.Close() }

// send writes the order and closes stdin. If the context ends, send closes the
// connection, so that the shim never takes a part of the order for the whole.
func (a *attachment) send(ctx context.Context, order run.ShimSpec) error {
	text, err := json.Marshal(order)
	if err != nil {
		return fmt.Errorf("encode the shim's order: %w", err)
	}
	stop := context.AfterFunc(ctx, a.close)
	defer stop()
	if _, err := a.conn.Conn.Write(text); err != nil {
		return fmt.Errorf("write the shim's order: %w", err)
	}
	if err := a.conn.CloseWrite(); err != nil {
		return fmt.Errorf("close the shim's order: %w", err)
	}
	return nil
}

// next waits for a frame and also returns its size in the journal. Lines that
// are not frames are kept in the tail. If no frame arrives within the timeout,
// the error is os.ErrDeadlineExceeded, and next may be called again. The end of
// the streams is io.EOF.
func (a *attachment) next(ctx context.Context, timeout time.Duration) (f run.Frame, size int64, err error) {
	if err := a.conn.Conn.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return f, 0, err
	}
	stop := context.AfterFunc(ctx, func() { _ = a.conn.Conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	for {
		line, err := a.lines.Next()
		switch {
		case errors.Is(err, journal.ErrDamaged):
			continue // only this copy is damaged; the journal has the line
		case err != nil:
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return f, 0, err
		}
		text, ok := bytes.CutPrefix(line, a.nonce)
		if !ok {
			_, _ = a.tail.Write(line)
			continue
		}
		f, err = journal.Decode(text)
		return f, int64(len(text)), err
	}
}

// demultiplexer reads the stdout part of a container's streams and writes the
// rest to stderr. After an error Read may be called again and continues.
type demultiplexer struct {
	source io.Reader
	stderr io.Writer
	header [8]byte // stream, three zeros, length
	have   int     // bytes of the header
	left   int64   // of the chunk behind the header
}

// Read implements io.Reader.
func (r *demultiplexer) Read(p []byte) (int, error) {
	for {
		if r.have < len(r.header) {
			n, err := r.source.Read(r.header[r.have:])
			r.have += n
			r.left = int64(binary.BigEndian.Uint32(r.header[4:]))
			if err != nil && r.have < len(r.header) {
				return 0, err
			}
			continue
		}
		n, err := r.source.Read(p[:min(int64(len(p)), r.left)])
		if r.left -= int64(n); r.left == 0 {
			r.have = 0
		}
		if stdcopy.StdType(r.header[0]) == stdcopy.Stdout {
			return n, err
		}
		_, _ = r.stderr.Write(p[:n])
		if err != nil {
			return 0, err
		}
	}
}

// tail keeps the last bytes written to it.
type tail struct{ kept []byte }

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if excess := len(t.kept) - tailBytes; excess > 0 {
		t.kept = append(t.kept[:0], t.kept[excess:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	return string(bytes.TrimSpace(bytes.ToValidUTF8(t.kept, []byte("?"))))
}
