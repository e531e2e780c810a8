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
	// labelsCrowded is labelsUnused while there are more than maxLabelWorkers workers. A
	// poll lasts a minute at most.
	labelsCrowded = 2 * time.Minute
	// maxLabelWorkers is twice the number of sets of labels for which an executor polls.
	maxLabelWorkers = 200
)

// serveLabels polls for the tasks that require labels of their executor, one worker for
// each set of labels, until ctx ends. The gateway names the labels for which tasks
// wait; only then do the workers poll.
func (e *Executor) serveLabels(ctx context.Context) {
	type labelled struct {
		stop   context.CancelCauseFunc
		unused time.Time // since when no task requires the labels; zero: some do
	}
	workers := map[string]*labelled{}
	var group sync.WaitGroup
	defer group.Wait()
	ticker := time.NewTicker(labelsUnused / 10)
	defer ticker.Stop()
	for {
		labels, changed := e.agent.WaitingLabels()
		now := time.Now()
		for _, w := range workers {
			if w.unused.IsZero() {
				w.unused = now
			}
		}
		for _, id := range labels {
			w := workers[id]
			if w == nil {
				workerCtx, stop := context.WithCancelCause(ctx)
				w = &labelled{stop: stop}
				workers[id] = w
				group.Go(func() {
					e.serve(workerCtx, func(fatal func(error)) (worker.Worker, error) { return e.taskWorker(id, fatal) })
				})
			}
			w.unused = time.Time{}
		}
		limit := labelsUnused
		if len(workers) > maxLabelWorkers {
			limit = labelsCrowded
		}
		for id, w := range workers {
			if !w.unused.IsZero() && now.Sub(w.unused) >= limit {
				w.stop(errStopping)
				delete(workers, id)
			}
		}
		select {
		case <-changed:
		case <-ticker.C:
		case <-ctx.Done():
			for _, w := range workers {
				w.stop(errStopping)
			}
			return
		}
	}
}
