package follow

import (
	"context"
	"slices"
	"sync"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/remote"
)

// source identifies the log of one attempt of a task.
type source struct {
	task    string
	attempt int
}

// output is a piece of a log, or its end.
type output struct {
	source
	chunk api.LogChunk
	ended bool
	err   error // with ended: why the log is incomplete
}

// logs follows the logs of many tasks over a bounded number of connections.
// Only the goroutine that follows the run calls its methods.
type logs struct {
	client  Client
	run     string
	out     chan output
	readers sync.WaitGroup

	live  slots // for running tasks: a reader may be open as long as the run
	ended slots // for ended tasks: a reader is open briefly
	seen  map[source]bool
	open  map[source]bool   // logs that are not read to the end
	held  map[source]*slots // slots of the logs that are being read
}

// slots is a bounded number of readers, and the queue for them.
type slots struct {
	free    int
	waiting []source
}

func newLogs(client Client, run string, live, ended int) *logs {
	return &logs{
		client: client, run: run, out: make(chan output, 64),
		live: slots{free: live}, ended: slots{free: ended},
		seen: make(map[source]bool), open: make(map[source]bool), held: make(map[source]*slots),
	}
}

// followLive reads the log of a running task, when there is a free slot.
func (l *logs) followLive(ctx context.Context, s source) {
	if !l.seen[s] {
		l.take(ctx, &l.live, s)
	}
}

// followEnded reads the log of an ended task, unless it was read or is being
// read. It moves a log from the queue of running tasks to that of ended ones.
func (l *logs) followEnded(ctx context.Context, s source) {
	if !l.seen[s] || l.forget(s) {
		l.take(ctx, &l.ended, s)
	}
}

// forget removes a log from its queue, and reports whether it was queued.
func (l *logs) forget(s source) bool {
	i := slices.Index(l.live.waiting, s)
	if i < 0 {
		return false
	}
	l.live.waiting = slices.Delete(l.live.waiting, i, i+1)
	delete(l.seen, s)
	delete(l.open, s)
	return true
}

// done passes the slot of a finished log to the next in the queue.
func (l *logs) done(ctx context.Context, s source) {
	from := l.held[s]
	delete(l.held, s)
	delete(l.open, s)
	from.free++
	if len(from.waiting) > 0 {
		next := from.waiting[0]
		from.waiting = from.waiting[1:]
		l.take(ctx, from, next)
	}
}

// idle reports whether no log is being read or queued.
func (l *logs) idle() bool { return len(l.open) == 0 }

func (l *logs) take(ctx context.Context, from *slots, s source) {
	l.seen[s], l.open[s] = true, true
	if from.free == 0 {
		from.waiting = append(from.waiting, s)
		return
	}
	from.free--
	l.held[s] = from
	l.readers.Go(func() { l.read(ctx, s) })
}

func (l *logs) read(ctx context.Context, s source) {
	send := func(o output) bool {
		select {
		case l.out <- o:
			return true
		case <-ctx.Done():
			return false
		}
	}
	for chunk, err := range l.client.Log(ctx, remote.LogQuery{Run: l.run, Task: s.task, Attempt: s.attempt, Follow: true}) {
		if err != nil {
			send(output{source: s, ended: true, err: err})
			return
		}
		if !send(output{source: s, chunk: chunk}) {
			return
		}
	}
	send(output{source: s, ended: true})
}
