package sqlstore

import (
	"time"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// observe queues a call of the observer for after the commit.
func (t *tx) observe(report func(records.Observer)) { t.observed = append(t.observed, report) }

// observeRun reports the start or end of a run.
func (t *tx) observeRun(prev, r *runRow) {
	if r.phase == prev.phase {
		return
	}
	switch {
	case r.phase == run.PhaseRunning:
		waited := span(r.created, r.started)
		t.observe(func(o records.Observer) { o.RunStarted(waited) })
	case r.phase.Final():
		phase, result, took := r.phase, r.result, span(r.started, r.ended)
		t.observe(func(o records.Observer) { o.RunEnded(phase, result, took) })
	}
}

// observeTask reports the changes of a task since it was read.
func (t *tx) observeTask(x *taskRow) {
	prev, pool := &x.stored, x.pool
	if x.started == t.now && x.executor != "" && (prev.started != x.started || prev.olderThan(x.attempt, x.dispatch)) {
		waited := span(x.queued, x.started)
		t.observe(func(o records.Observer) { o.TaskClaimed(pool, waited) })
	}
	if x.status.Final() && !prev.status.Final() {
		status, started, took := x.status, x.started != 0, span(x.started, x.ended)
		t.observe(func(o records.Observer) { o.TaskEnded(pool, status, started, took) })
	}
	x.stored = x.taskState
}

// observeFrames reports a batch that was stored for the first time.
func (t *tx) observeFrames(frames []run.Frame) {
	output, lag := false, time.Duration(0)
	for _, f := range frames {
		if f.Kind == run.FrameOutput {
			output, lag = true, max(0, toTime(t.now).Sub(f.Time))
			break
		}
	}
	t.observe(func(o records.Observer) { o.FramesStored(len(frames), output, lag) })
}

// span is the time between two moments, 0 if one of them is not known or clocks
// disagree about their order.
func span(from, to int64) time.Duration {
	if from == 0 || to <= from {
		return 0
	}
	return time.Duration(to - from)
}
