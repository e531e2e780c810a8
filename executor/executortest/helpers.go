package executortest

import (
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/run"
)

// helperCases test steps with an image of their own, which run in helper containers.
func helperCases() []testCase {
	helpers := func(f executor.Features) bool { return f.Helpers }
	return []testCase{
		{"helpers/share_directory_network_and_environment", helpers, helperShares},
		{"helpers/refused", func(f executor.Features) bool { return !f.Helpers }, helperRefused},
		{"helpers/image_missing", helpers, helperImageMissing},
		{"helpers/exit_codes_and_retries", helpers, helperExitCodes},
		{"helpers/order_of_the_output", helpers, helperOutput},
		{"helpers/run_as_the_user", func(f executor.Features) bool { return f.Helpers && f.User }, helperUser},
		{"helpers/secret_files", func(f executor.Features) bool { return f.Helpers && f.SecretFiles }, helperSecretFiles},
		{"helpers/background_processes", helpers, helperBackground},
		{"helpers/out_of_memory", func(f executor.Features) bool { return f.Helpers && f.Resources }, helperMemory},
		{"helpers/stop", helpers, helperStop},
		{"helpers/stop_kills_after_the_grace", helpers, helperStopKills},
		{"helpers/cleanup", helpers, helperCleanup},
		{"helpers/timeouts", helpers, helperTimeouts},
		{"helpers/executor_killed_before", helpers, func(b *bench) { b.helperExecutorKilled(saysLaunched) }},
		{"helpers/executor_killed_during", helpers, func(b *bench) { b.helperExecutorKilled(`output "in helper`) }},
		{"helpers/executor_killed_after", helpers, func(b *bench) { b.helperExecutorKilled(`output "after`) }},
		{"helpers/helper_killed", helpers, helperKilled},
		{"helpers/task_killed", helpers, helperTaskKilled},
		{"helpers/removed_in_the_middle", helpers, helperRemoved},
	}
}

// inHelpers moves steps, counted from 0, to a helper container.
func (b *bench) inHelpers(d run.Definition, steps ...int) run.Definition {
	for _, n := range steps {
		d.Steps[n].Image = b.Image
	}
	d.WorkingDir = run.SharedWorkingDir
	return d
}

// apart prints where the step runs: in the container that the step before it has marked,
// or in another one.
const apart = `[ -e /marked ] && echo same || echo other; touch /marked`

func helperShares(b *bench) {
	d := b.inHelpers(b.define(
		apart+`; echo main > file; pwd`,
		apart+`; cat file; echo helper >> file; pwd; echo "$VALUE $DROVER_TASK_NAME $STEP"; echo "key=of $VALUE" >> "$DROVER_OUTPUT"; for try in $(seq 100); do wget -q -O - http://localhost:7773/ && break; sleep 0.1; done`,
		apart+`; cat file; rm file`,
		apart+`; [ -e file ] || echo removed`,
	), 1, 3)
	d.Environment = map[string]string{"VALUE": "shared"}
	d.Steps[1].Environment = map[string]string{"STEP": "own"}
	d.Services = []run.ServiceSpec{{
		Name: "web", Image: b.Image, Environment: map[string]string{"PORT": "7773", "WHO": "service"}, Command: []string{"/bin/sh", "-c", serve},
	}}
	s := b.run(d)
	require.Equal(b, run.StatusSuccess, s.result().Status, s.result().Reason)
	require.Equal(b, []string{
		"other\n/workspace\n",
		"other\nmain\n/workspace\nshared case own\nfrom service\n",
		"same\nmain\nhelper\n",
		"same\nremoved\n",
	}, []string{s.stepOutput(0), s.stepOutput(1), s.stepOutput(2), s.stepOutput(3)})
	for _, f := range s.frames {
		if f.Kind == run.FrameOutputs {
			require.Equal(b, map[string]string{"key": "of shared"}, f.Outputs)
			require.Equal(b, 1, f.Step)
		}
	}
	require.Contains(b, s.kinds(), run.FrameOutputs)
}

func helperRefused(b *bench) {
	d := b.define("true")
	d.Steps[0].Image = "busybox:1"
	require.Contains(b, b.refused(d).Error(), "steps that have images of their own")
}

func helperImageMissing(b *bench) {
	d := b.inHelpers(b.define("true", "true"), 0)
	d.Steps[0].Image = "drover.invalid/nothing:1"
	require.Contains(b, b.refused(d).Error(), "drover.invalid/nothing:1")
}

