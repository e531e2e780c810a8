package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
)

// signals holds the signal channels of an execution. Only the main coroutine
// reads them, so that it never ends, or continues as new, with an unread
// signal.
type signals []signal

// signal is a channel and the handler of its signals.
type signal struct {
	channel workflow.ReceiveChannel
	handle  func(workflow.Context)
}

// on adds a signal with a payload. The SDK logs and skips a payload that it
// cannot decode.
func on[T any](ctx workflow.Context, name string, do func(workflow.Context, T)) signal {
	channel := workflow.GetSignalChannel(ctx, name)
	return signal{channel: channel, handle: func(ctx workflow.Context) {
		var payload T
		if channel.ReceiveAsync(&payload) {
			do(ctx, payload)
		}
	}}
}

// onBare adds a signal without a payload.
func onBare(ctx workflow.Context, name string, do func(workflow.Context)) signal {
	channel := workflow.GetSignalChannel(ctx, name)
	return signal{channel: channel, handle: func(ctx workflow.Context) {
		if channel.ReceiveAsync(nil) {
			do(ctx)
		}
	}}
}

// waiting reports whether there are unread signals. It has no side effects, so
// conditions may call it.
func (b signals) waiting() bool {
	for _, s := range b {
		if s.channel.Len() > 0 {
			return true
		}
	}
	return false
}

// drain handles all signals that have arrived.
func (b signals) drain(ctx workflow.Context) {
	for _, s := range b {
		for s.channel.Len() > 0 {
			s.handle(ctx)
		}
	}
}

func (r *runner) newSignals(ctx workflow.Context) signals {
	return signals{
		onBare(ctx, contract.SignalAdmit, func(workflow.Context) { r.recheck = true }),
		onBare(ctx, contract.SignalCancel, func(workflow.Context) { r.recheck = true }),
		onBare(ctx, contract.SignalStop, func(ctx workflow.Context) { r.stop(ctx, contract.Stop{Reason: stopReason}) }),
		onBare(ctx, contract.SignalForceStop, func(ctx workflow.Context) { r.stop(ctx, contract.Stop{Reason: stopReason, Force: true}) }),
		on(ctx, contract.SignalApprove, func(_ workflow.Context, a contract.Approve) { r.approve(a.Task) }),
		on(ctx, contract.SignalBatchReport, func(_ workflow.Context, rep contract.BatchReport) { r.applyReport(rep) }),
		on(ctx, contract.SignalExecutorRemoved, func(ctx workflow.Context, e contract.ExecutorRemoved) {
			r.taskSet.remove(ctx, e)
			r.batches.signalAll(ctx, contract.SignalExecutorRemoved, e)
		}),
		onBare(ctx, contract.SignalForceContinue, func(workflow.Context) { r.forced = true }),
		r.waits.signal(ctx),
	}
}
