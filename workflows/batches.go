package workflows

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
)

// batches is the run's side of its batches: it assigns tasks to batches and
// tracks their results. A ready task joins the newest batch until that is full,
// so that a long chain does not need a batch for each link.
type batches struct {
	r         *runner
	last      int            // number of the newest batch
	open      map[int]*batch // batches with unreported tasks, and the newest batch
	batchOf   map[int]int    // task to batch
	ready     []contract.Assignment
	inFlight  int  // starts and signals in flight
	changed   bool // something came back that dispatch must handle
	pingTimer workflow.Future
}

// batch is one batch workflow of the run.
type batch struct {
	n        int
	assigned int                         // tasks assigned in total
	tasks    map[int]contract.Assignment // unreported tasks, as they were assigned
	started  bool
	watched  bool // this execution started it, and so is notified of its end
	closed   bool // its workflow ended
}

func newBatches(r *runner) *batches {
	return &batches{r: r, open: map[int]*batch{}, batchOf: map[int]int{}}
}

// queue adds tasks that wait for a batch.
func (b *batches) queue(tasks ...contract.Assignment) { b.ready = append(b.ready, tasks...) }

// ended removes a task that a batch reported, and reports whether the task was
// assigned to that batch.
func (b *batches) ended(n, task int) bool {
	if has, ok := b.batchOf[task]; !ok || has != n {
		return false
	}
	delete(b.batchOf, task)
	delete(b.open[n].tasks, task)
	return true
}

// idle reports whether no batch has a task.
func (b *batches) idle() bool { return len(b.batchOf) == 0 && len(b.ready) == 0 && b.inFlight == 0 }

// quiet reports whether no start and no signal to a batch is in flight. The
// batches themselves continue without this execution.
func (b *batches) quiet() bool { return b.inFlight == 0 && !b.changed }

// hasWork reports whether dispatch has work. It has no side effects, so conditions
// may call it.
func (b *batches) hasWork() bool { return b.changed || b.pingTimer != nil && b.pingTimer.IsReady() }

// dispatch assigns the ready tasks to batches.
func (b *batches) dispatch(ctx workflow.Context) {
	b.changed = false
	b.recoverLost()
	b.pingUnwatched(ctx)
	ready := b.filterReady()
	if newest := b.open[b.last]; newest != nil && !newest.closed && len(ready) > 0 {
		n := min(len(ready), b.r.limits.BatchTasks-newest.assigned)
		if n > 0 {
			b.addTasks(ctx, newest, ready[:n])
			ready = ready[n:]
		}
	}
	for len(ready) > 0 && b.unclosed() < b.r.limits.OpenBatches {
		n := min(len(ready), b.r.limits.BatchTasks)
		b.start(ctx, ready[:n])
		ready = ready[n:]
	}
	b.ready = slices.Clone(ready)
}

// filterReady returns the ready tasks that may start, and ends the others.
func (b *batches) filterReady() []contract.Assignment {
	var out []contract.Assignment
	for _, a := range b.ready {
		if !b.r.graph.MayStart(a.Task) && b.r.plan.FailFast {
			a.Withdrawn, a.Stop = failFastReason, b.r.plan.StopRunning
		}
		// An executor may hold the task. Such a task is always followed.
		if (stops(b.r.stopped, a.Finally) || a.Withdrawn != "") && a.Adopt == nil && !a.Recover {
			c := skippedChange(a, b.r.stopped)
			b.r.writes.put(c)
			b.r.ended(a.Task, c.Status)
			continue
		}
		out = append(out, a)
	}
	b.ready = nil
	return out
}

func (b *batches) unclosed() int {
	n := 0
	for _, i := range workflow.DeterministicKeys(b.open) {
		if !b.open[i].closed {
			n++
		}
	}
	return n
}

// assign records that a batch has tasks.
func (b *batches) assign(to *batch, tasks []contract.Assignment) {
	to.assigned += len(tasks)
	for _, a := range tasks {
		to.tasks[a.Task] = a
		b.batchOf[a.Task] = to.n
	}
}

// start starts a batch with tasks.
func (b *batches) start(ctx workflow.Context, tasks []contract.Assignment) {
	b.last++
	n := &batch{n: b.last, tasks: map[int]contract.Assignment{}, watched: true}
	b.open[n.n] = n
	b.assign(n, tasks)
	in := contract.BatchInput{
		Run: b.r.in.Run, Batch: n.n, Name: b.r.plan.Name, Group: b.r.plan.Group, Priority: b.r.plan.Priority,
		Tasks: slices.Clone(tasks), Removed: b.r.taskSet.removals(), Stop: b.r.stopped, Limits: b.r.in.Limits,
	}
	b.inFlight++
	workflow.Go(ctx, func(ctx workflow.Context) {
		child := workflow.ExecuteChildWorkflow(workflow.WithChildOptions(ctx, batchOptions(in)), contract.BatchWorkflow, in)
		err := child.GetChildWorkflowExecution().Get(ctx, nil)
		b.inFlight--
		n.started, b.changed = err == nil, true
		if err == nil {
			err = child.Get(ctx, nil)
		}
		if err != nil {
			// The workflow exists already because this workflow was reset, or
			// it was terminated.
			b.r.log.Warn("batch workflow not found or closed", "batch", n.n, "error", err)
		}
		n.closed, b.changed = true, true
	})
}

