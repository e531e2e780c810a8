package transfer

import (
	"context"
	"errors"
	"io"

	"github.com/drover-run/drover/archive"
	"github.com/drover-run/drover/run"
)

// Inquire asks what the step wants. It takes the connection over, and cuts it
// when ctx ends. ask is the number of the frame that asked, here and below.
// Errors: CodeUnavailable where the connection broke off, *FaultError.
func Inquire(ctx context.Context, conn io.ReadWriteCloser, ask int64) (Ask, error) {
	e, err := exchange(ctx, conn, request{Version: Version, Ask: ask, Verb: verbInquire})
	if err == nil && e.Ask == nil {
		err = run.Errorf(run.CodeInternal, "the shim does not tell what the step wants")
	}
	if err != nil {
		return Ask{}, err
	}
	return *e.Ask, nil
}

// Packing is an archive that the shim packs.
type Packing struct {
	stream stream
	stop   func() bool
}

// Pack asks for what the step saves. It takes the connection over, and cuts it
// when ctx ends.
func Pack(ctx context.Context, conn io.ReadWriteCloser, ask int64, l Limits) (*Packing, error) {
	w := &wire{rw: conn}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	if err := w.writeJSON(kindRequest, request{Version: Version, Ask: ask, Verb: verbPack, Limits: l}); err != nil {
		stop()
		return nil, errors.Join(cut(err), conn.Close())
	}
	return &Packing{stream: stream{wire: w}, stop: stop}, nil
}

// Read implements io.Reader. io.EOF means that the archive is whole. Other
// errors are a *FaultError, and CodeUnavailable where the connection broke off.
func (p *Packing) Read(b []byte) (int, error) { return p.stream.Read(b) }

// Stats tell what was packed; they are there after io.EOF.
func (p *Packing) Stats() archive.Stats {
	if p.stream.end == nil {
		return archive.Stats{}
	}
	return p.stream.end.Stats
}

// Close implements io.Closer. A packing that has not ended is given up.
func (p *Packing) Close() error {
	p.stop()
	return p.stream.wire.rw.Close()
}

// Unpack has the shim unpack an archive to where the step restores. It takes
// the connection over, and cuts it when ctx ends. Errors are that of content as
// it is, a *FaultError, and CodeUnavailable where the connection broke off. After an
// error a part may have been unpacked.
func Unpack(ctx context.Context, conn io.ReadWriteCloser, ask int64, l Limits, content io.Reader) (archive.Stats, error) {
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	w := &wire{rw: conn}
	if err := w.writeJSON(kindRequest, request{Version: Version, Ask: ask, Verb: verbUnpack, Limits: l}); err != nil {
		return archive.Stats{}, cut(err)
	}
	told := make(chan end, 1) // closed without a value where no end comes
	go func() {
		defer close(told)
		var e end
		if w.readJSON(kindEnd, &e) != nil {
			return
		}
		told <- e
		if e.Code != "" {
			_ = conn.Close() // nobody wants the rest
		}
	}()
	source, fault := w.send(content)
	switch {
	case source != nil:
		_ = conn.Close() // before an end was told: what was sent is no archive
	case fault == nil:
		if err := w.writeJSON(kindEnd, end{}); err != nil {
			fault = cut(err)
		}
	}
	e, ok := <-told
	switch {
	case ok && e.Code != "":
		return e.Stats, e.err()
	case source != nil:
		return archive.Stats{}, source
	case fault != nil:
		return archive.Stats{}, fault
	case !ok:
		return archive.Stats{}, cut(context.Cause(ctx))
	}
	return e.Stats, nil
}

// Send tells the answer to the step that asked, which takes the first one
// alone. It takes the connection over, and cuts it when ctx ends. Errors:
// CodeConflict where the step does not wait any more, CodeUnavailable.
func Send(ctx context.Context, conn io.ReadWriteCloser, ask int64, a Answer) error {
	_, err := exchange(ctx, conn, request{Version: Version, Ask: ask, Verb: verbAnswer, Answer: &a})
	if fault, ok := errors.AsType[*FaultError](err); ok && fault.Code == run.CodeConflict {
		return run.Errorf(run.CodeConflict, "%s", fault.Message)
	}
	return err
}

// exchange sends a request that has a short answer.
func exchange(ctx context.Context, conn io.ReadWriteCloser, r request) (end, error) {
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	w := &wire{rw: conn}
	if err := w.writeJSON(kindRequest, r); err != nil {
		return end{}, cut(err)
	}
	var e end
	if err := w.readJSON(kindEnd, &e); err != nil {
		return end{}, cut(err)
	}
	return e, e.err()
}
