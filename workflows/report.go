package workflows

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// report is what a batch has to tell its run, and when it tells it.
type report struct {
	run     run.ID
	batch   int
	pending contract.Report
	sending bool
	gone    bool // there is no run to tell
	last    time.Time
	wait    workflow.Future // until the next may be sent; nil while none waits
	linger  workflow.Future // until an idle batch ends; nil before it was idle
	idle    time.Time       // since when it is; zero while it is not
}

func (p *report) add(endings []ending) {
	for _, e := range endings {
		if e.back != nil {
			p.pending.Returned = append(p.pending.Returned, *e.back)
		} else {
			p.pending.Ended = append(p.pending.Ended, contract.TaskEnd{Task: e.task, Status: e.status})
		}
	}
}

func (p *report) size() int { return len(p.pending.Ended) + len(p.pending.Returned) }

func (p *report) empty() bool { return p.gone || p.size() == 0 && !p.sending }

// due reports whether send has something to do. It is fit for conditions.
func (p *report) due(last bool) bool {
	if p.gone || p.sending || p.size() == 0 {
		return false
	}
	return last || p.size() >= reportAtOnce || p.wait == nil || p.wait.IsReady()
}

// send sends what there is, without waiting for the answer: the first at once,
// then not before the last was taken and some time passed, unless nothing else
// is to come or much has gathered.
func (p *report) send(ctx workflow.Context, last bool) {
	if !p.due(last) {
		return
	}
	if p.wait != nil && p.wait.IsReady() {
		p.wait = nil
	}
	if pause := p.last.Add(reportEvery).Sub(workflow.Now(ctx)); pause > 0 && !last && p.size() < reportAtOnce {
		p.wait = workflow.NewTimer(ctx, pause)
		return
	}
	out := p.pending
	out.Batch = p.batch
	p.pending, p.sending, p.last = contract.Report{}, true, workflow.Now(ctx)
	workflow.Go(ctx, func(ctx workflow.Context) {
		// Without an id of an execution it finds the run's newest one.
		err := workflow.SignalExternalWorkflow(ctx, contract.RunWorkflowID(p.run), "", contract.SignalReport, out).Get(ctx, nil)
		p.sending, p.gone = false, isGone(err)
		if err != nil && !p.gone { // it has more signals than it can take just now
			p.pending.Ended = append(out.Ended, p.pending.Ended...)
			p.pending.Returned = append(out.Returned, p.pending.Returned...)
			p.wait = workflow.NewTimer(ctx, firstPause)
		}
	})
}

// busy notes that the batch is not idle.
func (p *report) busy() { p.idle = time.Time{} }

// lingered reports whether the batch was idle for long enough. Its timer runs
// on while the batch has work, which costs less history than cancelling it.
func (p *report) lingered(ctx workflow.Context) bool {
	now := workflow.Now(ctx)
	if p.idle.IsZero() {
		p.idle = now
	}
	left := p.idle.Add(lingerTime).Sub(now)
	if left <= 0 {
		return true
	}
	if p.linger == nil || p.linger.IsReady() {
		p.linger = workflow.NewTimer(ctx, left)
	}
	return false
}

// restless reports whether an idle batch must look at the clock.
func (p *report) restless() bool {
	return p.empty() && (p.idle.IsZero() || p.linger != nil && p.linger.IsReady())
}

// isGone reports whether a signal found no execution.
func isGone(err error) bool {
	var unknown *temporal.UnknownExternalWorkflowExecutionError
	return errors.As(err, &unknown)
}
