package transfer

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/drover-run/drover/archive"
	"github.com/drover-run/drover/run"
)

// Inquire asks what the step wants. It takes the connection over, and cuts it
// when ctx ends. ask is the number of the frame that asked, here and for Send.
// Errors: CodeUnavailable where the connection broke off, *FaultError.
func Inquire(ctx context.Context, conn io.ReadWriteCloser, ask int64) (Ask, error) {
	e, err := exchange(ctx, conn, request{Ask: ask, Verb: verbInquire})
	if err == nil && e.Ask == nil {
		err = run.Errorf(run.CodeInternal, "the shim does not tell what the step wants")
	}
	if err != nil {
		return Ask{}, err
	}
	e.Ask.Frame = ask
	return *e.Ask, nil
}

// Packing is an archive that the shim packs.
type Packing struct {
	stream stream
	stop   func() bool
}

// Pack asks for what the step saves. It takes the connection over, and cuts it
// when ctx ends.
func Pack(ctx context.Context, conn io.ReadWriteCloser, wanted Ask, l Limits) (*Packing, error) {
	w := &wire{rw: wanted.guard(conn)}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	if err := w.request(request{Ask: wanted.Frame, Verb: verbPack, Limits: l}); err != nil {
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
func Unpack(ctx context.Context, conn io.ReadWriteCloser, wanted Ask, l Limits, content io.Reader) (archive.Stats, error) {
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	w := &wire{rw: wanted.guard(conn)}
	if err := w.request(request{Ask: wanted.Frame, Verb: verbUnpack, Limits: l}); err != nil {
		return archive.Stats{}, cut(err)
	}
	told := make(chan end, 1) // closed without a value where no end comes
	var broken error          // why, once it is closed
	go func() {
		defer close(told)
		var e end
		if broken = w.readJSON(kindEnd, &e); broken == nil {
			told <- e
		}
		if broken != nil || e.Code != "" {
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
	case ok && fault == nil:
		return e.Stats, nil
	case ctx.Err() != nil:
		return archive.Stats{}, cut(context.Cause(ctx))
	case !ok:
		return archive.Stats{}, cut(broken)
	}
	return archive.Stats{}, fault
}

// Send tells the answer to the step that asked, which takes the first one
// alone. It takes the connection over, and cuts it when ctx ends. Errors:
// CodeConflict where the step does not wait any more, CodeUnavailable.
func Send(ctx context.Context, conn io.ReadWriteCloser, ask int64, a Answer) error {
	_, err := exchange(ctx, conn, request{Ask: ask, Verb: verbAnswer, Answer: &a})
	if fault, ok := errors.AsType[*FaultError](err); ok && fault.Code == run.CodeConflict {
		return run.Errorf(run.CodeConflict, "%s", fault.Message)
	}
	return err
}

// exchange sends a request that has a short answer.
func exchange(ctx context.Context, conn io.ReadWriteCloser, r request) (end, error) {
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	w := &wire{rw: &mortal{ReadWriteCloser: conn}} // the answer takes no time
	if err := w.request(r); err != nil {
		return end{}, cut(err)
	}
	var e end
	if err := w.readJSON(kindEnd, &e); err != nil {
		return end{}, cut(err)
	}
	return e, e.err()
}

// request opens the connection, which takes no time where somebody is there.
func (w *wire) request(r request) error {
	timer := time.AfterFunc(maxSilence, func() { _ = w.rw.Close() })
	defer timer.Stop()
	r.Version, r.Pulses = Version, true
	return w.writeJSON(kindRequest, r)
}

// guard returns the connection with an end to its silence, where the shim is one
// that sends pulses.
func (a Ask) guard(conn io.ReadWriteCloser) io.ReadWriteCloser {
	if !a.Pulses {
		return conn
	}
	return &mortal{ReadWriteCloser: conn}
}
