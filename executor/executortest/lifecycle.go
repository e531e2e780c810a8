package executortest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/run"
)

// lifeCases test the life cycle of environments: start, follow, stop, remove.
func lifeCases() []testCase {
	return []testCase{
		{name: "check", run: func(b *bench) { require.NoError(b, b.driver.Check(b.Context())) }},
		{name: "start_and_follow", run: startAndFollow},
		{name: "start_twice", run: startTwice},
		{name: "start_twice_after_the_end", run: startTwiceAfterTheEnd},
		{name: "start_concurrently", run: startConcurrently},
		{name: "tasks_side_by_side", run: sideBySide},
		{name: "resume_without_an_environment", run: resumeWithout},
		{name: "attach_to_nothing", run: attachToNothing},
		{name: "attach_by_another_driver", run: attachByAnother},
		{name: "stop_while_starting", run: stopWhileStarting},
		{name: "launch_refused", run: launchRefused},
		{name: "launch_refused_and_kept", run: launchKept},
		{name: "stop_at_once", run: stopAtOnce},
		{name: "stop", run: stop},
		{name: "stop_after_grace", run: stopAfterGrace},
		{name: "stop_skips_what_follows", run: stopSkips},
		{name: "stop_after_the_end", run: stopAfterTheEnd},
		{name: "remove_a_running_task", run: removeRunning},
		{name: "remove_twice", run: removeTwice},
		{name: "vanished", needs: nil, run: vanished},
		{name: "events_from_a_number", run: eventsFrom},
		{name: "events_twice_at_once", run: eventsTwice},
		{name: "events_until_the_context_ends", run: eventsCanceled},
		{name: "start_context_ends_later", run: startContextEnds},
	}
}

func startAndFollow(b *bench) {
	d := b.define("echo one; echo two >&2", "echo three")
	d.Steps[1].Name = "second"
	s := b.run(d)
	require.Equal(b, "one\ntwo\nthree\n", s.output(run.StreamStdout))
	require.Empty(b, s.output(run.StreamStderr))
	require.Equal(b, []run.FrameKind{
		run.FrameStepStart, run.FrameOutput, run.FrameStepEnd,
		run.FrameStepStart, run.FrameOutput, run.FrameStepEnd, run.FrameTaskEnd,
	}, s.kinds())
	r := s.result()
	require.Equal(b, run.StatusSuccess, r.Status, r.Reason)
	require.Empty(b, r.Reason)
	require.Empty(b, r.Cause)
	require.Equal(b, 0, *r.ExitCode)
	require.False(b, r.Started.IsZero())
	require.False(b, r.Ended.Before(r.Started))
	require.Len(b, r.Steps, 2)
	for _, step := range r.Steps {
		require.Equal(b, run.StatusSuccess, step.Status)
		require.Equal(b, 0, *step.ExitCode)
		require.False(b, step.Ended.Before(step.Started))
	}
}

// once is a script that writes a line for each of its runs to a file that all
// environments of a key share.
const once = "echo ran; echo ran >> count; cat count; sleep 0.3"

func (b *bench) requireOnce(s recording) {
	b.Helper()
	b.requireWhole(s, firstFrame)
	require.Equal(b, "ran\nran\n", s.output(run.StreamStdout))
	require.Equal(b, run.StatusSuccess, s.result().Status, s.result().Reason)
}

func startTwice(b *bench) {
	d := b.define(once)
	h := b.start(d)
	var l launches
	task := b.task(d)
	task.Launch = l.launch
	again, err := b.driver.Start(b.limit(), task)
	require.NoError(b, err)
	other, err := b.reopen().Start(b.limit(), task)
	require.NoError(b, err)
	s := b.follow(h)
	b.requireOnce(s)
	require.Equal(b, s, b.follow(again))
	require.Equal(b, s, b.follow(other))
	require.Zero(b, l.n.Load(), "the steps had begun, so there was no launch")
	b.remove(again)
}

func startTwiceAfterTheEnd(b *bench) {
	d := b.define(once)
	s := b.follow(b.start(d))
	b.requireOnce(s)
	again := b.start(d)
	require.Equal(b, s, b.follow(again))
	b.remove(again)
}

func startConcurrently(b *bench) {
	d := b.define(once)
	const callers = 6
	var l launches
	handles, errs := make([]executor.Handle, callers), make([]error, callers)
	ctx := b.limit()
	drivers := []executor.Driver{b.driver, b.reopen()}
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			handles[i], errs[i] = drivers[i%len(drivers)].Start(ctx, executor.Task{Definition: d, Log: func(string) {}, Launch: l.launch})
		})
	}
	all.Wait()
	b.Cleanup(func() { b.cleanUp(d.Key) })
	require.NoError(b, errors.Join(errs...))
	for _, h := range handles {
		b.requireOnce(b.follow(h))
	}
	keys, err := b.driver.List(b.Context())
	require.NoError(b, err)
	require.Equal(b, []run.Key{d.Key}, keys)
	b.remove(handles[0])
}

