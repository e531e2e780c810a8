package executor

import (
	"errors"

	"github.com/drover-run/drover/run"
)

var errDrainWanted = errors.New("the executor is to take no tasks")

// heed does what is wanted of the executor. A drain is not the end: it goes on
// with the tasks that it has, and takes others again when that is wanted.
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
		a.log.Info("executor is to take no tasks")
	default:
		a.log.Info("executor is to take tasks again")
		a.suspend(errCheckDue) // it opens when it is well
	}
}

// takesNone reports whether no tasks are taken, for good or until that is no
// longer wanted.
func (a *Agent) takesNone() bool { return a.whyNone() != nil }

// whyNone returns why no tasks are taken, nil where they are.
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
