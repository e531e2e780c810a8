package transfer

import (
	"fmt"
	"io"

	"github.com/drover-run/drover/internal/archive"
	"github.com/drover-run/drover/run"
)

// Handler is the part of a shim that serves a waiting step.
type Handler interface {
	// Request returns the request of the step.
	Request() StepRequest
	// Pack writes the archive of the files that the step saves.
	Pack(w io.Writer, l Limits) (archive.Stats, error)
	// Unpack unpacks an archive to the paths that the step restores. It need not read
	// all of it if it fails.
	Unpack(r io.Reader, l Limits) (archive.Stats, error)
	// Answer ends the step. It reports whether the step waited for it.
	Answer(a Answer) bool
}

// Serve serves one connection and closes it. ask is the number of the frame with
// the step's request.
func Serve(conn io.ReadWriteCloser, frame int64, h Handler) {
	defer func() { _ = conn.Close() }()
	w := &wire{rw: conn}
	var r request
	if err := w.readJSON(kindRequest, &r); err != nil {
		return // there is no executor, or none that would understand an answer
	}
	stop := func() {}
	if r.Keepalives {
		stop = w.sendKeepalives()
	}
	e, err := serve(w, r, frame, h)
	stop()
	if err != nil {
		e.Code, e.Fault = run.CodeOf(err), err.Error()
	}
	if w.writeJSON(kindEnd, e) != nil {
		return // an executor that misses the answer repeats the request
	}
	if err != nil && r.Verb == verbUnpack {
		// The executor must be able to send all data before it reads the error.
		_, _ = io.Copy(io.Discard, conn)
	}
}

func serve(w *wire, r request, frame int64, h Handler) (e end, err error) {
	switch {
	case r.Version < 1 || r.Version > Version:
		return e, run.Errorf(run.CodeNotSupported,
			"the executor uses version %d of the archive transfer protocol, this shim supports up to %d", r.Version, Version)
	case r.Frame != frame:
		return e, run.Errorf(run.CodeConflict, "the step of frame %d does not wait", r.Frame)
	}
	switch r.Verb {
	case verbInquire:
		req := h.Request()
		req.Keepalives = true
		e.Request = &req
	case verbPack:
		e.Stats, err = h.Pack(dataWriter{w}, r.Limits)
	case verbUnpack:
		e.Stats, err = h.Unpack(&stream{wire: w}, r.Limits)
	case verbAnswer:
		if r.Answer == nil || !h.Answer(*r.Answer) {
			err = run.Errorf(run.CodeConflict, "the step does not wait any more")
		}
	default:
		err = run.Errorf(run.CodeNotSupported, "this shim does not support %q", r.Verb)
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
			return written, fmt.Errorf("write the archive: %w", err)
		}
		written += n
		p = p[n:]
	}
	return written, nil
}
