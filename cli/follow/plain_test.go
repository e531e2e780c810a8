package follow

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/run"
)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func testScreen(w *bytes.Buffer) Screen {
	return Screen{
		Writer: w, Size: func() (int, int) { return 80, 24 }, Now: func() time.Time { return noon.Add(time.Minute) },
		Location: time.UTC, FormatDuration: func(d time.Duration) string { return d.String() },
	}
}

func testRun(names ...string) api.Run {
	r := api.Run{ID: "r1", Name: "demo", Group: "/test/demo", Phase: api.PhaseQueued, CreatedAt: noon, Tasks: map[string]api.Task{}}
	for i, name := range names {
		r.Tasks[name] = api.Task{Number: i, Status: api.StatusNotStarted}
	}
	return r
}

// plainTest sends events and output to a plain view.
type plainTest struct {
	out   bytes.Buffer
	plain *plain
	model *model
	at    time.Time
}

func newPlainTest(names ...string) *plainTest {
	s := &plainTest{model: newModel(testRun(names...)), at: noon}
	s.plain = newPlain(testScreen(&s.out))
	return s
}

func (s *plainTest) event(e api.Event) {
	s.at = s.at.Add(time.Second)
	e.Time = s.at
	var before *task
	if t := s.model.byName[e.Task]; t != nil {
		was := *t
		before = &was
	}
	now := s.model.apply(e)
	s.plain.changed(s.model, e, before, now)
}

func (s *plainTest) task(name string, status api.Status, attempt int, reason string) {
	executor := ""
	if status != api.StatusQueued {
		executor = "host-7"
	}
	s.event(api.Event{Type: api.EventTypeTask, Task: name, Status: status, Attempt: attempt, Executor: executor, Reason: reason})
}

func (s *plainTest) run(phase api.Phase, result api.Result, reason string) {
	s.event(api.Event{Type: api.EventTypeRun, Phase: phase, Result: result, Reason: reason})
}

func (s *plainTest) log(name string, attempt int, text string) {
	s.plain.output(output{source: source{name, attempt}, chunk: api.LogChunk{Stream: run.StreamStdout, Data: []byte(text)}})
}

func (s *plainTest) endLog(name string, attempt int, err error) {
	s.plain.output(output{source: source{name, attempt}, ended: true, err: err})
}

func TestPlain_prints_events(t *testing.T) {
	t.Parallel()
	s := newPlainTest("build", "test", "deploy", "never")
	s.run(api.PhaseQueued, api.ResultUnknown, "waits for change group x")
	s.run(api.PhaseRunning, api.ResultUnknown, "")
	s.task("build", api.StatusQueued, 1, "")
	s.task("build", api.StatusRunning, 1, "")
	s.task("build", api.StatusRunning, 1, "executor host-7 out of contact since 12:00:05Z")
	s.task("build", api.StatusRunning, 1, "")
	s.task("build", api.StatusSuccess, 1, "")
	s.task("test", api.StatusRunning, 1, "")
	s.task("test", api.StatusQueued, 2, "exit code 3")
	s.task("test", api.StatusRunning, 2, "")
	s.task("test", api.StatusFailed, 2, "exit code 3\x1b[2J")
	s.run(api.PhaseRunning, api.ResultFailed, "")
	s.task("deploy", api.StatusWaitingApproval, 0, "waits for an approval")
	s.task("deploy", api.StatusStopped, 0, "")
	s.task("never", api.StatusSkipped, 0, "needs success of test")
	s.run(api.PhaseFinished, api.ResultFailed, "task test failed")
	s.plain.end(s.model, true)
	require.Equal(t, `12:00:01 run r1 queued: waits for change group x
12:00:02 run r1 running
12:00:04 build running on host-7
12:00:05 build still running: executor host-7 out of contact since 12:00:05Z
12:00:06 build running on host-7 again
12:00:07 build success in 3s
12:00:08 test running on host-7
12:00:09 test queued again, attempt 2: exit code 3
12:00:10 test running on host-7 (attempt 2)
12:00:11 test failed after 1s: exit code 3
12:00:13 deploy waits for an approval (drover runs approve r1 deploy)
12:00:14 deploy stopped
12:00:15 never skipped: needs success of test
failed: test: exit code 3
run r1 finished: failed in 14s (task test failed)
`, s.out.String())
}

