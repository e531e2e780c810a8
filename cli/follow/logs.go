package follow

import (
	"context"
	"slices"
	"sync"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/remote"
)

// source names one log: that of one attempt of a task.
type source struct {
	task    string
	attempt int
}

// output is a piece of a log, or its end.
type output struct {
	source
	chunk api.LogChunk
	ended bool
	err   error // with ended: why the log is not complete
}

// logs follows the logs of many tasks over a bounded number of connections.
// Only the goroutine that follows the run calls its methods.
type logs struct {
	client  Client
	run     string
	out     chan output
	readers sync.WaitGroup

	live  slots // for tasks that run: each may stay open for as long as the run
	ended slots // for tasks that have ended: each is soon read
	seen  map[source]bool
	open  map[source]bool   // seen, and not read to the end
	held  map[source]*slots // of the logs that are being read
}

// slots is a bounded number of readers, and what waits for one.
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

// followLive reads the log of a task that runs, once there is a slot.
func (l *logs) followLive(ctx context.Context, s source) {
	if !l.seen[s] {
		l.take(ctx, &l.live, s)
	}
}

// followEnded reads the log of a task that has ended, unless it is being read
// or was. One that waits behind tasks that run waits no longer.
func (l *logs) followEnded(ctx context.Context, s source) {
	if !l.seen[s] || l.forget(s) {
		l.take(ctx, &l.ended, s)
	}
}

// forget drops a log that waits for a slot, and reports whether it did.
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

// done gives the slot of a log that ended to the next.
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

// idle reports whether nothing is read or waits to be.
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
