package clients

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/test/harness"
)

// execSession is a running drover runs exec.
type execSession struct {
	t      *testing.T
	stdin  io.WriteCloser
	stdout *output
	stderr *output
	ended  chan error
}

// startExec runs a command in a task.
func startExec(t *testing.T, c *harness.Client, id, task string, command ...string) *execSession {
	t.Helper()
	cmd := exec.CommandContext(testenv.Context(t), harness.Drover(t), append([]string{"runs", "exec", id, task, "--"}, command...)...)
	cmd.Env = append(os.Environ(), "DROVER_SERVER="+c.Server, "DROVER_TOKEN="+c.Token, "XDG_CONFIG_HOME="+t.TempDir())
	s := &execSession{t: t, stdout: new(output), stderr: new(output), ended: make(chan error, 1)}
	cmd.Stdout, cmd.Stderr = s.stdout, s.stderr
	var err error
	s.stdin, err = cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	go func() { s.ended <- cmd.Wait() }()
	return s
}

// awaitOutput waits until the command has written a text.
func (s *execSession) awaitOutput(text string) {
	s.t.Helper()
	testenv.Await(s.t, func() (bool, string) {
		return strings.Contains(s.stdout.String(), text), s.stdout.String() + s.stderr.String()
	})
}

// end waits for the end of drover, and returns its exit code.
func (s *execSession) end() int {
	s.t.Helper()
	select {
	case err := <-s.ended:
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			return exit.ExitCode()
		}
		require.NoError(s.t, err)
		return 0
	case <-testenv.Expired(s.t):
		s.t.Fatalf("the session does not end: %s%s", s.stdout.String(), s.stderr.String())
	}
	return -1
}

// waitingTask is a run whose task lasts until the file exists.
func waitingTask(dir string) string {
	return `{"name": "exec", "group": "/tests/exec", "tasks": {"build": {"pool": "shell", "environment": {"COLOR": "blue"},
		"steps": [{"run": "while [ ! -e ` + filepath.Join(dir, "done") + ` ]; do sleep 0.1; done; echo finished"}]}}}`
}

// execEvents returns the reasons of the events of sessions.
func execEvents(t *testing.T, c *harness.Client, id string) (reasons []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) //nolint:forbidigo // one try
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Server+"/api/v1/events?run="+id, nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+c.Token)
	resp, err := harness.HTTPClient(t).Do(req)
	if err != nil {
		return nil
	}
	defer func() { _ = resp.Body.Close() }()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); { // until the context ends
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		var e struct{ Type, Reason string }
		if ok && json.Unmarshal([]byte(data), &e) == nil && e.Type == "exec" {
			reasons = append(reasons, e.Reason)
		}
	}
	return reasons
}

// output is a buffer that a process writes while the test reads it.
type output struct {
	mu  sync.Mutex
	all bytes.Buffer
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.String()
}

// awaitSilence waits until no process appends to a file any more.
func awaitSilence(t *testing.T, file string) {
	t.Helper()
	last := int64(-1)
	testenv.Await(t, func() (bool, string) {
		info, err := os.Stat(file)
		require.NoError(t, err)
		silent := info.Size() == last && time.Since(info.ModTime()) > time.Second
		last = info.Size()
		return silent, "the command of the session lives on"
	})
}

