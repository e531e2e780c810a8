package workflows

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
)

// batches is the run's side of its batches: which tasks are given to which,
// and what becomes of them. A task that is ready joins the newest batch until
// that is full, so that a long chain needs no batch for each of its links.
type batches struct {
	r     *runner
	last  int            // number of the newest batch
	open  map[int]*batch // with tasks that it has not reported, and the newest
	of    map[int]int    // task to batch
	ready []contract.Assignment
	busy  int  // batches being started or told
	woken bool // something came back that handOut must look at
	ping  workflow.Future
}

// batch is one of them.
type batch struct {
	n       int
	given   int                         // tasks, ever
	tasks   map[int]contract.Assignment // not reported; as they were given
	started bool
	watched bool // this execution started it, and so learns of its end
	closed  bool // it ended
}

func newBatches(r *runner) *batches {
	return &batches{r: r, open: map[int]*batch{}, of: map[int]int{}}
}

// queue takes tasks to be given to a batch.
func (b *batches) queue(tasks ...contract.Assignment) { b.ready = append(b.ready, tasks...) }

// ended forgets a task that a batch reported, and reports whether it was with
// that batch.
func (b *batches) ended(n, task int) bool {
	if has, ok := b.of[task]; !ok || has != n {
		return false
	}
	delete(b.of, task)
	delete(b.open[n].tasks, task)
	return true
}

// idle reports whether no batch has a task.
func (b *batches) idle() bool { return len(b.of) == 0 && len(b.ready) == 0 && b.busy == 0 }

// quiet reports whether nothing is under way between this execution and its
// batches, which go on without it.
func (b *batches) quiet() bool { return b.busy == 0 && !b.woken }

// news reports whether handOut has something to do. It is fit for conditions.
func (b *batches) news() bool { return b.woken || b.ping != nil && b.ping.IsReady() }

// handOut gives what is ready to batches.
func (b *batches) handOut(ctx workflow.Context) {
	b.woken = false
	b.recoverLost()
	b.look(ctx)
	ready := b.sift()
	if newest := b.open[b.last]; newest != nil && !newest.closed && len(ready) > 0 {
		n := min(len(ready), b.r.limits.Batch-newest.given)
		if n > 0 {
			b.more(ctx, newest, ready[:n])
			ready = ready[n:]
		}
	}
	for len(ready) > 0 && b.unclosed() < b.r.limits.Open {
		n := min(len(ready), b.r.limits.Batch)
		b.start(ctx, ready[:n])
		ready = ready[n:]
	}
	b.ready = slices.Clone(ready)
}

