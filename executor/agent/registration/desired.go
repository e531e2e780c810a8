package registration

import (
	"errors"

	"github.com/drover-run/drover/run"
)

var errDrainRequested = errors.New("the executor drains on request and accepts no tasks")

// Apply applies the desired state of the executor. A drain is not an end: the
// executor continues its tasks, and accepts new ones once the drain is lifted.
func (r *Registration) Apply(desired run.DesiredState) {
	r.mu.Lock()
	changed := r.drainRequested != desired.Drain
	r.drainRequested = desired.Drain
	if desired.Drain {
		r.config.Slots.setOpen(false)
	}
	r.mu.Unlock()
	r.config.Slots.demand(desired)
	switch {
	case !changed:
	case desired.Drain:
		r.config.Log.Info("executor drains on request")
	default:
		r.config.Log.Info("drain of the executor lifted")
		r.Suspend(errCheckDue) // it accepts tasks once it is healthy
	}
}

// Close makes the executor accept no tasks any more, for the reason why. The
// registration continues.
func (r *Registration) Close(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shutdown = why
	r.config.Slots.setOpen(false)
}

// Closed reports whether Close was called.
func (r *Registration) Closed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.shutdown != nil
}

// NotAccepting returns why the executor accepts no tasks, permanently or until a drain
// is lifted. It returns nil if the executor accepts tasks, or only waits to be healthy.
func (r *Registration) NotAccepting() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.notAccepting()
}

func (r *Registration) notAccepting() error {
	switch {
	case r.shutdown != nil:
		return r.shutdown
	case r.drainRequested:
		return errDrainRequested
	}
	return nil
}