// TestExec runs commands in a task while the processes of Drover are killed: the
// sessions end with all their processes, and the task continues.
func TestExec(t *testing.T) {
	t.Parallel()
	p, dir := harness.StartParts(t, "2", nil), t.TempDir()
	var limited []*harness.Client // without the scope exec
	for _, scope := range []string{"read", "write"} {
		limited = append(limited, harness.NewClient(t, p.Server, p.TokenFor("a-"+scope, scope)))
	}
	p.Processes[harness.Gateway].Kill() // it reads tokens when it starts
	p.Launch(harness.Gateway).AwaitReady()
	id := p.Submit(waitingTask(dir)).ID
	p.Await(id, func(r api.Run) bool { return harness.Running(r) == 1 })

	s := startExec(t, p.Client, id, "build", "sh", "-c", "echo $COLOR; cat; echo wrong >&2; exit 7")
	_, err := io.WriteString(s.stdin, "from stdin\n")
	require.NoError(t, err)
	require.NoError(t, s.stdin.Close())
	require.Equal(t, 7, s.end())
	require.Equal(t, "blue\nfrom stdin\n", s.stdout.String())
	require.Equal(t, "wrong\n", s.stderr.String())

	for _, client := range limited {
		s = startExec(t, client, id, "build", "true")
		require.Equal(t, 4, s.end())
		require.Contains(t, s.stderr.String(), "does not have the scope exec")
	}
	status, body, err := p.Do(t.Context(), http.MethodPut, "/api/v1/pools/shell", "application/json", `{"driver": "shell", "exec": "forbidden"}`)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, body)
	s = startExec(t, p.Client, id, "build", "true")
	require.Equal(t, 4, s.end())
	require.Contains(t, s.stderr.String(), "pool shell forbids commands in its tasks")
	status, body, err = p.Do(t.Context(), http.MethodPut, "/api/v1/pools/shell", "application/json", `{"driver": "shell", "exec": "allowed"}`)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, body)

	for _, part := range []harness.Part{harness.Executor, harness.Gateway} {
		beat := filepath.Join(dir, "beat-"+string(part))
		s = startExec(t, p.Client, id, "build", "sh", "-c", "trap '' TERM HUP; : > "+beat+"; echo begun; (while :; do echo x >> "+beat+"; sleep 0.1; done) & wait")
		s.awaitOutput("begun")
		p.Processes[part].Kill()
		require.NotZero(t, s.end())
		awaitSilence(t, beat)
		p.Launch(part).AwaitReady()
	}
	p.AwaitExecutor("online")

	s = startExec(t, p.Client, id, "build", "true")
	require.Zero(t, s.end(), s.stderr.String())
	// No session does this: the end of the task would end it, perhaps before its own.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "done"), nil, 0o600))
	r := p.AwaitPhase(id, "finished")
	require.EqualValues(t, "success", r.Result)
	require.Equal(t, "finished\n", p.Logs(id, "build"), "the output of sessions is not in the log")
	// The end of a session whose gateway was killed is recorded when its lease expires.
	testenv.Await(t, func() (bool, string) {
		reasons := execEvents(t, p.Client, id)
		return len(reasons) == 8, strings.Join(reasons, "\n")
	})
}

// TestHold looks into the environment of a failed task, which keeps its slot, and
// releases it.
func TestHold(t *testing.T) {
	t.Parallel()
	p := harness.StartParts(t, "1", nil)
	spec := `{"name": "hold", "group": "/tests/hold", "tasks": {"build": {"pool": "shell", "hold_on_failure": "1h",
		"steps": [{"run": "echo kept > file; exit 3"}]}}}`
	id := p.Submit(spec).ID
	held := func(r api.Run) bool {
		return strings.Contains(r.Tasks["build"].Reason, "its environment is held for 1h0m0s")
	}
	r := p.Await(id, held)
	require.EqualValues(t, "running", r.Tasks["build"].Status)
	next := p.Submit(strings.Replace(spec, "exit 3", "exit 0", 1)).ID

	p.Processes[harness.Executor].Kill()
	p.Launch(harness.Executor).AwaitReady()
	p.AwaitExecutor("online")
	testenv.Await(t, func() (bool, string) { // the executor adopts the task
		s := startExec(t, p.Client, id, "build", "cat", "file")
		return s.end() == 0 && s.stdout.String() == "kept\n", s.stderr.String()
	})
	require.True(t, held(p.Get(id)))
	require.EqualValues(t, "queued", p.Get(next).Tasks["build"].Status, "the held task has the slot")

	cmd := exec.CommandContext(testenv.Context(t), harness.Drover(t), "runs", "release", id, "build")
	cmd.Env = append(os.Environ(), "DROVER_SERVER="+p.Server, "DROVER_TOKEN="+p.Token, "XDG_CONFIG_HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	r = p.AwaitPhase(id, "finished")
	require.EqualValues(t, "failed", r.Result)
	require.Equal(t, 3, *r.Tasks["build"].ExitCode)
	require.EqualValues(t, "success", p.AwaitPhase(next, "finished").Result)
}
