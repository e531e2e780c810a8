package kubernetes

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/tools/remotecommand"
	execerrors "k8s.io/client-go/util/exec"

	"github.com/drover-run/drover/executor/shim"
	"github.com/drover-run/drover/executor/shim/journal"
	"github.com/drover-run/drover/run"
)

const (
	// execBuffer is the read buffer size for a program's output. It must not be
	// smaller than the buffer of a journal.LineReader, which then uses this
	// buffer.
	execBuffer = 64 << 10
	// tailBytes is how many of the last bytes of a program's stderr are kept.
	tailBytes = 2 << 10
)

var (
	errStalled = run.Errorf(run.CodeUnavailable, "nothing came from the pod for too long")
	errCut     = run.Errorf(run.CodeUnavailable, "the connection to the pod broke: the program ended without an answer")
	errDropped = errors.New("the reader is gone")
)

// session is a program in a container: a second shim process beside the one
// that runs the task. It is not safe for concurrent use.
type session struct {
	stdin  *io.PipeWriter // nil if the program has no stdin
	stdout *io.PipeReader
	source *bufio.Reader       // of stdout
	lines  *journal.LineReader // of source
	stderr tail
	cancel context.CancelCauseFunc
	watch  *watchdog
	done   chan struct{}
	err    error // error of the stream, valid once done is closed
}

// execution describes a program to run in a container.
type execution struct {
	pod       string
	container string
	args      []string // of the shim
	stdin     bool
	// stallTimeout is how long the program may print nothing; 0 means no limit.
	stallTimeout time.Duration
}

// exec starts a program. It keeps running after ctx ends, until close.
func (d *Driver) exec(ctx context.Context, e execution) (*session, error) {
	request := d.pods().Exec(e.pod, &corev1.PodExecOptions{
		Container: e.container, Command: append([]string{shimPath}, e.args...),
		Stdin: e.stdin, Stdout: true, Stderr: true,
	})
	// WebSockets pass through more proxies, and the server will keep supporting
	// them. Older servers support only SPDY.
	sockets, err := remotecommand.NewWebSocketExecutor(d.config, http.MethodGet, request.URL().String())
	if err != nil {
		return nil, ServerError(err, "prepare a command in the pod")
	}
	spdy, err := remotecommand.NewSPDYExecutor(d.config, http.MethodPost, request.URL())
	if err != nil {
		return nil, ServerError(err, "prepare a command in the pod")
	}
	both, err := remotecommand.NewFallbackExecutor(sockets, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return nil, ServerError(err, "prepare a command in the pod")
	}

	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stdout, sink := io.Pipe()
	s := &session{stdout: stdout, source: bufio.NewReaderSize(stdout, execBuffer), cancel: cancel, done: make(chan struct{})}
	s.lines = journal.NewLineReader(s.source)
	s.watch = newWatchdog(sink, e.stallTimeout, func() { cancel(errStalled) })
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

// close ends the session and its program, and returns when both have ended.
func (s *session) close() {
	s.cancel(errDropped)
	if s.stdin != nil {
		_ = s.stdin.CloseWithError(errDropped)
	}
	_ = s.stdout.CloseWithError(errDropped)
	<-s.done
}

// outcome waits for the end of the program and returns its exit code. The end
// is near when line has returned io.EOF. An error means that the connection
// failed, or that there is no container to run the program in. Code 0 alone
// proves nothing. An end without a status, for example after the API server
// lost the node, counts as success to client-go (errorstream.go of
// tools/remotecommand), and to the server, which uses it too.
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
	return 0, run.Errorf(run.CodeUnavailable, "run a program in the pod: %w", s.err)
}

// line returns the next line that the program prints, including the newline,
// valid until the next call. The error is io.EOF at any end of the stream, the
// error of ctx, or one that wraps journal.ErrDamaged for a line that is too long.
func (s *session) line(ctx context.Context) ([]byte, error) {
	stop := context.AfterFunc(ctx, func() { s.cancel(context.Cause(ctx)) })
	defer stop()
	line, err := s.lines.Next()
	switch {
	case err == nil, errors.Is(err, journal.ErrDamaged):
		return line, err
	case ctx.Err() != nil:
		return nil, ServerError(context.Cause(ctx), "follow the task")
	}
	return nil, io.EOF // drop an incomplete last line
}

// confirmedOutcome waits for the end of a program that prints shim.Done after success,
// and returns its exit code. It returns ExitDone only if that line came, even
// if the connection reports success.
func (s *session) confirmedOutcome(ctx context.Context) (code int, err error) {
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

// execWait runs a program to its end, like confirmedOutcome, and returns its exit code
// and its stderr output.
func (d *Driver) execWait(ctx context.Context, pod string, args ...string) (code int, stderr string, err error) {
	ctx, cancel := d.call(ctx)
	defer cancel()
	s, err := d.exec(ctx, execution{pod: pod, container: mainContainer, args: args})
	if err != nil {
		return 0, "", err
	}
	defer s.close()
	code, err = s.confirmedOutcome(ctx)
	return code, s.stderr.String(), err
}

// watchdog forwards writes and calls a function if none came within the
// timeout. Time in which the reader is busy does not count.
type watchdog struct {
	out          io.Writer
	stallTimeout time.Duration
	timer        *time.Timer
}

func newWatchdog(out io.Writer, timeout time.Duration, onTimeout func()) *watchdog {
	w := &watchdog{out: out, stallTimeout: timeout}
	if timeout > 0 {
		w.timer = time.AfterFunc(timeout, onTimeout)
	}
	return w
}

// Write implements io.Writer.
func (w *watchdog) Write(p []byte) (int, error) {
	w.stop()
	n, err := w.out.Write(p)
	if w.timer != nil && err == nil {
		w.timer.Reset(w.stallTimeout)
	}
	return n, err
}

func (w *watchdog) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// tail keeps the last bytes written to it. It is safe for concurrent use.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	if excess := len(t.kept) - tailBytes; excess > 0 {
		t.kept = append(t.kept[:0], t.kept[excess:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(bytes.ToValidUTF8(t.kept, []byte("?"))))
}