func sideBySide(b *bench) {
	const tasks = 4
	var all sync.WaitGroup
	recordings, handles := make([]recording, tasks), make([]executor.Handle, tasks)
	for i := range tasks {
		d := b.define("echo $NUMBER")
		d.Environment = map[string]string{"NUMBER": string(rune('0' + i))}
		handles[i] = b.start(d)
	}
	ctx := b.limit()
	for i, h := range handles {
		all.Go(func() { recordings[i] = read(ctx, h, 1, nil) })
	}
	all.Wait()
	keys, err := b.driver.List(b.Context())
	require.NoError(b, err)
	require.Len(b, keys, tasks)
	for i, s := range recordings {
		require.NoError(b, s.err)
		require.Equal(b, string(rune('0'+i))+"\n", s.output(""))
		b.remove(handles[i])
	}
}

func resumeWithout(b *bench) {
	var l launches
	_, err := b.driver.Start(b.limit(), executor.Task{Definition: b.define("true"), Log: func(string) {}, Launch: l.launch, Resume: true})
	require.Equal(b, run.CodeNotFound, run.CodeOf(err), "%v", err)
	require.Zero(b, l.n.Load())
}

func attachToNothing(b *bench) {
	_, err := b.driver.Attach(b.limit(), key())
	require.Equal(b, run.CodeNotFound, run.CodeOf(err), "%v", err)
}

func attachByAnother(b *bench) {
	d := b.define("echo begun; sleep 1; echo ended")
	b.awaitOutput(b.start(d), "begun")
	h, err := b.reopen().Attach(b.limit(), d.Key)
	require.NoError(b, err)
	s := b.follow(h)
	require.Equal(b, "begun\nended\n", s.output(""))
	h, err = b.reopen().Attach(b.limit(), d.Key)
	require.NoError(b, err)
	require.Equal(b, s, b.follow(h), "an ended environment yields the same frames again")
	b.remove(h)
}

func stopWhileStarting(b *bench) {
	ctx, cancel := context.WithCancelCause(b.Context())
	var l launches
	logged := false
	_, err := b.driver.Start(ctx, executor.Task{
		Definition: b.define("echo no"), Launch: func() (int64, error) {
			if !logged {
				cancel(errors.New("stopped"))
				return 0, run.Errorf(run.CodeCanceled, "stopped")
			}
			return l.launch()
		},
		Log: func(string) { logged = true; cancel(errors.New("stopped")) },
	})
	require.Error(b, err)
	require.Zero(b, l.n.Load(), "launched although the context had ended")
}

func launchRefused(b *bench) {
	d := b.define("echo no")
	task := b.task(d)
	task.Launch = func() (int64, error) { return 0, run.Errorf(run.CodeConflict, "the claim is closed") }
	_, err := b.driver.Start(b.limit(), task)
	require.Equal(b, run.CodeConflict, run.CodeOf(err), "%v", err)
	// A remaining environment has not begun and can be removed.
	h, err := b.driver.Attach(b.limit(), d.Key)
	if run.CodeOf(err) == run.CodeNotFound {
		return
	}
	require.NoError(b, err)
	require.Equal(b, run.CodeNotFound, run.CodeOf(read(b.limit(), h, 1, nil).err))
	b.remove(h)
}

// launchKept leaves an environment to another member of a set, which may have
// recorded the launch, and resumes it.
func launchKept(b *bench) {
	d := b.define("echo yes")
	task := b.task(d)
	task.Keep = true
	task.Launch = func() (int64, error) { return 0, run.Errorf(run.CodeUnavailable, "another member has the key") }
	_, err := b.driver.Start(b.limit(), task)
	require.Equal(b, run.CodeUnavailable, run.CodeOf(err), "%v", err)
	task = b.task(d)
	task.Resume = true
	h, err := b.reopen().Start(b.limit(), task)
	require.NoError(b, err, "the environment is gone")
	s := b.follow(h)
	require.Equal(b, run.StatusSuccess, s.result().Status, s.result().Reason)
	require.Equal(b, "yes\n", s.output(""))
	b.remove(h)
}

func stopAtOnce(b *bench) {
	d := b.define("sleep 30", "echo no")
	h := b.start(d)
	require.NoError(b, h.Stop(b.limit(), grace))
	s := b.follow(h)
	require.Equal(b, run.StatusStopped, s.result().Status, s.result().Reason)
	require.NotContains(b, s.output(""), "no")
	b.remove(h)
}

func stop(b *bench) {
	d := b.define("trap 'echo asked; exit 9' TERM; echo begun; while true; do sleep 0.1; done")
	d.Steps[0].Streams = run.StreamsSplit // a shell may say on stderr that its child was terminated
	h := b.start(d)
	b.awaitOutput(h, "begun")
	require.NoError(b, h.Stop(b.limit(), grace))
	require.NoError(b, h.Stop(b.limit(), grace), "stopping twice is harmless")
	s := b.follow(h)
	require.Equal(b, "begun\nasked\n", s.output(run.StreamStdout))
	r := s.result()
	require.Equal(b, run.StatusStopped, r.Status)
	require.NotEmpty(b, r.Reason)
	require.Equal(b, run.StatusStopped, r.Steps[0].Status)
	require.Equal(b, 9, *r.Steps[0].ExitCode)
	b.remove(h)
}

