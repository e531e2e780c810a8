package rows

import (
	"time"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// observeRun reports the start or end of a run.
func observeRun(t *sqldb.Tx, prev, r *Run) {
	if r.Phase == prev.Phase {
		return
	}
	switch {
	case r.Phase == run.PhaseRunning:
		waited := span(r.Created, r.Started)
		t.Observe(func(o records.Observer) { o.RunStarted(waited) })
	case r.Phase.Final():
		phase, result, took := r.Phase, r.Result, span(r.Started, r.Ended)
		t.Observe(func(o records.Observer) { o.RunEnded(phase, result, took) })
	}
}

// observeTask reports the changes of a task since it was read.
func observeTask(t *sqldb.Tx, x *Task) {
	prev, pool := &x.stored, x.Pool
	if x.Started == t.Now && x.Executor != "" && (prev.Started != x.Started || prev.OlderThan(x.Attempt, x.Dispatch)) {
		waited := span(x.Queued, x.Started)
		t.Observe(func(o records.Observer) { o.TaskClaimed(pool, waited) })
	}
	if x.Status.Final() && !prev.Status.Final() {
		status, started, took := x.Status, x.Started != 0, span(x.Started, x.Ended)
		t.Observe(func(o records.Observer) { o.TaskEnded(pool, status, started, took) })
	}
	x.stored = x.TaskState
}

// span is the time between two moments, 0 if one of them is not known or clocks
// disagree about their order.
func span(from, to int64) time.Duration {
	if from == 0 || to <= from {
		return 0
	}
	return time.Duration(to - from)
}
