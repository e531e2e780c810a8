package workflows

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// report holds the results that a batch has to report to its run, and when.
type report struct {
	run     run.ID
	batch   int
	pending contract.Report
	sending bool
	gone    bool // the run's workflow does not exist
	last    time.Time
	wait    workflow.Future // until the next report may be sent; nil if none waits
	linger  workflow.Future // until an idle batch ends; nil before it was idle
	idle    time.Time       // since when the batch is idle; zero while it has work
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

// due reports whether send has work. It has no side effects, so conditions may
// call it.
func (p *report) due(last bool) bool {
	if p.gone || p.sending || p.size() == 0 {
		return false
	}
	return last || p.size() >= reportAtOnce || p.wait == nil || p.wait.IsReady()
}

// send sends the pending results without waiting for the answer. It sends the
// first immediately. Further ones wait until the last report was accepted and
// reportEvery has passed, unless the batch has nothing else to report or
// reportAtOnce results are pending.
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
		// A signal without a run ID goes to the workflow's newest execution.
		err := workflow.SignalExternalWorkflow(ctx, contract.RunWorkflowID(p.run), "", contract.SignalReport, out).Get(ctx, nil)
		p.sending, p.gone = false, isGone(err)
		if err != nil && !p.gone { // the workflow has too many pending signals
			p.pending.Ended = append(out.Ended, p.pending.Ended...)
			p.pending.Returned = append(out.Returned, p.pending.Returned...)
			p.wait = workflow.NewTimer(ctx, firstPause)
		}
	})
}

// busy records that the batch is not idle.
func (p *report) busy() { p.idle = time.Time{} }

// lingered reports whether the batch was idle for lingerTime. The timer is not
// cancelled when the batch gets work: cancelling costs more history.
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

// restless reports whether an idle batch must check its idle time.
func (p *report) restless() bool {
	return p.empty() && (p.idle.IsZero() || p.linger != nil && p.linger.IsReady())
}

// isGone reports whether the signalled workflow does not exist.
func isGone(err error) bool {
	var unknown *temporal.UnknownExternalWorkflowExecutionError
	return errors.As(err, &unknown)
}
