package executortest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/run"
)

// cleanupCases test the steps that also run after a stop and after the timeout of
// the task: each runs exactly once, and all of them within the timeout of the cleanup.
func cleanupCases() []testCase {
	archives := func(f executor.Features) bool { return f.Archives }
	return []testCase{
		{"cleanup/after_a_stop", nil, cleanupAfterStop},
		{"cleanup/after_a_timeout", nil, cleanupAfterTimeout},
		{"cleanup/not_after_success", nil, cleanupNotAfterSuccess},
		{"cleanup/continues_a_running_step", nil, cleanupContinues},
		{"cleanup/ends_with_its_timeout", nil, cleanupTimeout},
		{"cleanup/timeout_kills", nil, cleanupTimeoutKills},
		{"cleanup/a_failing_step_changes_no_status", nil, cleanupFails},
		{"cleanup/aborted_in_the_middle", nil, cleanupAborted},
		{"cleanup/aborted_while_a_step_ends", nil, cleanupAbortedBefore},
		{"cleanup/never_after_an_abort", nil, cleanupAfterAbort},
		{"cleanup/executor_killed_in_the_middle", nil, cleanupExecutorKilled},
		{"cleanup/removed_in_the_middle", nil, cleanupRemoved},
		{"cleanup/saves_archives_after_a_stop", archives, cleanupSaves},
	}
}

// hangs begins, and continues until it is stopped.
const hangs = "echo begun; sleep 300"

// defineCleanup returns a task that hangs in its first step, with steps of all
// conditions after it. The cleanup steps print how often they have run.
func (b *bench) defineCleanup() run.Definition {
	d := b.define(hangs, "echo no", "echo no", `echo x >> always; echo "always $(wc -l < always | tr -d ' ')"`,
		`echo x >> stop; echo "on_stop $(wc -l < stop | tr -d ' ')"`)
	d.Steps[2].When, d.Steps[3].When, d.Steps[4].When = run.WhenOnFailure, run.WhenAlways, run.WhenOnStop
	return d
}

// requireCleanedUp requires that both cleanup steps of defineCleanup ran once.
func (b *bench) requireCleanedUp(s recording, first run.Status) {
	b.Helper()
	require.Equal(b, "begun\nalways 1\non_stop 1\n", s.output(run.StreamStdout))
	require.Equal(b, []run.Status{first, run.StatusSkipped, run.StatusSkipped, run.StatusSuccess, run.StatusSuccess}, statuses(s.result()))
}

func cleanupAfterStop(b *bench) {
	h := b.start(b.defineCleanup())
	b.awaitOutput(h, "begun")
	require.NoError(b, h.Stop(b.limit(), grace))
	require.NoError(b, h.Stop(b.limit(), grace), "a repeated request does not end the cleanup")
	s := b.follow(h)
	b.requireCleanedUp(s, run.StatusStopped)
	require.Equal(b, run.StatusStopped, s.result().Status)
	require.Equal(b, "stopped in step 1", s.result().Reason)
	require.Equal(b, []run.Stage{"", "", "", run.StageCleanup, run.StageCleanup}, stages(s.result()))
	requireStages(b, s)
	b.remove(h)
}

// stages returns the stages of the steps of a task; "" is that of a script.
func stages(r run.TaskResult) []run.Stage {
	all := make([]run.Stage, len(r.Steps))
	for i, step := range r.Steps {
		all[i] = step.Stage
	}
	return all
}

// requireStages requires that the start frames have the stages of the result.
func requireStages(b *bench, s recording) {
	b.Helper()
	for _, f := range s.frames {
		if f.Kind == run.FrameStepStart {
			require.Equal(b, s.result().Steps[f.Step].Stage, f.Stage, "step %d", f.Step)
		}
	}
}

func cleanupAfterTimeout(b *bench) {
	d := b.defineCleanup()
	d.Timeout = 5 * time.Second // the first step prints before, also on a busy host
	s := b.run(d)
	b.requireCleanedUp(s, run.StatusFailed)
	r := s.result()
	require.Equal(b, run.StatusFailed, r.Status)
	require.Equal(b, run.CauseTimeout, r.Cause)
	require.True(b, r.TimedOut)
	require.Equal(b, "the task timed out after 5s in step 1", r.Reason)
}