func helperExitCodes(b *bench) {
	d := b.inHelpers(b.define(`echo x >> tried; test "$(wc -l < tried)" -eq 2`, "exit 7", "echo no", "echo failed"), 0, 1, 3)
	d.Steps[0].Retry = run.Retry{MaxAttempts: 3}
	d.Steps[3].When = run.WhenOnFailure
	s := b.run(d)
	r := s.result()
	require.Equal(b, "step 2 exited with code 7", r.Reason)
	require.Equal(b, run.CauseStep, r.Cause)
	require.Equal(b, 7, *r.ExitCode)
	require.Equal(b, []run.Status{run.StatusSuccess, run.StatusFailed, run.StatusSkipped, run.StatusSuccess}, statuses(r))
	require.Equal(b, "failed\n", s.stepOutput(3))

	d = b.inHelpers(b.define("true"), 0)
	d.Shell = run.Shell{"/no/such/shell"}
	r = b.run(d).result()
	require.Contains(b, r.Reason, "step 1 could not be started: /no/such/shell")
	require.Equal(b, 127, *r.ExitCode)
}

func helperOutput(b *bench) {
	var script, want strings.Builder
	for i := range 200 {
		target, line := "", "line "+strconv.Itoa(i)
		if i%2 == 1 {
			target = " >&2"
		}
		script.WriteString("echo " + line + target + "\n")
		want.WriteString(line + "\n")
	}
	s := b.run(b.inHelpers(b.define(script.String()), 0))
	require.Equal(b, want.String(), s.output(""))
	d := b.inHelpers(b.define("echo out; echo err >&2"), 0)
	d.Secrets = []string{"err"}
	s = b.run(b.split(d))
	require.Equal(b, "out\n", s.output(run.StreamStdout))
	require.Equal(b, "***\n", s.output(run.StreamStderr), "secrets are masked")
}

func helperUser(b *bench) {
	d := b.inHelpers(b.define("id -u; touch mine", "id -u; id -G; echo more >> mine; stat -c %u mine; echo a=b >> $DROVER_OUTPUT"), 1)
	d.User = b.User.Name
	s := b.run(d)
	require.Equal(b, run.StatusSuccess, s.result().Status, s.result().Reason)
	require.Equal(b, b.User.ID+"\n"+b.User.Groups+"\n"+b.User.ID+"\n", s.stepOutput(1))
}

func helperSecretFiles(b *bench) {
	d := b.inHelpers(b.define(`sha256sum < "$KEY" | cut -c1-64; stat -f -c %T "$KEY"`), 0)
	content, _ := addSecretFile(&d)
	s := b.run(d)
	require.Equal(b, sumOf(content)+"\ntmpfs\n", s.output(run.StreamStdout), s.result().Reason)
}

// helperBackground leaves a process that writes until the end of the task.
func helperBackground(b *bench) {
	d := b.inHelpers(b.define(`(while true; do echo tick; sleep 0.1; done) & echo begun`, "sleep 1; echo last"), 0)
	s := b.run(d)
	require.Equal(b, run.StatusSuccess, s.result().Status, s.result().Reason)
	require.Greater(b, strings.Count(s.stepOutput(0), "tick"), 2, "its output continues to be read")
	require.Equal(b, "last\n", s.stepOutput(1))
}

func helperMemory(b *bench) {
	d := b.inHelpers(b.define("exec tail -c 1000000000 /dev/zero > /dev/null", "echo still here"), 0)
	d.Steps[1].When = run.WhenAlways
	d.Resources = run.Resources{Memory: "48Mi"}
	s := b.run(d)
	r := s.result()
	require.Equal(b, run.StatusFailed, r.Status)
	if !b.KillsGroups || r.Cause != run.CauseVanished { // if all of it is killed, nothing reports why
		require.Equal(b, run.CauseOOM, r.Cause, r.Reason)
	}
	require.Equal(b, "still here\n", s.stepOutput(1))

	d = b.inHelpers(b.define(hog+" || echo survived"), 0)
	d.Resources = run.Resources{Memory: "48Mi"}
	r = b.run(d).result()
	if b.KillsGroups && r.Cause == run.CauseVanished {
		return
	}
	require.Equal(b, run.StatusSuccess, r.Status, r.Reason)
	require.Equal(b, "the kernel killed 1 process because memory ran out (limit 48Mi), in step 1", r.Reason)
}

func helperStop(b *bench) {
	d := b.inHelpers(b.define("trap 'echo stopping; exit 3' TERM; echo begun; while true; do sleep 0.1; done", "echo no"), 0, 1)
	h := b.start(d)
	b.awaitOutput(h, "begun")
	require.NoError(b, h.Stop(b.limit(), grace))
	s := b.follow(h)
	require.Contains(b, s.output(run.StreamStdout), "stopping\n")
	require.Equal(b, run.StatusStopped, s.result().Status)
	require.Equal(b, "stopped in step 1", s.result().Reason)
	require.Equal(b, []run.Status{run.StatusStopped, run.StatusSkipped}, statuses(s.result()))
	b.remove(h)
}

