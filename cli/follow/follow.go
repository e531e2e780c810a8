// Package follow shows the progress of a run: its tasks as they change and the
// output of their steps, until the run has ended.
package follow

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/remote"
	"github.com/drover-run/drover/run"
)

// ErrUnavailable is in the chain of the error for a gateway that was unavailable for too
// long.
var ErrUnavailable = errors.New("the gateway is unavailable")

// Client is the part of the gateway's API that a follower uses; remote.Client
// implements it. The calls retry while the gateway is unavailable.
type Client interface {
	// AwaitRun returns a run with its tasks.
	AwaitRun(ctx context.Context, id string) (remote.Answer[api.Run], error)
	// Events yields the events of a run, each once.
	Events(ctx context.Context, q remote.EventQuery) iter.Seq2[api.Event, error]
	// Log yields a log, each byte once.
	Log(ctx context.Context, q remote.LogQuery) iter.Seq2[api.LogChunk, error]
}

// Bounds and intervals of reading.
const (
	plainLogs   = 64                     // concurrent logs of running tasks
	liveLogs    = 8                      // concurrent logs of running tasks, if only their ends are shown
	endedLogs   = 8                      // concurrent logs of ended tasks
	redraw      = 100 * time.Millisecond // between two frames
	refreshSoon = time.Second            // from an event to the next read of reasons and steps
	refreshIdle = 5 * time.Second        // between two reads of reasons and steps without an event
	refreshCost = 20                     // minimum pause between two reads, in multiples of the duration of a read
	plainWait   = 2 * time.Second        // without an event, until the reasons for waiting are printed
	drain       = 15 * time.Second       // for the rest of the logs at the end; the gateway waits 10 s for late frames
	liveDrain   = time.Second            // for the rest of the logs, if only their ends are shown
)

// view displays a run. Only one goroutine calls its methods.
type view interface {
	// changed is called after an event. before is the previous state of the task,
	// nil for events of the run.
	changed(m *model, e api.Event, before, now *task)
	// logOpened reports that the follower reads a log, or will read it.
	logOpened(s source)
	// output shows a piece of a log, or its end.
	output(o output)
	// refreshed is called after a snapshot brought reasons and steps.
	refreshed(m *model)
	// availability reports that the gateway is unavailable and why, or with nil that it is
	// available again.
	availability(err error)
	// tick is called periodically, to draw changes.
	tick(m *model)
	// end is called last. settled reports whether m is the final state of the run.
	end(m *model, settled bool)
}

// Options select a run and how to show it.
type Options struct {
	Client Client
	Run    api.Run // the initial state
	Screen Screen
}

// Follow shows a run until it has ended, and returns it. It returns the cause
// when ctx ends, and an error with ErrUnavailable when the gateway was unavailable for
// too long; the run continues in both cases.
func Follow(ctx context.Context, o Options) (remote.Answer[api.Run], error) {
	f := &follower{client: o.Client, model: newModel(o.Run), live: o.Screen.Live}
	if f.live {
		f.view = newLive(o.Screen)
		f.logs = newLogs(o.Client, o.Run.ID, liveLogs, endedLogs)
	} else {
		f.view = newPlain(o.Screen)
		f.logs = newLogs(o.Client, o.Run.ID, plainLogs, endedLogs)
	}
	return f.run(ctx)
}

// follower is the loop between the gateway and the view.
type follower struct {
	client Client
	model  *model
	view   view
	logs   *logs
	live   bool

	events           chan eventOr
	away             chan error
	snapshots        chan snapshot
	refresh          *time.Timer // fires when a snapshot is due
	refreshShortened bool        // refresh was already shortened
	reading          bool        // a snapshot is being read
	cost             time.Duration
}

type eventOr struct {
	event api.Event
	err   error
}

type snapshot struct {
	run  api.Run
	err  error
	took time.Duration
}

func (f *follower) run(parent context.Context) (remote.Answer[api.Run], error) {
	ctx, cancel := context.WithCancelCause(parent)
	f.events, f.away, f.snapshots = make(chan eventOr, 256), make(chan error, 1), make(chan snapshot, 1)
	f.refresh = time.NewTimer(f.idleRefresh())
	defer f.logs.readers.Wait()
	defer cancel(nil)
	defer f.refresh.Stop()
	f.logs.readers.Go(func() { f.readEvents(ctx) })
	err := f.untilEnded(ctx)
	if err == nil {
		err = f.drainLogs(ctx)
	}
	if err != nil {
		f.view.end(f.model, false)
		return remote.Answer[api.Run]{}, err
	}
	answer, err := f.client.AwaitRun(ctx, f.model.id)
	if err != nil {
		f.view.end(f.model, false)
		return answer, wrapUnavailable(ctx, err)
	}
	f.model.finalize(answer.Value)
	f.view.end(f.model, true)
	return answer, nil
}