func cleanupNotAfterSuccess(b *bench) {
	d := b.define("echo one", "echo no", "echo always")
	d.Steps[1].When, d.Steps[2].When = run.WhenOnStop, run.WhenAlways
	s := b.run(d)
	require.Equal(b, "one\nalways\n", s.output(""))
	require.Equal(b, run.StatusSuccess, s.result().Status)
	require.Equal(b, []run.Status{run.StatusSuccess, run.StatusSkipped, run.StatusSuccess}, statuses(s.result()))
}

// cleanupContinues stops a task whose cleanup step runs already.
func cleanupContinues(b *bench) {
	d := b.define("true", "echo cleaning; sleep 5; echo clean", "echo no", "echo last") // the stop arrives before, also on a busy host
	d.Steps[1].When, d.Steps[3].When = run.WhenAlways, run.WhenOnStop
	h := b.start(d)
	b.awaitOutput(h, "cleaning")
	require.NoError(b, h.Stop(b.limit(), grace))
	s := b.follow(h)
	require.Equal(b, "cleaning\nclean\nlast\n", s.output(run.StreamStdout))
	require.Equal(b, run.StatusStopped, s.result().Status)
	require.Equal(b, []run.Status{run.StatusSuccess, run.StatusSuccess, run.StatusSkipped, run.StatusSuccess}, statuses(s.result()))
	b.remove(h)
}

func cleanupTimeout(b *bench) {
	d := b.define(hangs, "echo cleaning; sleep 300", "echo no")
	d.Steps[1].When, d.Steps[2].When = run.WhenAlways, run.WhenAlways
	d.CleanupTimeout = 3 * time.Second
	h := b.start(d)
	b.awaitOutput(h, "begun")
	asked := time.Now()
	require.NoError(b, h.Stop(b.limit(), grace))
	s := b.follow(h)
	require.GreaterOrEqual(b, time.Since(asked), d.CleanupTimeout)
	require.Equal(b, "begun\ncleaning\n", s.output(run.StreamStdout))
	r := s.result()
	require.Equal(b, run.StatusStopped, r.Status)
	require.Equal(b, "stopped in step 1; the cleanup timed out after 3s in step 2", r.Reason)
	require.Equal(b, []run.Status{run.StatusStopped, run.StatusFailed, run.StatusSkipped}, statuses(r))
	require.True(b, r.Steps[1].TimedOut)
	b.remove(h)
}

func cleanupTimeoutKills(b *bench) {
	d := b.define(hangs, "trap '' TERM; echo cleaning; while true; do sleep 0.1; done")
	d.Steps[1].When = run.WhenOnStop
	d.Timeout, d.CleanupTimeout, d.Grace = 5*time.Second, 3*time.Second, 200*time.Millisecond
	r := b.run(d).result()
	require.Equal(b, run.CauseTimeout, r.Cause)
	require.Equal(b, 137, *r.Steps[1].ExitCode)
}

func cleanupFails(b *bench) {
	d := b.define(hangs, "exit 3", "echo last")
	d.Steps[1].When, d.Steps[2].When = run.WhenAlways, run.WhenAlways
	h := b.start(d)
	b.awaitOutput(h, "begun")
	require.NoError(b, h.Stop(b.limit(), grace))
	s := b.follow(h)
	r := s.result()
	require.Equal(b, "begun\nlast\n", s.output(run.StreamStdout))
	require.Equal(b, run.StatusStopped, r.Status)
	require.Equal(b, "stopped in step 1; in the cleanup, step 2 exited with code 3", r.Reason)
	b.remove(h)
}

