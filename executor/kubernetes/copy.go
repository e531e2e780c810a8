package kubernetes

import (
	"bufio"
	"context"
	"errors"
	"io"

	"github.com/drover-run/drover/executor/shim"
	"github.com/drover-run/drover/run"
)

// CopyTo implements executor.Handle. A shim process in the task's container
// unpacks the archive.
func (h *handle) CopyTo(ctx context.Context, dir string, tar io.Reader) error {
	s, err := h.driver.exec(ctx, execution{pod: h.pod, container: mainContainer, stdin: true, args: []string{"unpack", "--dir", dir}})
	if err != nil {
		return err
	}
	defer s.close()
	defer context.AfterFunc(ctx, func() { s.cancel(context.Cause(ctx)) })()
	if _, err := io.Copy(s.stdin, tar); err != nil && !errors.Is(err, errDropped) { // dropped: the program ended and reports the reason
		return ServerError(err, "copy into %s", dir)
	}
	_ = s.stdin.Close()
	code, err := s.confirmedOutcome(ctx)
	if err != nil {
		return err
	}
	if code != shim.ExitDone {
		return run.Errorf(run.CodeInvalid, "copy into %s: %s", dir, s.stderr.String())
	}
	return nil
}

// CopyFrom implements executor.Handle. A shim process in the task's container
// packs the archive.
func (h *handle) CopyFrom(ctx context.Context, path string) (io.ReadCloser, error) {
	s, err := h.driver.exec(ctx, execution{pod: h.pod, container: mainContainer, args: []string{"pack", "--path", path}})
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { s.cancel(context.Cause(ctx)) })
	c := &packed{session: s, content: s.source, path: path, stop: stop}
	if _, err := s.source.Peek(1); err != nil { // an archive is never empty
		err = c.fault()
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// packed is the stream of an archive that the shim packs.
type packed struct {
	session *session
	content *bufio.Reader
	path    string
	stop    func() bool
}

// Read implements io.Reader.
func (p *packed) Read(b []byte) (int, error) {
	n, err := p.content.Read(b)
	if n == 0 && err != nil {
		if fault := p.fault(); fault != nil {
			return 0, fault
		}
		return 0, io.EOF
	}
	return n, nil
}

// fault waits for the end of the program and returns its error, or nil.
func (p *packed) fault() error {
	code, err := p.session.outcome()
	switch {
	case err != nil:
		return err
	case code == shim.ExitNoFile:
		return run.Errorf(run.CodeNotFound, "copy from the task: %s", p.session.stderr.String())
	case code != shim.ExitDone:
		return run.Errorf(run.CodeUnavailable, "copy %s: exit code %d: %s", p.path, code, p.session.stderr.String())
	}
	return nil
}

// Close implements io.Closer.
func (p *packed) Close() error {
	p.stop()
	p.session.close()
	return nil
}
