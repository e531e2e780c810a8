package executor

import (
	"errors"

	"github.com/drover-run/drover/run"
)

var errDrainWanted = errors.New("the executor is to accept no tasks")

// heed applies the desired state of the executor. A drain is not an end: the
// executor continues its tasks, and accepts new ones once the drain is lifted.
func (a *Agent) heed(w run.Wanted) {
	a.mu.Lock()
	changed := a.drainWanted != w.Drain
	a.drainWanted = w.Drain
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

// takesNone reports whether the executor accepts no tasks, permanently or until a
// drain is lifted.
func (a *Agent) takesNone() bool { return a.whyNone() != nil }

// whyNone returns why the executor accepts no tasks, nil if it does.
func (a *Agent) whyNone() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.draining:
		return errShutdown
	case a.drainWanted:
		return errDrainWanted
	}
	return nil
}
