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
	run         run.ID
	batch       int
	pending     contract.BatchReport
	sending     bool
	runGone     bool // the run's workflow does not exist
	last        time.Time
	throttle    workflow.Future // until the next report may be sent; nil if none waits
	lingerTimer workflow.Future // until an idle batch ends; nil before it was idle
	idle        time.Time       // since when the batch is idle; zero while it has work
}

func (p *report) add(endings []ending) {
	for _, e := range endings {
		if e.returned != nil {
			p.pending.Returned = append(p.pending.Returned, *e.returned)
		} else {
			p.pending.Ended = append(p.pending.Ended, contract.TaskEnd{Task: e.task, Status: e.status})
		}
	}
}

func (p *report) size() int { return len(p.pending.Ended) + len(p.pending.Returned) }

func (p *report) empty() bool { return p.runGone || p.size() == 0 && !p.sending }

// ready reports whether send has work. It has no side effects, so conditions may
// call it.
func (p *report) ready(last bool) bool {
	if p.runGone || p.sending || p.size() == 0 {
		return false
	}
	return last || p.size() >= reportAtOnce || p.throttle == nil || p.throttle.IsReady()
}

// send sends the pending results without waiting for the answer. It sends the
// first immediately. Further ones wait until the last report was accepted and
// reportEvery has passed, unless the batch has nothing else to report or
// reportAtOnce results are pending.
func (p *report) send(ctx workflow.Context, last bool) {
	if !p.ready(last) {
		return
	}
	if p.throttle != nil && p.throttle.IsReady() {
		p.throttle = nil
	}
	if pause := p.last.Add(reportEvery).Sub(workflow.Now(ctx)); pause > 0 && !last && p.size() < reportAtOnce {
		p.throttle = workflow.NewTimer(ctx, pause)
		return
	}
	out := p.pending
	out.Batch = p.batch
	p.pending, p.sending, p.last = contract.BatchReport{}, true, workflow.Now(ctx)
	workflow.Go(ctx, func(ctx workflow.Context) {
		// A signal without a run ID goes to the workflow's newest execution.
		err := workflow.SignalExternalWorkflow(ctx, contract.RunWorkflowID(p.run), "", contract.SignalBatchReport, out).Get(ctx, nil)
		p.sending, p.runGone = false, isGone(err)
		if err != nil && !p.runGone { // the workflow has too many pending signals
			p.pending.Ended = append(out.Ended, p.pending.Ended...)
			p.pending.Returned = append(out.Returned, p.pending.Returned...)
			p.throttle = workflow.NewTimer(ctx, firstBackoff)
		}
	})
}

// resetIdle records that the batch is not idle.
func (p *report) resetIdle() { p.idle = time.Time{} }

// idleExpired reports whether the batch was idle for lingerTime. The timer is not
// cancelled when the batch gets work: cancelling costs more history.
func (p *report) idleExpired(ctx workflow.Context) bool {
	now := workflow.Now(ctx)
	if p.idle.IsZero() {
		p.idle = now
	}
	left := p.idle.Add(lingerTime).Sub(now)
	if left <= 0 {
		return true
	}
	if p.lingerTimer == nil || p.lingerTimer.IsReady() {
		p.lingerTimer = workflow.NewTimer(ctx, left)
	}
	return false
}

// mustCheckIdle reports whether an idle batch must check its idle time.
func (p *report) mustCheckIdle() bool {
	return p.empty() && (p.idle.IsZero() || p.lingerTimer != nil && p.lingerTimer.IsReady())
}

// isGone reports whether the signalled workflow does not exist.
func isGone(err error) bool {
	var unknown *temporal.UnknownExternalWorkflowExecutionError
	return errors.As(err, &unknown)
}
