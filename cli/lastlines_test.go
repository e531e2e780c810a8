package cli_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/clitest"
	"github.com/drover-run/drover/cli/command"
)

// failedRun returns a run that failed with some of its tasks. Its first task failed as
// allowed, and its second one before it began.
func failedRun(tasks map[string]api.Task) api.Run {
	tasks["allowed"] = api.Task{Number: 0, Status: api.StatusFailed, Executor: "host-7", Attempt: 1, AllowFailure: true}
	tasks["never"] = api.Task{Number: 1, Status: api.StatusFailed, Reason: "no executor"}
	return api.Run{ID: "r", Group: "/test", Phase: api.PhaseFinished, Result: api.ResultFailed, Tasks: tasks}
}

// failedTask returns a task that failed at its second attempt, in its second step. Its third
// step, which cleans up, failed too.
func failedTask(number int) api.Task {
	return api.Task{
		Number: number, Status: api.StatusFailed, Executor: "host-7", Attempt: 2,
		Steps: []api.Step{{Name: "build", Status: api.StatusSuccess}, {Name: "unit tests", Status: api.StatusFailed}, {Status: api.StatusFailed}},
	}
}

// TestLastLines compares what follows the other output of both commands.
func TestLastLines(t *testing.T) {
	t.Parallel()
	fail := func(g *clitest.Gateway, task string, text ...string) {
		for _, part := range text {
			clitest.WriteStep(g, "r", task, 2, 1, part)
		}
	}
	one := map[string]api.Task{"a": failedTask(2)}
	for name, x := range map[string]struct {
		run  api.Run
		logs func(*clitest.Gateway)
		want string // "": nothing follows
	}{
		"of the failed step, and of the newest attempt": {failedRun(one), func(g *clitest.Gateway) {
			clitest.WriteStep(g, "r", "a", 1, 1, "the first attempt\n")
			clitest.WriteStep(g, "r", "a", 2, 0, "built\n")
			fail(g, "a", "ok\n", "FAIL: to", "tal is 3\n")
			clitest.WriteStep(g, "r", "a", 2, 2, "cannot remove\n")
		}, "last lines of a, unit tests:\n  ok\n  FAIL: total is 3\na in the web UI: SERVER/runs/r/tasks/a\n"},
		"of a step without a name": {failedRun(map[string]api.Task{"a b\x1b[31m": {
			Number: 2, Status: api.StatusFailed, Executor: "host-7", Attempt: 2, Steps: []api.Step{{Status: api.StatusSuccess}, {Status: api.StatusFailed}},
		}}), func(g *clitest.Gateway) {
			fail(g, "a b\x1b[31m", "FAIL\n")
		}, "last lines of a b[31m, step 2:\n  FAIL\na b[31m in the web UI: SERVER/runs/r/tasks/a%20b%1B%5B31m\n"},
		"of the whole log, if no step failed": {failedRun(map[string]api.Task{"a": {
			Number: 2, Status: api.StatusFailed, Executor: "host-7", Attempt: 2, Steps: []api.Step{{Name: "build", Status: api.StatusSkipped}},
		}}), func(g *clitest.Gateway) {
			clitest.WriteStep(g, "r", "a", 2, -1, "cannot pull the image\n")
		}, "last lines of a:\n  cannot pull the image\na in the web UI: SERVER/runs/r/tasks/a\n"},
		"of the first of several failed tasks": {failedRun(map[string]api.Task{"a": failedTask(3), "z": failedTask(2)}), func(g *clitest.Gateway) {
			fail(g, "a", "FAIL a\n")
			fail(g, "z", "FAIL z\n")
			clitest.WriteStep(g, "r", "allowed", 1, 0, "FAIL allowed\n")
		}, "last lines of z, unit tests:\n  FAIL z\nz in the web UI: SERVER/runs/r/tasks/z\n"},
		"without control characters, and what was overwritten": {failedRun(one), func(g *clitest.Gateway) {
			fail(g, "a", "\n\x1b[0m\n10%\r20%\rdone\n\n\x1b[31mFAIL\x1b[0m\t\x07x\r\n\x1b]0;title\x07\n  \n")
		}, "last lines of a, unit tests:\n  done\n\n  FAIL    x\na in the web UI: SERVER/runs/r/tasks/a\n"},
		"the last ten of them": {failedRun(one), func(g *clitest.Gateway) {
			for range 5 {
				fail(g, "a", strings.Repeat("x", 1<<20)+"\n")
			}
			for i := range 15 {
				fail(g, "a", fmt.Sprintf("%d\n", i))
			}
		}, "last lines of a, unit tests:\n  5\n  6\n  7\n  8\n  9\n  10\n  11\n  12\n  13\n  14\na in the web UI: SERVER/runs/r/tasks/a\n"},
		"not the part of a line that is too long": {failedRun(one), func(g *clitest.Gateway) {
			fail(g, "a", "x\n", strings.Repeat("y", 5_000), "\nFAIL\n")
		}, "last lines of a, unit tests:\n  FAIL\na in the web UI: SERVER/runs/r/tasks/a\n"},
		"the end of the only line, if it is too long": {failedRun(one), func(g *clitest.Gateway) {
			for range 300 { // 1 MiB
				fail(g, "a", strings.Repeat("x", 4_000))
			}
		}, "last lines of a, unit tests:\n  " + strings.Repeat("x", 4<<10) + "\na in the web UI: SERVER/runs/r/tasks/a\n"},
		"none of a log whose last lines are far too long": {failedRun(one), func(g *clitest.Gateway) {
			for range 5 {
				fail(g, "a", strings.Repeat("x", 1<<20))
			}
		}, ""},
		"none of a log without lines": {failedRun(one), func(*clitest.Gateway) {}, ""},
		"none of a log without text":  {failedRun(one), func(g *clitest.Gateway) { fail(g, "a", "\n \n\x1b[0m\n") }, ""},
		"none of a log that cannot be read": {failedRun(one), func(g *clitest.Gateway) {
			fail(g, "a", "FAIL\n")
			g.Reject("GET /api/v1/runs/r/tasks/a/logs")
		}, ""},
		"none without a task that failed": {failedRun(map[string]api.Task{}), func(g *clitest.Gateway) {
			clitest.WriteStep(g, "r", "allowed", 1, 0, "FAIL allowed\n")
		}, ""},
		"none of a run that goes on":     {api.Run{ID: "r", Phase: api.PhaseRunning, Result: api.ResultFailed, Tasks: one}, func(g *clitest.Gateway) { fail(g, "a", "FAIL\n") }, ""},
		"none of a run that was stopped": {api.Run{ID: "r", Phase: api.PhaseFinished, Result: api.ResultStopped, Tasks: one}, func(g *clitest.Gateway) { fail(g, "a", "FAIL\n") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := clitest.New(t)
			g.Put(x.run)
			x.logs(g)
			want := strings.ReplaceAll(x.want, "SERVER", g.URL)
			for _, args := range [][]string{{"runs", "get", "r"}, {"runs", "get", "r", "--stages"}, {"runs", "explain", "r"}} {
				before := len(g.Requests())
				code, stdout, stderr := execute(t, g.URL, nil, args...)
				require.Equal(t, command.ExitOK, code, stderr)
				require.Empty(t, stderr)
				_, got, found := strings.Cut(stdout, "\nlast lines of ")
				if found {
					got = "last lines of " + got
				}
				require.Equal(t, want, got, "%s\n%s", args, stdout)
				logs := slices.DeleteFunc(g.Requests()[before:], func(r string) bool { return !strings.HasSuffix(r, "/logs") })
				require.LessOrEqual(t, len(logs), 1, "%s: %s", args, logs)

				// JSON is what the gateway answers.
				before = len(g.Requests())
				code, stdout, stderr = execute(t, g.URL, nil, append(args, "-o", "json")...)
				require.Equal(t, command.ExitOK, code, stderr)
				var shown map[string]any
				require.NoError(t, json.Unmarshal([]byte(stdout), &shown))
				require.Len(t, g.Requests()[before:], 1, args)
			}
		})
	}
}

// TestLastLines_interrupted cuts the log off after its first line: what was read is not the
// end of it.
func TestLastLines_interrupted(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/logs"):
			asked.Add(1)
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = fmt.Fprint(w, "event: start\ndata: {\"offset\": 0}\n\nid: 3\nevent: log\ndata: {\"offset\": 0, \"data\": \"b2sK\"}\n\n")
		default:
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(failedRun(map[string]api.Task{"a": failedTask(2)}))
		}
	}))
	defer server.Close()
	code, stdout, stderr := execute(t, server.URL, nil, "runs", "get", "r")
	require.Equal(t, command.ExitOK, code, stderr)
	require.Contains(t, stdout, "host-7")
	require.NotContains(t, stdout, "last lines")
	require.EqualValues(t, 1, asked.Load())
}
