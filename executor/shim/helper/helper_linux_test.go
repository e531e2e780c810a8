package helper

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

// container is a helper process in a directory of its own, in place of a container.
type container struct {
	testing.TB
	dir    string
	cmd    *exec.Cmd
	stderr *strings.Builder
	ended  chan struct{}
}

func startHelper(t *testing.T) *container {
	t.Helper()
	c := &container{TB: t, dir: t.TempDir(), stderr: new(strings.Builder), ended: make(chan struct{})}
	c.cmd = exec.Command(testenv.BuildShim(t), "helper", "--dir", c.dir, "--name", Name(0))
	c.cmd.Stderr = c.stderr
	require.NoError(t, c.cmd.Start())
	go func() {
		_ = c.cmd.Wait()
		close(c.ended)
	}()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		c.awaitEnd()
	})
	return c
}

func (c *container) awaitEnd() {
	c.Helper()
	testenv.Receive(c, c.ended)
}

func (c *container) order() run.ShimSpec {
	return run.ShimSpec{Version: 1, FirstFrame: 1, WorkingDir: c.dir, Definition: run.Definition{
		Key: run.Key{Run: "r", Task: 1, Attempt: 1, Dispatch: 1}, Shell: run.DefaultShell(), Environment: map[string]string{"VALUE": "given"},
	}}
}

func (c *container) connect() *Client {
	c.Helper()
	client, err := Connect(testenv.Context(c), c.dir, Name(0), c.order())
	require.NoError(c, err)
	c.Cleanup(func() { client.Close(time.Second) })
	return client
}

// step is a step whose output is read line by line.
type step struct {
	*Process
	out *bufio.Scanner
	end *os.File
}

func (c *container) run(client *Client, number int, script string) *step {
	c.Helper()
	r, w, err := os.Pipe()
	require.NoError(c, err)
	c.Cleanup(func() { _ = r.Close() })
	p, err := client.Run(Step{Number: number, Attempt: 1, Step: run.StepDef{Script: script}, OutputBudget: run.MaxOutputBytes}, w, w)
	require.NoError(c, err)
	require.NoError(c, w.Close())
	return &step{Process: p, out: bufio.NewScanner(r), end: r}
}

func (s *step) line(t testing.TB) string {
	t.Helper()
	require.NoError(t, s.end.SetReadDeadline(time.Now().Add(testenv.Patience(t))))
	require.True(t, s.out.Scan(), s.out.Err())
	return s.out.Text()
}

func (s *step) await(t testing.TB) (Result, error) {
	t.Helper()
	testenv.Receive(t, s.Done())
	return s.Result()
}

func TestClient_Run(t *testing.T) {
	t.Parallel()
	c := startHelper(t)
	client := c.connect()
	s := c.run(client, 0, `echo "$VALUE"; echo error >&2; pwd; echo key=value >> "$DROVER_OUTPUT"; exit 7`)
	require.Equal(t, []string{"given", "error", c.dir}, []string{s.line(t), s.line(t), s.line(t)})
	r, err := s.await(t)
	require.NoError(t, err)
	require.Equal(t, 7, r.Exit.Code)
	require.Equal(t, map[string]string{"key": "value"}, r.Outputs)

	s = c.run(client, 1, "echo wrong >> $DROVER_OUTPUT")
	r, err = s.await(t)
	require.NoError(t, err)
	require.Contains(t, r.OutputError, "not key=value")

	s = c.run(client, 2, strings.Repeat("# a long script\n", 30_000)+"kill -9 $$")
	r, err = s.await(t)
	require.NoError(t, err)
	require.True(t, r.Exit.Killed)

	s = c.run(client, 3, "trap 'echo stopping; exit 3' TERM; echo begun; while true; do sleep 0.1; done")
	require.Equal(t, "begun", s.line(t))
	s.Terminate()
	r, err = s.await(t)
	require.NoError(t, err)
	require.Equal(t, 3, r.Exit.Code)

	s = c.run(client, 4, "trap '' TERM; echo begun; sleep 300")
	require.Equal(t, "begun", s.line(t))
	s.Terminate()
	s.Kill()
	r, err = s.await(t)
	require.NoError(t, err)
	require.Equal(t, 137, r.Exit.Code)

	client.Close(time.Second)
	c.awaitEnd()
	_, err = client.Run(Step{Attempt: 1}, s.end, s.end)
	require.ErrorIs(t, err, errLost)
}

