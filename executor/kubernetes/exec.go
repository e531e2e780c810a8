package kubernetes

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	execerrors "k8s.io/client-go/util/exec"

	"github.com/drover-run/drover/executor/shim"
	"github.com/drover-run/drover/run"
)

const (
	// execBuffer is read at once from what a program prints. It is not less than
	// the buffer of a shim.LineReader, which then uses this one.
	execBuffer = 64 << 10
	// tailBytes is how much of the last that a program complains of is kept.
	tailBytes = 2 << 10
)

var (
	errSilent  = run.Errorf(run.CodeUnavailable, "nothing came from the pod for too long")
	errCut     = run.Errorf(run.CodeUnavailable, "the call into the pod was cut: it ended without an answer")
	errDropped = errors.New("nobody listens any more")
)

// session is a program that runs in a container: the shim with other arguments
// beside the one that has the task. It is for one user at a time.
type session struct {
	stdin  *io.PipeWriter // nil where the program gets none
	stdout *io.PipeReader
	source *bufio.Reader    // of stdout
	lines  *shim.LineReader // of source
	stderr tail
	cancel context.CancelCauseFunc
	watch  *watchdog
	done   chan struct{}
	err    error // of the stream, once done is closed
}

// execution says what is run, and how.
type execution struct {
	pod       string
	container string
	args      []string // of the shim
	stdin     bool
	// patience is how long the program may print nothing; 0 is for ever.
	patience time.Duration
}

// exec starts a program. It goes on when ctx ends, until close.
func (d *Driver) exec(ctx context.Context, e execution) (*session, error) {
	request := d.client.CoreV1().RESTClient().Post().Resource("pods").Namespace(d.options.Namespace).Name(e.pod).
		SubResource("exec").VersionedParams(&corev1.PodExecOptions{
		Container: e.container, Command: append([]string{shimPath}, e.args...),
		Stdin: e.stdin, Stdout: true, Stderr: true,
	}, scheme.ParameterCodec)
	// WebSockets pass through more proxies, and are what the server is going
	// to keep; older servers have SPDY alone.
	sockets, err := remotecommand.NewWebSocketExecutor(d.config, http.MethodGet, request.URL().String())
	if err != nil {
		return nil, serverError(err, "preparing a call into the pod")
	}
	spdy, err := remotecommand.NewSPDYExecutor(d.config, http.MethodPost, request.URL())
	if err != nil {
		return nil, serverError(err, "preparing a call into the pod")
	}
	both, err := remotecommand.NewFallbackExecutor(sockets, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return nil, serverError(err, "preparing a call into the pod")
	}

	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stdout, sink := io.Pipe()
	s := &session{stdout: stdout, source: bufio.NewReaderSize(stdout, execBuffer), cancel: cancel, done: make(chan struct{})}
	s.lines = shim.NewLineReader(s.source)
	s.watch = newWatchdog(sink, e.patience, func() { cancel(errSilent) })
	options := remotecommand.StreamOptions{Stdout: s.watch, Stderr: &s.stderr}
	var source *io.PipeReader
	if e.stdin {
		source, s.stdin = io.Pipe()
		options.Stdin = source
	}
	go func() {
		defer close(s.done)
		s.err = both.StreamWithContext(ctx, options)
		if cause := context.Cause(ctx); s.err != nil && cause != nil {
			s.err = cause
		}
		s.watch.stop()
		_ = sink.Close()
		if source != nil {
			_ = source.CloseWithError(errDropped)
		}
	}()
	return s, nil
}

// close ends the session and the program, and returns when that is done.
func (s *session) close() {
	s.cancel(errDropped)
	if s.stdin != nil {
		_ = s.stdin.CloseWithError(errDropped)
	}
	_ = s.stdout.CloseWithError(errDropped)
	<-s.done
}

// outcome waits for the end, which is near when line has told it, and returns
// the program's exit code. The error is one of the way to it, or of there being
// no container to run it in. Code 0 proves nothing by itself: an end without a
// status, as where the API server lost the node, counts as success to client-go
// (errorstream.go of tools/remotecommand), and to the server, which uses it too.
func (s *session) outcome() (code int, err error) {
	<-s.done
	var exit execerrors.CodeExitError
	switch {
	case s.err == nil:
		return 0, nil
	case errors.As(s.err, &exit):
		return exit.Code, nil
	case run.CodeOf(s.err) == run.CodeUnavailable:
		return 0, s.err
	}
	return 0, run.Errorf(run.CodeUnavailable, "running a program in the pod: %w", s.err)
}

// line returns the next line that the program prints, newline included, which is
// valid until the next call. The error is io.EOF at the end of any kind,
// that of ctx, and one that wraps shim.ErrDamaged for a line that is too long.
func (s *session) line(ctx context.Context) ([]byte, error) {
	stop := context.AfterFunc(ctx, func() { s.cancel(context.Cause(ctx)) })
	defer stop()
	line, err := s.lines.Next()
	switch {
	case err == nil, errors.Is(err, shim.ErrDamaged):
		return line, err
	case ctx.Err() != nil:
		return nil, serverError(context.Cause(ctx), "following the task")
	}
	return nil, io.EOF // a part of a line is none
}

// proved waits for the end of a program that prints shim.Done where it did what
// it was asked to, and returns its exit code. It is ExitDone only with that
// line, whatever the way says.
func (s *session) proved(ctx context.Context) (code int, err error) {
	done := false
	for err == nil {
		var line []byte
		line, err = s.line(ctx)
		done = done || string(line) == shim.Done
	}
	if !errors.Is(err, io.EOF) {
		return 0, err
	}
	code, err = s.outcome()
	if err == nil && code == shim.ExitDone && !done {
		return 0, errCut
	}
	return code, err
}

// execWait runs a program to its end, as proved says, and returns its exit code
// and what it complained of.
func (d *Driver) execWait(ctx context.Context, pod string, args ...string) (code int, complaint string, err error) {
	ctx, cancel := d.call(ctx)
	defer cancel()
	s, err := d.exec(ctx, execution{pod: pod, container: mainContainer, args: args})
	if err != nil {
		return 0, "", err
	}
	defer s.close()
	code, err = s.proved(ctx)
	return code, s.stderr.String(), err
}

// watchdog passes writes on and barks when none came for too long. The time in
// which the reader is busy does not count.
type watchdog struct {
	out      io.Writer
	patience time.Duration
	timer    *time.Timer
}

func newWatchdog(out io.Writer, patience time.Duration, bark func()) *watchdog {
	w := &watchdog{out: out, patience: patience}
	if patience > 0 {
		w.timer = time.AfterFunc(patience, bark)
	}
	return w
}

// Write implements io.Writer.
func (w *watchdog) Write(p []byte) (int, error) {
	w.stop()
	n, err := w.out.Write(p)
	if w.timer != nil && err == nil {
		w.timer.Reset(w.patience)
	}
	return n, err
}

func (w *watchdog) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}