func cleanupAborted(b *bench) {
	d := b.define(hangs, "trap '' TERM; echo cleaning; while true; do sleep 0.1; done", "echo no")
	d.Steps[1].When, d.Steps[2].When = run.WhenAlways, run.WhenAlways
	d.Grace = endless
	h := b.start(d)
	b.awaitOutput(h, "begun")
	require.NoError(b, h.Stop(b.limit(), endless))
	b.awaitOutput(h, "cleaning")
	require.NoError(b, h.Abort(b.limit(), 0), "it is killed without a grace period")
	require.NoError(b, h.Stop(b.limit(), endless), "a later stop takes nothing back")
	s := b.follow(h)
	require.Equal(b, "begun\ncleaning\n", s.output(run.StreamStdout))
	r := s.result()
	require.Equal(b, run.StatusStopped, r.Status)
	require.Equal(b, "stopped in step 1; the cleanup was stopped in step 2", r.Reason)
	require.Equal(b, []run.Status{run.StatusStopped, run.StatusStopped, run.StatusSkipped}, statuses(r))
	b.remove(h)
}

// cleanupAbortedBefore aborts a task whose step has the grace period of a stop.
func cleanupAbortedBefore(b *bench) {
	d := b.define("trap 'echo asked' TERM; echo begun; while true; do sleep 0.1 || true; done", "echo no")
	d.Steps[0].Streams = run.StreamsSplit // the shell reports on stderr that sleep was terminated
	d.Steps[1].When = run.WhenAlways
	h := b.start(d)
	b.awaitOutput(h, "begun")
	require.NoError(b, h.Stop(b.limit(), grace))
	b.awaitOutput(h, "asked")
	require.NoError(b, h.Abort(b.limit(), 0))
	s := b.follow(h)
	require.Equal(b, "begun\nasked\n", s.output(run.StreamStdout))
	require.Equal(b, run.StatusStopped, s.result().Status)
	b.remove(h)
}

func cleanupAfterAbort(b *bench) {
	h := b.start(b.defineCleanup())
	b.awaitOutput(h, "begun")
	require.NoError(b, h.Abort(b.limit(), grace))
	s := b.follow(h)
	require.Equal(b, "begun\n", s.output(run.StreamStdout))
	require.Equal(b, run.StatusStopped, s.result().Status)
	b.remove(h)
}

// cleanupExecutorKilled kills an executor in the middle of a cleanup. The next one
// follows it to its end, and repeats the request to stop.
func cleanupExecutorKilled(b *bench) {
	d := b.define(hangs, "echo ran >> count; echo cleaning; sleep 1; cat count", "echo last")
	d.Steps[1].When, d.Steps[2].When = run.WhenAlways, run.WhenOnStop
	b.killChild(childTask{Definition: d, Stop: true}, `output "cleaning`)
	h, err := b.driver.Attach(b.limit(), d.Key)
	require.NoError(b, err)
	require.NoError(b, h.Stop(b.limit(), grace))
	s := b.follow(h)
	require.Equal(b, "begun\ncleaning\nran\nlast\n", s.output(run.StreamStdout))
	require.Equal(b, run.StatusStopped, s.result().Status, s.result().Reason)
	b.remove(h)
}

func cleanupRemoved(b *bench) {
	d := b.define(hangs, "trap '' TERM; echo cleaning; while true; do sleep 0.1; done")
	d.Steps[1].When = run.WhenAlways
	h := b.start(d)
	b.awaitOutput(h, "begun")
	require.NoError(b, h.Stop(b.limit(), grace))
	b.awaitOutput(h, "cleaning")
	b.remove(h)
	b.requireNothingLeft()
}

// cleanupSaves stops a task that hangs, whose artifacts are saved all the same.
func cleanupSaves(b *bench) {
	var saved []byte
	d := b.steps(script("head -c 3000 /dev/urandom > noise; "+hangs), saves("", ""))
	d.Steps[1].When = run.WhenAlways
	h := b.start(d)
	b.awaitOutput(h, "begun")
	require.NoError(b, h.Stop(b.limit(), grace))
	s := b.serveOn(h, saveAndRestore(&saved))
	require.Equal(b, run.StatusStopped, s.result().Status, s.result().Reason)
	require.Equal(b, run.StatusSuccess, s.result().Steps[1].Status)
	require.Equal(b, []run.Stage{"", run.StageCleanup}, stages(s.result()))
	require.NotEmpty(b, saved)
	b.remove(h)
}
