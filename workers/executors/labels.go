package executors

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/sdk/worker"
)

const (
	// labelsUnused is how long no task has required labels before their worker is stopped.
	// Its last poll has ended long before, so that no task can be lost.
	labelsUnused = 10 * time.Minute
	// labelsCrowded is labelsUnused while there are more than manyLabelWorkers workers. A
	// poll lasts a minute at most.
	labelsCrowded = 2 * time.Minute
	// manyLabelWorkers is twice the number of sets of labels for which an executor polls.
	manyLabelWorkers = 200
	// maxLabelWorkers bounds the workers, if sets of labels come and go faster than they
	// become unused. A server that does not end polls of a worker that stops may deliver a
	// task to its last one. The task is not lost: nothing of it begins before its first
	// heartbeat, so its run queues it again after the heartbeat timeout.
	maxLabelWorkers = 1000
)

// labelWorkers are the workers for sets of labels, by the queue of each set.
type labelWorkers map[string]*labelWorker

type labelWorker struct {
	stop   context.CancelCauseFunc
	unused time.Time // since when no task requires the labels; zero: some do
}

// use starts workers for the labels that tasks require now. It stops those that have been
// unused for long, and beyond maxLabelWorkers those that have been unused for longest.
func (ws labelWorkers) use(labels []string, now time.Time, start func(id string) context.CancelCauseFunc) {
	for _, w := range ws {
		if w.unused.IsZero() {
			w.unused = now
		}
	}
	for _, id := range labels {
		if w := ws[id]; w != nil {
			w.unused = time.Time{}
		}
	}
	limit := labelsUnused
	if len(ws) > manyLabelWorkers {
		limit = labelsCrowded
	}
	for id, w := range ws {
		if !w.unused.IsZero() && now.Sub(w.unused) >= limit {
			ws.stop(id)
		}
	}
	for _, id := range labels {
		if ws[id] != nil {
			continue
		}
		if len(ws) >= maxLabelWorkers {
			ws.stopUnused()
		}
		ws[id] = &labelWorker{stop: start(id)}
	}
}

// stopUnused stops the worker that has been unused for longest.
func (ws labelWorkers) stopUnused() {
	longest := ""
	for id, w := range ws {
		if !w.unused.IsZero() && (longest == "" || w.unused.Before(ws[longest].unused)) {
			longest = id
		}
	}
	if longest != "" {
		ws.stop(longest)
	}
}

func (ws labelWorkers) stop(id string) {
	ws[id].stop(errStopping)
	delete(ws, id)
}

// serveLabels polls for the tasks that require labels of their executor, one worker for
// each set of labels, until ctx ends. The gateway names the labels for which tasks
// wait; only then do the workers poll.
func (e *Executor) serveLabels(ctx context.Context) {
	workers := labelWorkers{}
	var group sync.WaitGroup
	defer group.Wait()
	ticker := time.NewTicker(labelsUnused / 10)
	defer ticker.Stop()
	for {
		labels, changed := e.agent.WaitingLabels()
		workers.use(labels, time.Now(), func(id string) context.CancelCauseFunc {
			workerCtx, stop := context.WithCancelCause(ctx)
			group.Go(func() {
				e.serve(workerCtx, func(fatal func(error)) (worker.Worker, error) { return e.taskWorker(id, fatal) })
			})
			return stop
		})
		select {
		case <-changed:
		case <-ticker.C:
		case <-ctx.Done():
			for id := range workers {
				workers.stop(id)
			}
			return
		}
	}
}