func helperStopKills(b *bench) {
	d := b.inHelpers(b.define("trap '' TERM; echo begun; while true; do sleep 0.1; done"), 0)
	h := b.start(d)
	b.awaitOutput(h, "begun")
	require.NoError(b, h.Stop(b.limit(), 100*time.Millisecond))
	r := b.follow(h).result()
	require.Equal(b, run.StatusStopped, r.Status)
	require.Equal(b, 137, *r.ExitCode)
	b.remove(h)
}

func helperCleanup(b *bench) {
	h := b.start(b.inHelpers(b.defineCleanup(), 0, 1, 2, 3, 4))
	b.awaitOutput(h, "begun")
	require.NoError(b, h.Stop(b.limit(), grace))
	s := b.follow(h)
	b.requireCleanedUp(s, run.StatusStopped)
	require.Equal(b, run.StatusStopped, s.result().Status)
	b.remove(h)
}

func helperTimeouts(b *bench) {
	d := b.inHelpers(b.define("sleep 300", "echo always"), 0, 1)
	d.Steps[0].Timeout, d.Steps[1].When = 500*time.Millisecond, run.WhenAlways
	s := b.run(d)
	require.Equal(b, "step 1 timed out after 500ms", s.result().Reason)
	require.Equal(b, run.CauseTimeout, s.result().Cause)
	require.Equal(b, "always\n", s.stepOutput(1))

	d = b.inHelpers(b.define("trap '' TERM; echo begun; while true; do sleep 0.1; done"), 0)
	d.Timeout, d.Grace = 3*time.Second, 100*time.Millisecond
	r := b.run(d).result()
	require.Equal(b, "the task timed out after 3s in step 1", r.Reason)
	require.True(b, r.TimedOut)
}

// helperExecutorKilled kills the executor at a point of a task whose second step runs in
// a helper container. The next executor follows the task to its end.
func (b *bench) helperExecutorKilled(word string) {
	d := b.inHelpers(b.define(
		"echo before; sleep 0.5",
		"echo ran >> count; echo in helper; sleep 1",
		"echo after; sleep 0.5; cat count",
	), 1)
	b.killChild(childTask{Definition: d}, word)
	task := b.task(d)
	task.Resume = true
	h, err := b.driver.Start(b.limit(), task)
	require.NoError(b, err)
	s := b.follow(h)
	require.Equal(b, run.StatusSuccess, s.result().Status, s.result().Reason)
	require.Equal(b, "before\nin helper\nafter\nran\n", s.output(run.StreamStdout))
	b.remove(h)
}

// helperKilled kills the helper container in the middle of a step. The step fails and is
// not repeated; steps elsewhere run.
func helperKilled(b *bench) {
	d := b.inHelpers(b.define("echo ran >> count; echo begun; sleep 300", "echo no", "cat count", "echo no"), 0, 3)
	d.Steps[0].Retry = run.Retry{MaxAttempts: 3}
	d.Steps[2].When, d.Steps[3].When = run.WhenAlways, run.WhenAlways
	h := b.start(d)
	b.awaitOutput(h, "begun")
	b.VanishHelper(b, d.Key)
	s := b.follow(h)
	r := s.result()
	require.Equal(b, run.StatusFailed, r.Status)
	require.Equal(b, run.CauseVanished, r.Cause)
	require.Equal(b, "step 1 was lost: the connection to its helper container ended (image "+b.Image+")", r.Reason)
	require.Equal(b, "begun\nran\n", s.output(run.StreamStdout))
	require.Equal(b, []run.Status{run.StatusFailed, run.StatusSkipped, run.StatusSuccess, run.StatusFailed}, statuses(r))
	b.remove(h)
}

// helperTaskKilled kills the shim of the task in the middle of a step. The processes in
// the helper container end.
func helperTaskKilled(b *bench) {
	d := b.inHelpers(b.define("echo begun; sleep 300"), 0)
	h := b.start(d)
	b.awaitOutput(h, "begun")
	b.Vanish(b, d.Key)
	s := read(b.limit(), h, 1, nil)
	require.Equal(b, run.CodeNotFound, run.CodeOf(s.err), "%v", s.err)
	b.remove(h)
}

func helperRemoved(b *bench) {
	h := b.start(b.inHelpers(b.define("trap '' TERM; echo begun; while true; do sleep 0.1; done"), 0))
	b.awaitOutput(h, "begun")
	b.remove(h)
	b.requireNothingLeft()
}
