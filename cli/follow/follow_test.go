package follow_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/clitest"
	"github.com/drover-run/drover/cli/follow"
	"github.com/drover-run/drover/cli/remote"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

func TestMain(m *testing.M) {
	// Idle connections in the pool of the HTTP transport are not a leak.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"), goleak.IgnoreTopFunction("internal/poll.runtime_pollWait"))
}

// buffer is written by the follower and read by the test.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func (b *buffer) await(t *testing.T, text string) {
	t.Helper()
	testenv.Await(t, func() (bool, string) { return strings.Contains(b.String(), text), b.String() })
}

// followTest is a follower of a run on a fake gateway.
type followTest struct {
	*clitest.Gateway
	t    *testing.T
	out  *buffer
	done chan struct{}
	end  remote.Answer[api.Run]
	err  error
	stop context.CancelFunc
}

func watch(t *testing.T, live bool, timeout time.Duration, tasks ...string) *followTest {
	t.Helper()
	s := &followTest{Gateway: clitest.New(t), t: t, out: &buffer{}, done: make(chan struct{})}
	r := api.Run{
		ID: "r1", Name: "demo", Group: "/test/demo", Phase: api.PhaseQueued, Result: api.ResultUnknown, CreatedAt: clitest.Start(),
		Tasks: map[string]api.Task{},
	}
	for i, name := range tasks {
		r.Tasks[name] = api.Task{Number: i, Status: api.StatusNotStarted}
	}
	s.Put(r)
	client, err := remote.New(remote.Options{Server: s.URL, Token: clitest.Token, RetryTimeout: timeout, Pause: time.Millisecond})
	require.NoError(t, err)
	seen, err := client.Run(t.Context(), "r1")
	require.NoError(t, err)
	var ctx context.Context
	ctx, s.stop = context.WithCancel(t.Context())
	go func() {
		defer close(s.done)
		s.end, s.err = follow.Follow(ctx, follow.Options{Client: client, Run: seen.Value, Screen: follow.Screen{
			Writer: s.out, Live: live, Terminal: live, Unicode: true, Size: func() (int, int) { return 100, 30 },
			Now: clitest.Start, Location: time.UTC, FormatDuration: time.Duration.String,
		}})
	}()
	t.Cleanup(func() { s.stop(); <-s.done })
	return s
}

func (s *followTest) task(name string, status api.Status, reason string) {
	executor := "host-7"
	if status == api.StatusQueued || status == api.StatusSkipped {
		executor = ""
	}
	s.Emit(api.Event{Type: api.EventTypeTask, Run: "r1", Task: name, Status: status, Attempt: 1, Executor: executor, Reason: reason})
}

func (s *followTest) phase(phase api.Phase, result api.Result) {
	s.Emit(api.Event{Type: api.EventTypeRun, Run: "r1", Phase: phase, Result: result})
}

func (s *followTest) await() {
	s.t.Helper()
	select {
	case <-s.done:
	case <-testenv.Expired(s.t):
		s.t.Fatal("the follower did not end:\n" + s.out.String())
	}
}

func TestFollow_over_restarts_of_the_gateway(t *testing.T) {
	t.Parallel()
	s := watch(t, false, time.Minute, "a", "b")
	s.phase(api.PhaseRunning, api.ResultUnknown)
	s.task("a", api.StatusRunning, "")
	var want []string
	for i := range 5 {
		line := fmt.Sprintf("line %d", i)
		want = append(want, "a | "+line)
		s.Write("r1", "a", 1, line[:3])
		s.SetUnavailable(true)
		s.Write("r1", "a", 1, line[3:]+"\n")
		s.out.await(t, "the gateway is unavailable")
		s.SetUnavailable(false)
		s.out.await(t, "a | "+line+"\n")
	}
	s.SetUnavailable(true)
	s.task("a", api.StatusSuccess, "")
	s.EndLog("r1", "a", 1)
	s.task("b", api.StatusSkipped, "")
	s.phase(api.PhaseFinished, api.ResultSuccess)
	s.SetUnavailable(false)
	s.await()
	require.NoError(t, s.err)
	require.Equal(t, api.PhaseFinished, s.end.Value.Phase)
	var got []string
	for line := range strings.Lines(s.out.String()) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "a | ") {
			got = append(got, line)
		}
	}
	require.Equal(t, want, got, "the output must have every line once")
	for _, text := range []string{" a running on host-7", " a success in ", " b skipped", " run r1 running", "run r1 finished: success in"} {
		require.Equal(t, 1, strings.Count(s.out.String(), text), "%s in\n%s", text, s.out.String())
	}
	require.True(t, strings.HasSuffix(s.out.String(), "run r1 finished: success in 400ms\n"), s.out.String())
}

