package transfer

import (
	"fmt"
	"io"

	"github.com/drover-run/drover/archive"
	"github.com/drover-run/drover/run"
)

// Handler is what a shim does for a step that waits.
type Handler interface {
	// Ask tells what the step wants.
	Ask() Ask
	// Pack writes the archive of what the step saves.
	Pack(w io.Writer, l Limits) (archive.Stats, error)
	// Unpack unpacks an archive to where the step restores. It need not read all
	// of it where it fails.
	Unpack(r io.Reader, l Limits) (archive.Stats, error)
	// Answer ends the step. It reports whether the step waited for it.
	Answer(a Answer) bool
}

// Serve does what one connection asks for, and closes it. ask is the number of
// the frame by which the step asked.
func Serve(conn io.ReadWriteCloser, ask int64, h Handler) {
	defer func() { _ = conn.Close() }()
	w := &wire{rw: conn}
	var r request
	if err := w.readJSON(kindRequest, &r); err != nil {
		return // there is nobody, or nobody who would understand an answer
	}
	stop := func() {}
	if r.Pulses {
		stop = w.pulse()
	}
	e, err := serve(w, r, ask, h)
	stop()
	if err != nil {
		e.Code, e.Fault = run.CodeOf(err), err.Error()
	}
	if w.writeJSON(kindEnd, e) != nil {
		return // whoever does not get it asks again
	}
	if err != nil && r.Verb == verbUnpack {
		// Whoever sends is not cut off before it has read why.
		_, _ = io.Copy(io.Discard, conn)
	}
}

func serve(w *wire, r request, ask int64, h Handler) (e end, err error) {
	switch {
	case r.Version < 1 || r.Version > Version:
		return e, run.Errorf(run.CodeNotSupported,
			"the executor speaks version %d of the transfer of archives, this shim up to %d", r.Version, Version)
	case r.Ask != ask:
		return e, run.Errorf(run.CodeConflict, "the step of frame %d does not wait", r.Ask)
	}
	switch r.Verb {
	case verbInquire:
		wanted := h.Ask()
		wanted.Pulses = true
		e.Ask = &wanted
	case verbPack:
		e.Stats, err = h.Pack(dataWriter{w}, r.Limits)
	case verbUnpack:
		e.Stats, err = h.Unpack(&stream{wire: w}, r.Limits)
	case verbAnswer:
		if r.Answer == nil || !h.Answer(*r.Answer) {
			err = run.Errorf(run.CodeConflict, "the step does not wait any more")
		}
	default:
		err = run.Errorf(run.CodeNotSupported, "this shim can not %q", r.Verb)
	}
	return e, err
}

// dataWriter writes an archive as messages.
type dataWriter struct{ wire *wire }

// Write implements io.Writer.
func (d dataWriter) Write(p []byte) (int, error) {
	written := 0
	for len(p) > 0 {
		n := min(len(p), chunk)
		if err := d.wire.write(kindData, p[:n]); err != nil {
			return written, fmt.Errorf("writing the archive: %w", err)
		}
		written += n
		p = p[n:]
	}
	return written, nil
}