func TestClient_Run_not_started(t *testing.T) {
	t.Parallel()
	c := startHelper(t)
	order := c.order()
	order.Definition.Shell = []string{"/no/such/shell"}
	client, err := Connect(testenv.Context(t), c.dir, Name(0), order)
	require.NoError(t, err)
	defer client.Close(time.Second)
	r, err := c.run(client, 0, "true").await(t)
	require.NoError(t, err)
	require.True(t, r.NoProgram)
	require.Equal(t, "/no/such/shell: no such file or directory", r.NotStarted)
	r, err = c.run(client, 0, "true").await(t) // its script exists already
	require.NoError(t, err)
	require.False(t, r.NoProgram)
	require.Contains(t, r.NotStarted, "file exists")
}

func TestConnect_fault(t *testing.T) {
	t.Parallel()
	c := startHelper(t)
	order := c.order()
	order.Definition.User = "no-such-user"
	_, err := Connect(testenv.Context(t), c.dir, Name(0), order)
	require.ErrorContains(t, err, `user "no-such-user" does not exist in this environment`)
	c.awaitEnd()
}

func TestConnect_timeout(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, errors.New("nothing came"))
	defer cancel()
	_, err := Connect(ctx, t.TempDir(), Name(0), run.ShimSpec{})
	require.ErrorContains(t, err, "it did not answer: nothing came")
}

// TestServe_accepts_one_connection shows that a script cannot reach the helper.
func TestServe_accepts_one_connection(t *testing.T) {
	t.Parallel()
	c := startHelper(t)
	client := c.connect()
	_, err := net.Dial("unix", socketOf(c.dir, Name(0)))
	require.ErrorIs(t, err, os.ErrNotExist)
	r, err := c.run(client, 0, "ls "+c.dir).await(t)
	require.NoError(t, err)
	require.Zero(t, r.Exit.Code)
}

func TestServe_ends_with_its_connection(t *testing.T) {
	t.Parallel()
	c := startHelper(t)
	client := c.connect()
	s := c.run(client, 0, "trap '' TERM; (trap '' TERM; setsid sleep 300) & echo $!; sleep 300")
	pid, err := strconv.Atoi(s.line(t))
	require.NoError(t, err)
	client.conn.close() // as the kernel does when the shim of the task is killed
	_, err = s.await(t)
	require.ErrorIs(t, err, errLost)
	c.awaitEnd()
	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH, "a process of the step is left")
	_, err = io.Copy(io.Discard, s.end)
	require.NoError(t, err, "no process has the pipe open")
}

func TestClient_lost(t *testing.T) {
	t.Parallel()
	c := startHelper(t)
	client := c.connect()
	s := c.run(client, 0, "echo begun; exec sleep 1")
	require.Equal(t, "begun", s.line(t))
	require.NoError(t, c.cmd.Process.Kill())
	_, err := s.await(t)
	require.ErrorIs(t, err, errLost)
	_, err = client.Run(Step{Attempt: 1}, s.end, s.end)
	require.ErrorIs(t, err, errLost)
}

// TestProcess_Kill_frozen kills a step whose helper does not answer.
func TestProcess_Kill_frozen(t *testing.T) {
	t.Parallel()
	c := startHelper(t)
	client := c.connect()
	s := c.run(client, 0, "echo begun; exec sleep 300")
	require.Equal(t, "begun", s.line(t))
	require.NoError(t, c.cmd.Process.Signal(syscall.SIGSTOP))
	s.Kill()
	_, err := s.await(t)
	require.ErrorIs(t, err, errLost)
	require.NoError(t, c.cmd.Process.Signal(syscall.SIGCONT))
	c.awaitEnd()
}

func TestServe_refuses_a_step_without_pipes(t *testing.T) {
	t.Parallel()
	c := startHelper(t)
	socket, err := dial(testenv.Context(t), socketOf(c.dir, Name(0)))
	require.NoError(t, err)
	defer func() { _ = socket.Close() }()
	conn := newConn(socket)
	order := c.order()
	require.NoError(t, conn.send(request{Order: &order}))
	require.NoError(t, conn.send(request{Step: &Step{Attempt: 1, Step: run.StepDef{Script: "true"}}}))
	c.awaitEnd()
	require.Contains(t, c.stderr.String(), "broke the protocol")
}