// sift returns what of the ready tasks may begin, and ends the others.
func (b *batches) sift() []contract.Assignment {
	var out []contract.Assignment
	for _, a := range b.ready {
		if !b.r.graph.MayStart(a.Task) && b.r.plan.FailFast {
			a.Withdrawn = failFastReason
		}
		// Somebody else may have the task: then it is followed in any case.
		if (b.r.stopped != nil || a.Withdrawn != "") && a.Adopt == nil && !a.Recover {
			c := dropped(a, b.r.stopped)
			b.r.ledger.put(c)
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

// assign notes that a batch has tasks.
func (b *batches) assign(to *batch, tasks []contract.Assignment) {
	to.given += len(tasks)
	for _, a := range tasks {
		to.tasks[a.Task] = a
		b.of[a.Task] = to.n
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
		Tasks: slices.Clone(tasks), Removed: b.r.crew.removals(), Stop: b.r.stopped, Limits: b.r.in.Limits,
	}
	b.busy++
	workflow.Go(ctx, func(ctx workflow.Context) {
		child := workflow.ExecuteChildWorkflow(workflow.WithChildOptions(ctx, batchOptions(in)), contract.BatchWorkflow, in)
		err := child.GetChildWorkflowExecution().Get(ctx, nil)
		b.busy--
		n.started, b.woken = err == nil, true
		if err == nil {
			err = child.Get(ctx, nil)
		}
		if err != nil {
			// It exists already, since somebody reset this workflow; or it was
			// ended from outside.
			b.r.log.Warn("a batch of the run is gone", "batch", n.n, "error", err)
		}
		n.closed, b.woken = true, true
	})
}

// more gives further tasks to a batch.
func (b *batches) more(ctx workflow.Context, to *batch, tasks []contract.Assignment) {
	b.assign(to, tasks)
	given := slices.Clone(tasks)
	b.tellOne(ctx, to, contract.SignalBatchMore, contract.BatchMore{Tasks: given}, func() {
		// It ended meanwhile, and never saw these.
		for _, a := range given {
			if b.ended(to.n, a.Task) {
				b.queue(a)
			}
		}
	})
}

// tell sends a signal to every batch that has a task.
func (b *batches) tell(ctx workflow.Context, signal string, payload any) {
	for _, n := range workflow.DeterministicKeys(b.open) {
		if to := b.open[n]; !to.closed && len(to.tasks) > 0 {
			b.tellOne(ctx, to, signal, payload, nil)
		}
	}
}

// tellOne sends a signal to a batch without waiting. Where the batch is gone,
// lost is called first, and what else it had is recovered.
func (b *batches) tellOne(ctx workflow.Context, to *batch, signal string, payload any, lost func()) {
	b.busy++
	workflow.Go(ctx, func(ctx workflow.Context) {
		_ = workflow.Await(ctx, func() bool { return to.started || to.closed })
		if !b.send(ctx, to, signal, payload) && lost != nil {
			lost()
		}
		b.busy--
		b.woken = true
	})
}

// send sends a signal and reports whether the batch took it.
func (b *batches) send(ctx workflow.Context, to *batch, signal string, payload any) bool {
	id := contract.BatchWorkflowID(b.r.in.Run, to.n)
	err := workflow.SignalExternalWorkflow(ctx, id, "", signal, payload).Get(ctx, nil)
	if err != nil {
		to.closed = true
	}
	return err == nil
}

// stop stops what batches have.
func (b *batches) stop(ctx workflow.Context, why contract.Stop) {
	b.tell(ctx, contract.SignalBatchStop, why)
}

// withdraw forbids tasks of batches to begin.
func (b *batches) withdraw(ctx workflow.Context, tasks []int) {
	by := map[int][]int{}
	for _, task := range tasks {
		if n, ok := b.of[task]; ok {
			by[n] = append(by[n], task)
		}
	}
	for _, n := range workflow.DeterministicKeys(by) {
		b.tellOne(ctx, b.open[n], contract.SignalBatchWithdraw, contract.BatchWithdraw{Tasks: by[n], Reason: failFastReason}, nil)
	}
}

// recoverLost queues what batches had that ended without reporting it, and
// forgets those that are of no more use. What a batch reported came before its
// end, and is absorbed by now.
func (b *batches) recoverLost() {
	for _, n := range workflow.DeterministicKeys(b.open) {
		from := b.open[n]
		if !from.closed {
			if len(from.tasks) == 0 && n != b.last {
				delete(b.open, n) // it ends by itself
			}
			continue
		}
		for _, task := range workflow.DeterministicKeys(from.tasks) {
			lost := from.tasks[task]
			delete(b.of, task)
			b.queue(contract.Assignment{
				Task: task, Name: lost.Name, Pool: lost.Pool, Retry: lost.Retry, OnLost: lost.OnLost, Recover: true,
			})
		}
		delete(b.open, n)
	}
}

// look finds out now and then whether the batches are there of whose end this
// execution does not learn: those that an earlier one started.
func (b *batches) look(ctx workflow.Context) {
	due := b.ping != nil && b.ping.IsReady()
	unwatched := false
	for _, n := range workflow.DeterministicKeys(b.open) {
		if to := b.open[n]; !to.watched && !to.closed && len(to.tasks) > 0 {
			unwatched = true
			if due {
				b.tellOne(ctx, to, contract.SignalBatchMore, contract.BatchMore{}, nil)
			}
		}
	}
	switch {
	case due && !unwatched:
		b.ping = nil
	case unwatched && (b.ping == nil || due):
		b.ping = workflow.NewTimer(ctx, pingEvery)
	}
}

// save notes the batches in a state to be carried over.
func (b *batches) save(s *contract.RunState) {
	s.LastBatch, s.Ready = b.last, b.ready
	for _, n := range workflow.DeterministicKeys(b.open) {
		s.Batches = append(s.Batches, contract.OpenBatch{
			Batch: n, Given: b.open[n].given, Tasks: workflow.DeterministicKeys(b.open[n].tasks),
		})
	}
}

// restore goes on with the batches of an earlier execution.
func (b *batches) restore(s *contract.RunState) {
	b.last = s.LastBatch
	b.queue(s.Ready...)
	for _, o := range s.Batches {
		to := &batch{n: o.Batch, given: o.Given, tasks: map[int]contract.Assignment{}, started: true}
		b.open[o.Batch] = to
		for _, task := range o.Tasks {
			to.tasks[task] = b.r.assignment(task)
			b.of[task] = o.Batch
		}
	}
}

// views lists the batches that are open.
func (b *batches) views() []int {
	var out []int
	for _, n := range workflow.DeterministicKeys(b.open) {
		if to := b.open[n]; !to.closed && len(to.tasks) > 0 {
			out = append(out, n)
		}
	}
	return out
}
