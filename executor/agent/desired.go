package agent

import (
	"errors"

	"github.com/drover-run/drover/run"
)

var errDrainRequested = errors.New("the executor is to accept no tasks")

// applyDesiredState applies the desired state of the executor. A drain is not an end: the
// executor continues its tasks, and accepts new ones once the drain is lifted.
func (a *Agent) applyDesiredState(w run.DesiredState) {
	a.mu.Lock()
	changed := a.drainRequested != w.Drain
	a.drainRequested = w.Drain
	if w.Drain {
		a.slots.setOpen(false)
	}
	a.mu.Unlock()
	switch {
	case !changed:
	case w.Drain:
		a.log.Info("executor drains on request")
	default:
		a.log.Info("drain of the executor lifted")
		a.suspend(errCheckDue) // it accepts tasks once it is healthy
	}
}

// notAccepting reports whether the executor accepts no tasks, permanently or until a
// drain is lifted.
func (a *Agent) notAccepting() bool { return a.notAcceptingReason() != nil }

// notAcceptingReason returns why the executor accepts no tasks, nil if it does.
func (a *Agent) notAcceptingReason() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.draining:
		return errShutdown
	case a.drainRequested:
		return errDrainRequested
	}
	return nil
}