// addTasks assigns further tasks to a batch that runs.
func (b *batches) addTasks(ctx workflow.Context, to *batch, tasks []contract.Assignment) {
	b.assign(to, tasks)
	given := slices.Clone(tasks)
	b.signalBatch(ctx, to, contract.SignalBatchAddTasks, contract.BatchAddTasks{Tasks: given}, func() {
		// The batch ended before it received these tasks.
		for _, a := range given {
			if b.ended(to.n, a.Task) {
				b.queue(a)
			}
		}
	})
}

// signalAll sends a signal to every batch that has a task.
func (b *batches) signalAll(ctx workflow.Context, signal string, payload any) {
	for _, n := range workflow.DeterministicKeys(b.open) {
		if to := b.open[n]; !to.closed && len(to.tasks) > 0 {
			b.signalBatch(ctx, to, signal, payload, nil)
		}
	}
}

// signalBatch sends a signal to a batch without waiting. If the batch is gone,
// signalBatch calls lost first, and then the other tasks of the batch are
// recovered.
func (b *batches) signalBatch(ctx workflow.Context, to *batch, signal string, payload any, lost func()) {
	b.inFlight++
	workflow.Go(ctx, func(ctx workflow.Context) {
		_ = workflow.Await(ctx, func() bool { return to.started || to.closed })
		if !b.send(ctx, to, signal, payload) && lost != nil {
			lost()
		}
		b.inFlight--
		b.changed = true
	})
}

// send sends a signal and reports whether the batch accepted it.
func (b *batches) send(ctx workflow.Context, to *batch, signal string, payload any) bool {
	id := contract.BatchWorkflowID(b.r.in.Run, to.n)
	err := workflow.SignalExternalWorkflow(ctx, id, "", signal, payload).Get(ctx, nil)
	if err != nil {
		to.closed = true
	}
	return err == nil
}

// stop stops the tasks of all batches.
func (b *batches) stop(ctx workflow.Context, why contract.Stop) {
	b.signalAll(ctx, contract.SignalBatchStop, why)
}

// withdraw forbids tasks of batches to start.
func (b *batches) withdraw(ctx workflow.Context, tasks []int) {
	by := map[int][]int{}
	for _, task := range tasks {
		if n, ok := b.batchOf[task]; ok {
			by[n] = append(by[n], task)
		}
	}
	for _, n := range workflow.DeterministicKeys(by) {
		b.signalBatch(ctx, b.open[n], contract.SignalBatchWithdrawTasks, contract.BatchWithdrawTasks{Tasks: by[n], Reason: failFastReason, Stop: b.r.plan.StopRunning}, nil)
	}
}

// recoverLost queues the tasks of batches that ended without reporting them,
// and removes batches without tasks. A batch sends its reports before it ends,
// so applyReport has handled all of them by now.
func (b *batches) recoverLost() {
	for _, n := range workflow.DeterministicKeys(b.open) {
		from := b.open[n]
		if !from.closed {
			if len(from.tasks) == 0 && n != b.last {
				delete(b.open, n) // its workflow ends by itself
			}
			continue
		}
		for _, task := range workflow.DeterministicKeys(from.tasks) {
			lost := from.tasks[task]
			delete(b.batchOf, task)
			b.queue(lost.ToRecover())
		}
		delete(b.open, n)
	}
}

// pingUnwatched pings the batches that an earlier execution started, once per pingEvery.
// This execution is not notified of their end.
func (b *batches) pingUnwatched(ctx workflow.Context) {
	due := b.pingTimer != nil && b.pingTimer.IsReady()
	unwatched := false
	for _, n := range workflow.DeterministicKeys(b.open) {
		if to := b.open[n]; !to.watched && !to.closed && len(to.tasks) > 0 {
			unwatched = true
			if due {
				b.signalBatch(ctx, to, contract.SignalBatchAddTasks, contract.BatchAddTasks{}, nil)
			}
		}
	}
	switch {
	case due && !unwatched:
		b.pingTimer = nil
	case unwatched && (b.pingTimer == nil || due):
		b.pingTimer = workflow.NewTimer(ctx, pingEvery)
	}
}

// save writes the batches into the state for the next execution.
func (b *batches) save(s *contract.RunState) {
	s.LastBatch, s.Ready = b.last, b.ready
	for _, n := range workflow.DeterministicKeys(b.open) {
		s.Batches = append(s.Batches, contract.OpenBatch{
			Batch: n, Assigned: b.open[n].assigned, Tasks: workflow.DeterministicKeys(b.open[n].tasks),
		})
	}
}

// restore reads the batches of an earlier execution.
func (b *batches) restore(s *contract.RunState) {
	b.last = s.LastBatch
	b.queue(s.Ready...)
	for _, o := range s.Batches {
		to := &batch{n: o.Batch, assigned: o.Assigned, tasks: map[int]contract.Assignment{}, started: true}
		b.open[o.Batch] = to
		for _, task := range o.Tasks {
			to.tasks[task] = b.r.assignment(task)
			b.batchOf[task] = o.Batch
		}
	}
}

// views lists the batches that have tasks.
func (b *batches) views() []int {
	var out []int
	for _, n := range workflow.DeterministicKeys(b.open) {
		if to := b.open[n]; !to.closed && len(to.tasks) > 0 {
			out = append(out, n)
		}
	}
	return out
}