func TestPlain_prints_stages(t *testing.T) {
	t.Parallel()
	s := newPlainTest("build")
	stage := func(kind api.EventType, stage api.Stage) {
		s.event(api.Event{Type: kind, Task: "build", Status: api.StatusRunning, Stage: stage, Attempt: 1, Executor: "host-7"})
	}
	stage(api.EventTypeTask, "prepare")
	stage(api.EventTypeStage, "step")
	stage(api.EventTypeStage, "transfer")
	stage(api.EventTypeStage, "cleanup")
	s.task("build", api.StatusSuccess, 1, "")
	s.task("build", api.StatusRunning, 2, "") // an older gateway
	require.Equal(t, `12:00:01 build preparing on host-7
12:00:02 build running
12:00:03 build uploading
12:00:04 build cleaning up
12:00:05 build success in 4s
12:00:06 build running on host-7 (attempt 2)
`, s.out.String())
}

func TestPlain_keeps_a_task_in_order(t *testing.T) {
	t.Parallel()
	s := newPlainTest("a", "b")
	s.plain.logOpened(source{"a", 1})
	s.task("a", api.StatusRunning, 1, "")
	s.log("a", 1, "one\ntw")
	s.task("a", api.StatusQueued, 2, "exit code 1")
	s.plain.logOpened(source{"a", 2})
	s.task("a", api.StatusRunning, 2, "")
	s.log("a", 2, "again\n") // the second log ends first
	s.task("a", api.StatusSuccess, 2, "")
	s.task("b", api.StatusSkipped, 0, "") // other tasks do not wait for the log
	s.log("a", 1, "o\r\nthree")
	s.endLog("a", 1, nil)
	s.log("a", 2, "at last\n")
	s.endLog("a", 2, nil)
	require.Equal(t, []string{
		"12:00:01 a running on host-7",
		"a | one",
		"12:00:05 b skipped",
		"a | two",
		"a | three",
		"12:00:02 a queued again, attempt 2: exit code 1",
		"12:00:03 a running on host-7 (attempt 2)",
		"a | again",
		"a | at last",
		"12:00:04 a success in 1s",
	}, strings.Split(strings.TrimSpace(s.out.String()), "\n"))
}

func TestPlain_log_that_breaks_off(t *testing.T) {
	t.Parallel()
	s := newPlainTest("a")
	s.plain.logOpened(source{"a", 1})
	s.task("a", api.StatusRunning, 1, "")
	s.log("a", 1, "half a li")
	s.endLog("a", 1, errors.New("no answer"))
	s.log("a", 1, strings.Repeat("x", maxLine+10))
	require.Contains(t, s.out.String(), "a | half a li\na | (the log is incomplete: no answer)\n")
	require.Contains(t, s.out.String(), "a | "+strings.Repeat("x", 100))
}

func TestPlain_reports_waiting_once(t *testing.T) {
	t.Parallel()
	s := newPlainTest("a", "b", "c")
	for name, task := range s.model.byName {
		task.status, task.reason = run.StatusQueued, "no executor of pool gpu is online"
		if name == "c" {
			task.reason = "all 2 slots of pool shell are in use"
		}
	}
	s.plain.refreshed(s.model)
	s.plain.refreshed(s.model)
	require.Equal(t, "12:01:00 a and 1 more wait: no executor of pool gpu is online\n"+
		"12:01:00 c waits: all 2 slots of pool shell are in use\n", s.out.String())
}

func TestPlain_reports_the_holder_of_slots_once(t *testing.T) {
	t.Parallel()
	s := newPlainTest("a", "b", "c")
	for name, task := range s.model.byName {
		task.status, task.reason = run.StatusWaitingChangeGroup, "waits for change group g: position 4 in queue, 1 of 1 slots held by r2"
		if name == "c" {
			task.reason = "waits for change group h: position 1 in queue, 1 of 1 slots held by r3"
		}
	}
	s.plain.refreshed(s.model)
	s.model.byName["a"].reason = "waits for change group g: position 3 in queue, 1 of 1 slots held by r1"
	s.plain.refreshed(s.model)
	require.Equal(t, "12:01:00 a and 1 more wait for change group g; the next one: position 4 in queue, 1 of 1 slots held by r2\n"+
		"12:01:00 c waits for change group h: position 1 in queue, 1 of 1 slots held by r3\n", s.out.String())
}

func TestPlain_reports_the_states_of_fleets(t *testing.T) {
	t.Parallel()
	s := newPlainTest("a")
	for _, state := range []string{
		"no fleet worker has watched it yet", "instance 1 of fleet gpu is requested (0 s)", "instance 1 of fleet gpu is requested (4 s)",
		"instance 1 of fleet gpu is booting (59 s)", "instance 1 of fleet gpu is booting (2 min); fleet gpu: quota x is used up",
	} {
		if !strings.Contains(state, "fleet gpu") {
			state = "fleet gpu: " + state
		}
		s.model.byName["a"].status, s.model.byName["a"].reason = run.StatusQueued, "no executor of pool gpu is online; "+state
		s.plain.refreshed(s.model)
	}
	const waits = "12:01:00 a waits: no executor of pool gpu is online; "
	require.Equal(t, waits+"fleet gpu: no fleet worker has watched it yet\n"+
		waits+"instance 1 of fleet gpu is requested (0 s)\n"+
		waits+"instance 1 of fleet gpu is booting (59 s)\n"+
		waits+"instance 1 of fleet gpu is booting (2 min); fleet gpu: quota x is used up\n", s.out.String())
}