func TestFollow_times_out_without_the_gateway(t *testing.T) {
	t.Parallel()
	for _, live := range []bool{false, true} {
		s := watch(t, live, 50*time.Millisecond, "a")
		s.task("a", api.StatusRunning, "")
		s.out.await(t, "host-7")
		s.SetUnavailable(true)
		s.await()
		require.ErrorIs(t, s.err, follow.ErrUnavailable)
		require.ErrorIs(t, s.err, remote.ErrUnreachable)
		require.Equal(t, run.CodeUnavailable, run.CodeOf(s.err))
	}
}

func TestFollow_ends_with_the_context(t *testing.T) {
	t.Parallel()
	for _, live := range []bool{false, true} {
		s := watch(t, live, time.Minute, "a")
		s.task("a", api.StatusRunning, "")
		s.Write("r1", "a", 1, "hello\n")
		s.out.await(t, "a | hello")
		s.stop()
		s.await()
		require.ErrorIs(t, s.err, context.Canceled)
		require.NotContains(t, s.out.String(), "finished")
		if live {
			require.Contains(t, s.out.String(), "\x1b[?25h", "the cursor must come back")
		}
	}
}

func TestFollow_live(t *testing.T) {
	t.Parallel()
	s := watch(t, true, time.Minute, "a", "b")
	s.phase(api.PhaseRunning, api.ResultUnknown)
	s.task("a", api.StatusRunning, "")
	s.Write("r1", "a", 1, "hello\nhalf a li")
	s.out.await(t, "a | hello")
	s.out.await(t, "● a")
	s.Write("r1", "a", 1, "ne\n")
	s.out.await(t, "a | half a line")
	s.EndLog("r1", "a", 1)
	s.task("a", api.StatusFailed, "exit code 3")
	s.task("b", api.StatusSkipped, "needs success of a")
	s.phase(api.PhaseFinished, api.ResultFailed)
	s.await()
	require.NoError(t, s.err)
	_, after, _ := strings.Cut(s.out.String(), "\x1b[?25h")
	require.Equal(t, "the end of the log of a:\n  hello\n  half a line\nfailed: a: exit code 3\nrun r1 finished: failed in 400ms\n", after)
}

func TestFollow_more_logs_than_are_read_at_once(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range 150 {
		names = append(names, fmt.Sprintf("t%03d", i))
	}
	s := watch(t, false, time.Minute, names...)
	s.phase(api.PhaseRunning, api.ResultUnknown)
	for _, name := range names {
		s.task(name, api.StatusRunning, "")
		s.Write("r1", name, 1, "from "+name+"\n")
	}
	// The log of a task without a reader is printed when the task ends.
	s.out.await(t, "t149 running")
	s.EndLog("r1", "t149", 1)
	s.task("t149", api.StatusFailed, "exit code 1")
	s.out.await(t, "t149 | from t149")
	s.out.await(t, "t149 failed after")
	require.NotContains(t, s.out.String(), "t100 | ")
	for _, name := range names[:149] {
		s.EndLog("r1", name, 1)
		s.task(name, api.StatusSuccess, "")
	}
	s.phase(api.PhaseFinished, api.ResultFailed)
	s.await()
	require.NoError(t, s.err)
	for _, name := range names {
		require.Equal(t, 1, strings.Count(s.out.String(), name+" | from "+name+"\n"), name)
	}
	lines := slices.Collect(strings.Lines(s.out.String()))
	require.Equal(t, "failed: t149: exit code 1\n", lines[len(lines)-2])
}

func TestFollow_a_log_that_is_refused(t *testing.T) {
	t.Parallel()
	s := watch(t, false, time.Minute, "a")
	s.Reject("GET /api/v1/runs/r1/tasks/a/logs")
	s.task("a", api.StatusRunning, "")
	s.task("a", api.StatusSuccess, "")
	s.phase(api.PhaseFinished, api.ResultSuccess)
	s.await()
	require.NoError(t, s.err)
	require.Contains(t, s.out.String(), "a | (the log is incomplete: there is no request GET /api/v1/runs/r1/tasks/a/logs)\n")
	require.Contains(t, s.out.String(), "a success in ")
}
