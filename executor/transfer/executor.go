package transfer

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/drover-run/drover/internal/archive"
	"github.com/drover-run/drover/run"
)

// Inquire returns the request of the step. It takes ownership of the connection,
// and closes it when ctx ends. ask is the number of the frame with the request,
// here and for Send. Errors: CodeUnavailable if the connection broke off,
// *FaultError.
func Inquire(ctx context.Context, conn io.ReadWriteCloser, frame int64) (StepRequest, error) {
	e, err := exchange(ctx, conn, request{Frame: frame, Verb: verbInquire})
	if err == nil && e.Request == nil {
		err = run.Errorf(run.CodeInternal, "the shim did not send the request of the step")
	}
	if err != nil {
		return StepRequest{}, err
	}
	e.Request.Frame = frame
	return *e.Request, nil
}

// Packing is an archive that the shim packs.
type Packing struct {
	stream stream
	stop   func() bool
}

// Pack makes the shim pack the files of the step. It takes ownership of the
// connection, and closes it when ctx ends.
func Pack(ctx context.Context, conn io.ReadWriteCloser, req StepRequest, l Limits) (*Packing, error) {
	w := &wire{rw: req.guard(conn)}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	if err := w.request(request{Frame: req.Frame, Verb: verbPack, Limits: l}); err != nil {
		stop()
		return nil, errors.Join(cut(err), conn.Close())
	}
	return &Packing{stream: stream{wire: w}, stop: stop}, nil
}

// Read implements io.Reader. io.EOF means that the archive is complete. Other
// errors are a *FaultError, and CodeUnavailable if the connection broke off.
func (p *Packing) Read(b []byte) (int, error) { return p.stream.Read(b) }

// Stats returns statistics of the archive; they are valid after io.EOF.
func (p *Packing) Stats() archive.Stats {
	if p.stream.end == nil {
		return archive.Stats{}
	}
	return p.stream.end.Stats
}

// Close implements io.Closer. It aborts an unfinished archive.
func (p *Packing) Close() error {
	p.stop()
	return p.stream.wire.rw.Close()
}

// Unpack makes the shim unpack an archive to the paths that the step restores. It
// takes ownership of the connection, and closes it when ctx ends. Errors are that
// of content unchanged, a *FaultError, and CodeUnavailable if the connection broke
// off. After an error a part may have been unpacked.
func Unpack(ctx context.Context, conn io.ReadWriteCloser, req StepRequest, l Limits, content io.Reader) (archive.Stats, error) {
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	w := &wire{rw: req.guard(conn)}
	if err := w.request(request{Frame: req.Frame, Verb: verbUnpack, Limits: l}); err != nil {
		return archive.Stats{}, cut(err)
	}
	endMsg := make(chan end, 1) // closed without a value if there is no end message
	var broken error            // the read error, once endMsg is closed
	go func() {
		defer close(endMsg)
		var e end
		if broken = w.readJSON(kindEnd, &e); broken == nil {
			endMsg <- e
		}
		if broken != nil || e.Code != "" {
			_ = conn.Close() // the shim does not read the rest
		}
	}()
	source, fault := w.send(content)
	switch {
	case source != nil:
		_ = conn.Close() // without an end message the shim discards the archive
	case fault == nil:
		if err := w.writeJSON(kindEnd, end{}); err != nil {
			fault = cut(err)
		}
	}
	e, ok := <-endMsg
	switch {
	case ok && e.Code != "":
		return e.Stats, e.err()
	case source != nil:
		return archive.Stats{}, source
	case ok && fault == nil:
		return e.Stats, nil
	case ctx.Err() != nil:
		return archive.Stats{}, cut(context.Cause(ctx))
	case !ok:
		return archive.Stats{}, cut(broken)
	}
	return archive.Stats{}, fault
}

// Send sends the answer to the step, which accepts the first one only. It takes
// ownership of the connection, and closes it when ctx ends. Errors: CodeConflict if
// the step does not wait any more, CodeUnavailable.
func Send(ctx context.Context, conn io.ReadWriteCloser, frame int64, a Answer) error {
	_, err := exchange(ctx, conn, request{Frame: frame, Verb: verbAnswer, Answer: &a})
	if fault, ok := errors.AsType[*FaultError](err); ok && fault.Code == run.CodeConflict {
		return run.Errorf(run.CodeConflict, "%s", fault.Message)
	}
	return err
}

// exchange sends a request that has a short answer.
func exchange(ctx context.Context, conn io.ReadWriteCloser, r request) (end, error) {
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	w := &wire{rw: &deadlineConn{ReadWriteCloser: conn}} // the shim answers at once
	if err := w.request(r); err != nil {
		return end{}, cut(err)
	}
	var e end
	if err := w.readJSON(kindEnd, &e); err != nil {
		return end{}, cut(err)
	}
	return e, e.err()
}

// request sends the first message, which a living shim reads at once.
func (w *wire) request(r request) error {
	timer := time.AfterFunc(maxSilence, func() { _ = w.rw.Close() })
	defer timer.Stop()
	r.Version, r.Keepalives = Version, true
	return w.writeJSON(kindRequest, r)
}

// guard limits the silence of the connection if the shim sends keepalives.
func (a StepRequest) guard(conn io.ReadWriteCloser) io.ReadWriteCloser {
	if !a.Keepalives {
		return conn
	}
	return &deadlineConn{ReadWriteCloser: conn}
}