func TestPlain_end_without_the_gateway(t *testing.T) {
	t.Parallel()
	s := newPlainTest("a")
	s.plain.logOpened(source{"a", 1})
	s.task("a", api.StatusRunning, 1, "")
	s.task("a", api.StatusSuccess, 1, "") // held back until the log is read
	s.plain.availability(errors.New("refused"))
	s.plain.availability(errors.New("refused"))
	s.plain.availability(nil)
	s.plain.end(s.model, false)
	require.Equal(t, `12:00:01 a running on host-7
12:01:00 the gateway is unavailable, trying again: refused
12:01:00 the gateway is available again
12:00:02 a success in 1s
`, s.out.String())
}

func TestPlain_many_failures(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range 30 {
		names = append(names, fmt.Sprintf("t%02d", i))
	}
	s := newPlainTest(names...)
	for _, name := range names {
		s.task(name, api.StatusFailed, 1, "no")
	}
	s.out.Reset()
	s.plain.end(s.model, true)
	require.Equal(t, maxListed+2, strings.Count(s.out.String(), "\n"))
	require.Contains(t, s.out.String(), "failed: 20 more\n")
}

// A failure that is allowed is a warning, also of a dynamic task, for which only the
// snapshot says so.
func TestPlain_warnings(t *testing.T) {
	t.Parallel()
	r := testRun("lint", "test")
	r.Tasks["lint"] = api.Task{Number: 0, Status: api.StatusNotStarted, AllowFailure: true}
	s := &plainTest{model: newModel(r), at: noon}
	s.plain = newPlain(testScreen(&s.out))
	s.task("lint", api.StatusRunning, 1, "")
	s.task("lint", api.StatusFailed, 1, "exit code 3")
	s.task("part[0]", api.StatusFailed, 1, "")
	s.task("test", api.StatusSuccess, 1, "")
	reason := "with warnings: lint, part[0] failed"
	s.run(api.PhaseFinished, api.ResultSuccess, reason)
	s.model.finalize(api.Run{ID: "r1", Phase: api.PhaseFinished, Result: api.ResultSuccess, Reason: reason, StartedAt: noon, EndedAt: s.at, Tasks: map[string]api.Task{
		"lint":    {Number: 0, Status: api.StatusFailed, AllowFailure: true, Reason: "exit code 3"},
		"test":    {Number: 1, Status: api.StatusSuccess},
		"part[0]": {Number: 2, Status: api.StatusFailed, AllowFailure: true},
	}})
	s.plain.end(s.model, true)
	require.Equal(t, `12:00:01 lint running on host-7
12:00:02 lint failed as allowed after 1s: exit code 3
12:00:03 part[0] failed
12:00:04 test success
warning: failed as allowed: lint: exit code 3
warning: failed as allowed: part[0]
run r1 finished: success in 5s (with warnings: lint, part[0] failed)
`, s.out.String())
}

// The results of tests are known when the run has ended.
func TestPlain_failed_tests(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		tests api.TestSummary
		want  string
	}{
		{api.TestSummary{Tests: 7}, ""},
		{api.TestSummary{Tests: 7, Failed: 2, FailedNames: []string{"shop.Cart", "esc\x1b[2Jape"}}, "tests: 2 of 7 failed\nfailed test: shop.Cart\nfailed test: escape\n"},
		{
			api.TestSummary{Tests: 400, Failed: 300, FailedNames: slices.Repeat([]string{"x"}, 100)},
			"tests: 300 of 400 failed\n" + strings.Repeat("failed test: x\n", maxListed) + "failed test: 290 more\n",
		},
	} {
		s := newPlainTest("a")
		s.model.finalize(api.Run{ID: "r1", Phase: api.PhaseFinished, Result: api.ResultFailed, Tests: tc.tests})
		s.plain.end(s.model, true)
		require.Equal(t, tc.want+summary(s.plain.screen, s.model)+"\n", s.out.String())
	}
}

func TestPlain_foreach_task_has_no_duration(t *testing.T) {
	t.Parallel()
	s := newPlainTest("build")
	s.task("build", api.StatusSuccess, 0, "tasks created from its list: 2")
	require.Contains(t, s.out.String(), "build success: tasks created from its list: 2\n")
}