func stopAfterGrace(b *bench) {
	d := b.define("trap '' TERM; echo begun; while true; do sleep 0.1; done")
	d.Grace = 300 * time.Millisecond
	h := b.start(d)
	b.awaitOutput(h, "begun")
	asked := time.Now()
	require.NoError(b, h.Stop(b.limit(), d.Grace))
	s := b.follow(h)
	require.GreaterOrEqual(b, time.Since(asked), d.Grace)
	r := s.result()
	require.Equal(b, run.StatusStopped, r.Status, r.Reason)
	require.Equal(b, 137, *r.Steps[0].ExitCode)
	b.remove(h)
}

func stopSkips(b *bench) {
	d := b.define("echo begun; sleep 30", "echo no", "echo no")
	d.Steps[2].When = run.WhenOnFailure
	h := b.start(d)
	b.awaitOutput(h, "begun")
	require.NoError(b, h.Stop(b.limit(), grace))
	s := b.follow(h)
	require.Equal(b, "begun\n", s.output(run.StreamStdout))
	r := s.result()
	require.Equal(b, run.StatusStopped, r.Status)
	for _, step := range r.Steps[1:] {
		require.Equal(b, run.StatusSkipped, step.Status)
	}
	b.remove(h)
}

func stopAfterTheEnd(b *bench) {
	h := b.start(b.define("echo done"))
	s := b.follow(h)
	require.NoError(b, h.Stop(b.limit(), grace))
	require.Equal(b, s, b.follow(h))
	require.Equal(b, run.StatusSuccess, s.result().Status)
	b.remove(h)
	require.NoError(b, h.Stop(b.limit(), grace))
}

func removeRunning(b *bench) {
	d := b.define("trap '' TERM; sleep 300 & (trap '' TERM; sleep 300) & echo begun; while true; do sleep 1; done")
	h := b.start(d)
	b.awaitOutput(h, "begun")
	b.remove(h)
	b.requireNothingLeft()
	require.Equal(b, run.CodeNotFound, run.CodeOf(read(b.limit(), h, 1, nil).err))
}

func removeTwice(b *bench) {
	h := b.start(b.define("true"))
	b.follow(h)
	b.remove(h)
	b.remove(h)
}

func vanished(b *bench) {
	d := b.define("echo begun; echo ran >> count; sleep 300", "echo no")
	h := b.start(d)
	b.awaitOutput(h, "begun")
	b.Vanish(b, d.Key)
	s := read(b.limit(), h, 1, nil)
	require.Equal(b, run.CodeNotFound, run.CodeOf(s.err), "%v", s.err)
	require.NotEmpty(b, s.err.Error())
	b.Log("reason:", s.err)
	require.Equal(b, "begun\n", s.output(run.StreamStdout), "earlier frames are not lost")

	again := b.start(d)
	s = read(b.limit(), again, 1, nil)
	require.Equal(b, run.CodeNotFound, run.CodeOf(s.err), "steps never run again")
	require.Equal(b, "begun\n", s.output(run.StreamStdout))
	b.remove(h)
}

func eventsFrom(b *bench) {
	h := b.start(b.define("echo one", "echo two", "echo three"))
	whole := b.follow(h)
	for i, f := range whole.frames {
		s := read(b.limit(), h, f.N, nil)
		require.NoError(b, s.err)
		require.Equal(b, whole.frames[i:], s.frames)
	}
	b.remove(h)
}

func eventsTwice(b *bench) {
	d := b.define("for i in 1 2 3 4 5; do echo $i; sleep 0.1; done")
	h := b.start(d)
	other, err := b.driver.Attach(b.limit(), d.Key)
	require.NoError(b, err)
	ctx := b.limit()
	var recordings [3]recording
	var all sync.WaitGroup
	for i, h := range []executor.Handle{h, h, other} {
		all.Go(func() { recordings[i] = read(ctx, h, 1, nil) })
	}
	all.Wait()
	b.requireWhole(recordings[0], firstFrame)
	require.Equal(b, recordings[0], recordings[1])
	require.Equal(b, recordings[0], recordings[2])
	b.remove(h)
}

func eventsCanceled(b *bench) {
	h := b.start(b.define("echo begun; sleep 30"))
	b.awaitOutput(h, "begun")
	ctx, cancel := context.WithTimeout(b.Context(), 50*time.Millisecond)
	defer cancel()
	s := read(ctx, h, 1, nil)
	require.Error(b, s.err)
	require.Contains(b, []run.Code{run.CodeCanceled, run.CodeTimeout}, run.CodeOf(s.err), "%v", s.err)
	b.remove(h)
}

func startContextEnds(b *bench) {
	ctx, cancel := context.WithCancel(b.Context())
	d := b.define("sleep 0.5; echo done")
	h, err := b.driver.Start(ctx, b.task(d))
	cancel()
	require.NoError(b, err)
	b.Cleanup(func() { b.cleanUp(d.Key) })
	require.Equal(b, "done\n", b.follow(h).output(""))
	b.remove(h)
}
