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

	"github.com/drover-run/drover/executor/shim"
	"github.com/drover-run/drover/run"
)

const (
	// tailBytes is how much of what is no frame is kept, to explain an end.
	tailBytes = 2 << 10
)

// attachment is a connection to the streams of a main container. It is for one
// user at a time.
type attachment struct {
	conn  types.HijackedResponse
	nonce []byte
	lines *shim.LineReader
	tail  tail
	first int64 // number of the first frame there is, where it will come; else 0
}

// attach connects to the container's streams: what it writes from now on can
// be read. With stdin, the shim's order can be written. A daemon that is held
// up by another reader of the streams answers once that goes on, so it may
// take as long as the context lasts.
func (d *Driver) attach(ctx context.Context, id, nonce string, stdin bool) (*attachment, error) {
	conn, err := d.openStreams(ctx, id, stdin)
	if err != nil {
		// The client tells no more than the status of a refusal; what it means
		// the next look at the container tells.
		return nil, &run.Error{Code: run.CodeUnavailable, Message: "attaching to container " + id + ": " + daemonText(err), Err: err}
	}
	a := &attachment{conn: conn, nonce: []byte(nonce + " ")}
	a.lines = shim.NewLineReader(&demultiplexer{source: conn.Reader, stderr: &a.tail})
	return a, nil
}

// openStreams does the call. The client's own waits for the daemon's answer
// whatever becomes of the context.
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

// send writes the order and closes stdin. A context that ends cuts the
// connection, so that the shim never takes a part for the whole.
func (a *attachment) send(ctx context.Context, order run.ShimOrder) error {
	text, err := json.Marshal(order)
	if err != nil {
		return fmt.Errorf("encoding the shim's order: %w", err)
	}
	stop := context.AfterFunc(ctx, a.close)
	defer stop()
	if _, err := a.conn.Conn.Write(text); err != nil {
		return fmt.Errorf("writing the shim's order: %w", err)
	}
	if err := a.conn.CloseWrite(); err != nil {
		return fmt.Errorf("closing the shim's order: %w", err)
	}
	return nil
}

// next waits for a frame and tells its size in the journal too. Other lines are
// kept as the tail. When patience ends before a frame came the error is
// os.ErrDeadlineExceeded, and next may be called again; the end of the streams
// is io.EOF.
func (a *attachment) next(ctx context.Context, patience time.Duration) (f run.Frame, size int64, err error) {
	if err := a.conn.Conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return f, 0, err
	}
	stop := context.AfterFunc(ctx, func() { _ = a.conn.Conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	for {
		line, err := a.lines.Next()
		switch {
		case errors.Is(err, shim.ErrDamaged):
			continue // the copy has no such line; what it stands for is in the journal
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
		f, err = shim.Decode(text)
		return f, int64(len(text)), err
	}
}

// demultiplexer reads the stdout part of a container's streams, and writes the
// rest away. After an error it may be called again and goes on.
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
