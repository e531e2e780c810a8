package executortest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

// crashCases kill the process of the driver.
func crashCases() []testCase {
	return []testCase{
		{name: "killed_in_the_setup", run: func(b *bench) { killedBefore(b, hangAtSetup) }},
		{name: "killed_before_the_launch", run: func(b *bench) { killedBefore(b, hangAtLaunch) }},
		{name: "killed_at_the_launch", run: killedAtLaunch},
		{name: "killed_around_the_launch", run: killedAround},
		{name: "killed_in_mid_task", run: killedMidTask},
		{name: "killed_and_ended_meanwhile", run: killedAndEnded},
		{name: "killed_then_stopped", run: killedThenStopped},
		{name: "killed_then_removed", run: killedThenRemoved},
	}
}

// killedBefore restarts a task that was killed before its launch was recorded.
func killedBefore(b *bench, where string) {
	d := b.define(once)
	if where == hangAtSetup && !b.logsSetup(d) {
		b.Skip("the driver logs no setup")
	}
	b.killChild(childTask{Definition: d, HangAt: where}, saysReached)
	h := b.start(d)
	b.requireOnce(b.follow(h))
	b.remove(h)
}

// logsSetup reports whether the driver logs a line before the launch.
func (b *bench) logsSetup(d run.Definition) bool {
	d.Key = key()
	logged := false
	task := b.task(d)
	task.Log = func(string) { logged = true }
	h, err := b.driver.Start(b.limit(), task)
	require.NoError(b, err)
	b.remove(h)
	return logged
}

// killedAtLaunch resumes a task that was killed when its launch was recorded, but
// not carried out.
func killedAtLaunch(b *bench) {
	d := b.define(once)
	b.killChild(childTask{Definition: d, HangAt: hangAtLaunch}, saysReached)
	attached, err := b.driver.Attach(b.limit(), d.Key)
	require.NoError(b, err)
	s := read(b.limit(), attached, 1, nil)
	require.Equal(b, run.CodeNotFound, run.CodeOf(s.err), "the task has not begun: %v", s.err)
	require.Empty(b, s.frames)

	var l launches
	task := b.task(d)
	task.Resume, task.Launch = true, l.launch
	h, err := b.driver.Start(b.limit(), task)
	require.NoError(b, err)
	b.requireOnce(b.follow(h))
	require.EqualValues(b, 1, l.n.Load())
	b.remove(h)
}

// killedAround kills at several moments around the transfer of the definition to
// the shim. The steps run exactly once in each case.
func killedAround(b *bench) {
	for _, delay := range []time.Duration{0, time.Millisecond, 3 * time.Millisecond, 10 * time.Millisecond, 40 * time.Millisecond} {
		d := b.define(once)
		b.killChild(childTask{Definition: d, Delay: delay}, saysLaunched)
		task := b.task(d)
		task.Resume = true
		h, err := b.driver.Start(b.limit(), task)
		require.NoError(b, err)
		b.requireOnce(b.follow(h))
		b.remove(h)
	}
}

func killedMidTask(b *bench) {
	d := b.define("echo begun; echo ran >> count; for i in 1 2 3 4 5 6 7 8; do sleep 0.1; echo $i; done", "cat count")
	b.killChild(childTask{Definition: d}, `output "begun`)
	h, err := b.driver.Attach(b.limit(), d.Key)
	require.NoError(b, err)
	s := b.follow(h)
	require.Equal(b, "begun\n1\n2\n3\n4\n5\n6\n7\n8\nran\n", s.output(run.StreamStdout))
	require.Equal(b, run.StatusSuccess, s.result().Status, s.result().Reason)
	b.remove(h)
}

func killedAndEnded(b *bench) {
	d := b.define("echo begun; sleep 0.2; echo ended")
	b.killChild(childTask{Definition: d}, saysStarted)
	time.Sleep(500 * time.Millisecond) //nolint:forbidigo // no follower reports the end
	h, err := b.driver.Attach(b.limit(), d.Key)
	require.NoError(b, err)
	require.Equal(b, "begun\nended\n", b.follow(h).output(run.StreamStdout))
	b.remove(h)
}

func killedThenStopped(b *bench) {
	d := b.define("echo begun; sleep 300")
	b.killChild(childTask{Definition: d}, `output "begun`)
	h, err := b.driver.Attach(b.limit(), d.Key)
	require.NoError(b, err)
	require.NoError(b, h.Stop(b.limit(), grace))
	require.Equal(b, run.StatusStopped, b.follow(h).result().Status)
	b.remove(h)
}

func killedThenRemoved(b *bench) {
	d := b.define("trap '' TERM; echo begun; sleep 300")
	b.killChild(childTask{Definition: d}, `output "begun`)
	h, err := b.driver.Attach(b.limit(), d.Key)
	require.NoError(b, err)
	b.remove(h)
}