// wrapUnavailable marks the error of an unavailable gateway.
func wrapUnavailable(ctx context.Context, err error) error {
	if ctx.Err() == nil && run.CodeOf(err) == run.CodeUnavailable {
		return &run.Error{Code: run.CodeUnavailable, Message: err.Error(), Err: errors.Join(ErrUnavailable, err)}
	}
	return err
}

func (f *follower) readEvents(ctx context.Context) {
	q := remote.EventQuery{Run: f.model.id, OnAvailability: func(err error) {
		select {
		case f.away <- err:
		case <-ctx.Done():
		}
	}}
	for e, err := range f.client.Events(ctx, q) {
		select {
		case f.events <- eventOr{event: e, err: err}:
		case <-ctx.Done():
			return
		}
	}
}

// untilEnded follows the run until it is in a final phase.
func (f *follower) untilEnded(ctx context.Context) error {
	ticker := time.NewTicker(redraw)
	defer ticker.Stop()
	for {
		select {
		case e := <-f.events:
			if e.err != nil {
				return wrapUnavailable(ctx, e.err)
			}
			f.event(ctx, e.event)
			if f.model.phase.Final() && len(f.events) == 0 {
				return nil
			}
		case o := <-f.logs.out:
			f.output(ctx, o)
		case err := <-f.away:
			f.view.availability(err)
		case <-f.refresh.C:
			f.readSnapshot(ctx)
		case s := <-f.snapshots:
			f.takeSnapshot(s)
		case <-ticker.C:
			f.view.tick(f.model)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// drainLogs reads the rest of the logs.
func (f *follower) drainLogs(ctx context.Context) error {
	timeout := drain
	if f.live {
		timeout = liveDrain
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for !f.logs.idle() {
		select {
		case o := <-f.logs.out:
			f.output(ctx, o)
			timer.Reset(timeout)
		case e := <-f.events:
			if e.err == nil {
				f.event(ctx, e.event)
			}
		case err := <-f.away:
			f.view.availability(err)
		case <-f.snapshots:
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (f *follower) event(ctx context.Context, e api.Event) {
	if e.Type == api.EventTypeApprovalWanted {
		return // the task event of the same change says so
	}
	var before *task
	if t := f.model.byName[e.Task]; t != nil && (e.Type == api.EventTypeTask || e.Type == api.EventTypeStage) {
		was := *t
		before = &was
	}
	now := f.model.apply(e)
	if now != nil && now.hasLog() {
		f.followLog(ctx, now)
	}
	f.view.changed(f.model, e, before, now)
	if f.live && !f.refreshShortened {
		f.refreshShortened = true
		f.refresh.Reset(max(refreshSoon, refreshCost*f.cost))
	} else if !f.live {
		f.refresh.Reset(plainWait)
	}
}

func (f *follower) followLog(ctx context.Context, t *task) {
	s := t.source()
	switch {
	case t.status == run.StatusRunning:
		f.view.logOpened(s)
		f.logs.followLive(ctx, s)
	case f.live && t.status.Final() && t.status != run.StatusFailed:
		f.logs.forget(s) // its log stays available from the gateway
	case t.status.Final():
		if !f.logs.seen[s] {
			f.view.logOpened(s)
		}
		f.logs.followEnded(ctx, s)
	}
}

func (f *follower) output(ctx context.Context, o output) {
	if o.ended {
		f.logs.done(ctx, o.source)
	}
	f.view.output(o)
}

// idleRefresh returns the interval at which the run is read without events: the
// availability of executors changes the reasons for waiting, and causes no events
// of the run.
func (f *follower) idleRefresh() time.Duration {
	if f.live {
		return max(refreshIdle, refreshCost*f.cost)
	}
	return plainWait
}

func (f *follower) readSnapshot(ctx context.Context) {
	f.refreshShortened = false
	if f.reading || f.model.open() == 0 || (!f.live && f.model.counts[run.StatusQueued]+f.model.counts[run.StatusWaitingChangeGroup] == 0) {
		f.refresh.Reset(f.idleRefresh())
		return
	}
	f.reading = true
	f.logs.readers.Go(func() {
		begin := time.Now()
		answer, err := f.client.AwaitRun(ctx, f.model.id)
		f.snapshots <- snapshot{run: answer.Value, err: err, took: time.Since(begin)}
	})
}

func (f *follower) takeSnapshot(s snapshot) {
	f.reading = false
	if s.err == nil {
		f.cost = s.took
		f.model.merge(s.run)
		f.view.refreshed(f.model)
	}
	next := f.idleRefresh()
	if !f.live {
		next = max(drain, refreshCost*f.cost) // enough for a reader of a file
	}
	f.refresh.Reset(next)
}
