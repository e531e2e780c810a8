package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/shim"
	"github.com/drover-run/drover/executor/shim/journal"
	"github.com/drover-run/drover/run"
)

const (
	// endTimeout is how long after the end of its streams a container may
	// still be reported as running.
	endTimeout = 2 * time.Second
	// reattachPause is the pause before attaching again to a container that is
	// running although its streams ended.
	reattachPause = 200 * time.Millisecond
	// exitKilled is the exit code of a container whose first process was killed by
	// SIGKILL.
	exitKilled = 137
	// eventsTimeout bounds the reading of a daemon's past events, which it has in memory.
	eventsTimeout = 10 * time.Second
	// killLag is how much later than the end of a container the daemon may record its kill,
	// or the lack of memory that it was killed for: containerd reports the two on their own.
	killLag = 2 * time.Second
)

// follower is one iteration over the frames of an environment. Frames come from
// the attached streams, which cost nothing while the task is silent. The shim's
// journal has all frames; the follower reads it at the beginning, across a gap
// and after the end.
type follower struct {
	*handle
	next  int64 // number of the next frame to yield
	yield func(run.Frame) bool
	done  bool // the last frame was yielded, or the caller stopped the iteration
	tail  string
	known journalSize
}

func (f *follower) follow(ctx context.Context) error {
	a := f.driver.take(f.key) // created by Start, with everything written since
	if a != nil {
		f.known.begin(a.first)
		f.next = max(f.next, a.first)
	}
	for !f.done {
		if a == nil {
			var ended bool
			var err error
			if a, ended, err = f.join(ctx); err != nil || ended {
				return err
			}
		}
		if a != nil {
			err := f.stream(ctx, a)
			f.tail = a.tail.String()
			a.close()
			a = nil
			if err != nil {
				return err
			}
		}
		if f.done {
			return nil
		}
		ended, err := f.driver.endsWithin(ctx, f.id, endTimeout)
		if err == nil && !ended {
			err = pause(ctx, reattachPause)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// join attaches to the container and yields the frames written before. If the
// container has ended, join yields the rest of the journal and reports ended. A
// nil attachment without ended means that the container ended meanwhile.
func (f *follower) join(ctx context.Context) (a *attachment, ended bool, err error) {
	state, err := f.inspectState(ctx)
	if err != nil {
		return nil, false, err
	}
	if !state.Running {
		return nil, true, f.finish(ctx, state)
	}
	if a, err = f.attached(ctx); err != nil {
		state, gone := f.inspectState(ctx)
		if gone != nil {
			return nil, false, gone
		}
		if !state.Running { // it ended meanwhile, and the daemon need not say so
			return nil, false, nil
		}
		return nil, false, err
	}
	if a == nil {
		return nil, false, nil
	}
	// Frames written before the attachment are only in the journal. If the
	// container ended before the attachment, catchUp fails here; its streams
	// would never end.
	if err = f.catchUp(ctx); err == nil && !f.done {
		err = f.checkEnd(ctx)
	}
	if err != nil {
		a.close()
		a = nil
	}
	if errors.Is(err, errNotRunning) {
		err = nil
	}
	return a, false, err
}

// attached attaches to the container. While another reader blocks the streams,
// the daemon does not answer and attached reads the journal instead. It returns
// nil if the container or the iteration ended meanwhile.
func (f *follower) attached(ctx context.Context) (*attachment, error) {
	type answer struct {
		attachment *attachment
		err        error
	}
	attachCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(errAttachCanceled)
	answers := make(chan answer, 1)
	go func() {
		a, err := f.driver.attach(attachCtx, f.id, f.nonce, false)
		answers <- answer{a, err}
	}()
	for timeout := f.driver.silence; ; timeout = min(2*timeout, silenceMax) {
		timer := time.NewTimer(timeout)
		select {
		case got := <-answers:
			timer.Stop()
			return got.attachment, got.err
		case <-timer.C:
		}
		state, err := f.inspectState(ctx)
		if err == nil && state.Running {
			if err = f.checkSilence(ctx); err == nil && !f.done {
				continue
			}
		}
		cancel(errAttachCanceled)
		if got := <-answers; got.attachment != nil {
			got.attachment.close()
		}
		if errors.Is(err, errNotRunning) {
			err = nil
		}
		return nil, err
	}
}

// inspectState returns the state of the main container. The error has CodeNotFound if
// the container does not exist any more.
func (f *follower) inspectState(ctx context.Context) (*container.State, error) {
	c, err := f.driver.client.ContainerInspect(ctx, f.id)
	switch {
	case cerrdefs.IsNotFound(err):
		return nil, run.Errorf(run.CodeNotFound, "the container was removed from outside")
	case err != nil:
		return nil, daemonError(err, "inspect the container of %s", f.key)
	}
	return checkMemory(ctx, f.driver, c), nil
}

// checkMemory returns the state of a container. In that of a killed one, it corrects the
// daemon's mark for a lack of memory, which can be wrong in both ways: the container
// survived that lack and was killed by a client later, or the daemon learns of the lack
// after the end. The daemon remembers only its last events: if it has forgotten the kill, or
// a process of the host sent the signal, the mark stays.
func checkMemory(ctx context.Context, d *Driver, c container.InspectResponse) *container.State {
	unlimited := c.HostConfig == nil || c.HostConfig.Memory == 0
	if c.State.Running || c.State.ExitCode != exitKilled || unlimited && !c.State.OOMKilled {
		return c.State
	}
	cause, err := killOf(ctx, d, c)
	if err != nil {
		d.log.WarnContext(ctx, "failed to read the events of a killed container", "container", c.ID, "error", err)
	}
	state := *c.State
	if cause != "" {
		state.OOMKilled = cause == events.ActionOOM
	}
	return &state
}

// killOf returns why a container was killed, as far as the daemon remembers: by a client
// (events.ActionKill), or for a lack of memory (events.ActionOOM), which it waits for unless
// the container is marked already.
func killOf(ctx context.Context, d *Driver, c container.InspectResponse) (events.Action, error) {
	ended, err := time.Parse(time.RFC3339Nano, c.State.FinishedAt)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, eventsTimeout)
	defer cancel()
	messages, fault := d.client.Events(ctx, events.ListOptions{
		Since: c.State.StartedAt,
		Until: ended.Add(killLag).Format(time.RFC3339Nano),
		Filters: filters.NewArgs(filters.Arg("type", string(events.ContainerEventType)), filters.Arg("container", c.ID),
			filters.Arg("event", string(events.ActionKill)), filters.Arg("event", string(events.ActionOOM))),
	})
	for {
		select {
		case m := <-messages:
			signal, kill := m.Actor.Attributes["signal"], m.Action == events.ActionKill
			if kill && (signal == "9" || signal == killSignal) || !kill && !c.State.OOMKilled {
				return m.Action, nil
			}
		case err := <-fault: // after the last message
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return "", err
		}
	}
}

// stream yields frames from the attachment until its end.
func (f *follower) stream(ctx context.Context, a *attachment) error {
	timeout := f.driver.silence
	for !f.done {
		frame, size, err := a.next(ctx, timeout)
		switch {
		case ctx.Err() != nil:
			return daemonError(context.Cause(ctx), "follow the task %s", f.key)
		case errors.Is(err, os.ErrDeadlineExceeded):
			if err := f.checkSilence(ctx); err != nil && !errors.Is(err, errNotRunning) {
				return err
			}
			timeout = min(2*timeout, silenceMax)
			continue
		case err != nil && !isStreamEnd(err):
			return err
		case err != nil:
			return nil //nolint:nilerr // the next inspection of the container finds the cause
		}
		timeout = f.driver.silence
		if frame.N > f.next {
			if ended, err := f.closeGap(ctx, frame.N); err != nil || ended {
				return err
			}
		}
		f.take(frame, size)
	}
	return nil
}

// closeGap yields the frames before frame n, which was read from the stream.
// ended reports that the container has ended; the journal then has the rest.
func (f *follower) closeGap(ctx context.Context, n int64) (ended bool, err error) {
	switch err = f.catchUp(ctx); {
	case errors.Is(err, errNotRunning):
		return true, nil
	case err != nil || f.next >= n || f.done:
		return false, err
	}
	// The shim writes its journal before the stream.
	if err = f.readArchived(ctx); err == nil && f.next < n && !f.done {
		err = journal.Damaged("the journal lacks the frames %d to %d", f.next, n-1)
	}
	return false, err
}

// take yields a frame unless it was yielded before, and reports whether the
// caller wants more frames.
func (f *follower) take(frame run.Frame, size int64) bool {
	f.known.add(frame.N, size)
	if f.done || frame.N < f.next {
		return !f.done
	}
	f.next = frame.N + 1
	f.done = !f.yield(frame) || frame.Kind == run.FrameTaskEnd
	return !f.done
}

// finish yields the remaining frames of the journal of a container that is not running, if
// it is that of its shim.
func (f *follower) finish(ctx context.Context, state *container.State) error {
	err := errNoJournal
	if !planted(state) {
		err = f.driver.archivedJournal(ctx, f.id, f.next, f.take)
	}
	switch {
	case f.done:
		return nil
	case err != nil && !errors.Is(err, errNoJournal):
		return err
	}
	reason, cause := f.failureReason(state), run.CauseVanished
	switch {
	case outOfMemory(state):
		cause = run.CauseOOM
	case state.ExitCode == shim.ExitExists:
		cause = run.CauseStart
	}
	if errors.Is(err, errNoJournal) {
		reason = "the task did not begin: " + reason
	}
	return executor.Ended(cause, reason)
}

// damage converts the error for a damaged journal. The error is final once
// nothing writes to the journal any more.
func (f *follower) damage(ctx context.Context, damage error) error {
	state, err := f.inspectState(ctx)
	if err != nil {
		return err
	}
	if !state.Running {
		if state.ExitCode != 0 || state.OOMKilled {
			damage = fmt.Errorf("%w, and %s", damage, endReason(state))
		}
		return executor.Damaged(damage, true)
	}
	written, err := f.driver.endWritten(ctx, f.id)
	if err != nil {
		return err
	}
	return executor.Damaged(damage, written)
}

// failureReason describes the end of a container that ended unexpectedly.
func (f *follower) failureReason(state *container.State) string {
	text := endReason(state)
	switch state.ExitCode {
	case shim.ExitOrder:
		text = "its definition did not reach the shim"
	case shim.ExitExists:
		text = plantedReason
	case shim.ExitFiles:
		text = "the shim could not write to its volume"
	}
	if lines := strings.Split(f.tail, "\n"); f.tail != "" {
		text += ": " + lines[len(lines)-1]
	}
	return text
}

// outOfMemory reports whether a container was killed at its memory limit. The daemon also
// marks a container in which only another process was killed; see checkMemory.
func outOfMemory(state *container.State) bool {
	return state.OOMKilled && state.ExitCode == exitKilled
}

// endReason describes why a container is not running.
func endReason(state *container.State) string {
	switch {
	case outOfMemory(state):
		return "out of memory: the container was killed at its memory limit"
	case state.Status == "created":
		return "the container was never started"
	case state.Error != "":
		return state.Error
	case state.ExitCode == exitKilled:
		return "the container was killed from outside (SIGKILL), or the docker daemon was restarted"
	case state.ExitCode == 255:
		return "the container was lost: the host or the docker daemon was restarted"
	case state.ExitCode > 128 && state.ExitCode < 160:
		return fmt.Sprintf("the container ended on signal %d", state.ExitCode-128)
	}
	return fmt.Sprintf("the container ended with exit code %d", state.ExitCode)
}
