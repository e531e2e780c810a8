package executor

import "github.com/drover-run/drover/run"

// Points returns all places at which a test can interfere.
func Points() []string {
	all := []point{
		pointDelivered, pointHeartbeat, pointClaimed, pointGranted, pointStarting, pointLaunch, pointLaunched,
		pointStarted, pointEnd, pointEnded, pointShipped, pointAccepted, pointAnswered, pointRemoved,
	}
	names := make([]string, len(all))
	for i, p := range all {
		names[i] = string(p)
	}
	return names
}

// SetHook makes the agent call f at every point.
func SetHook(o *Options, f func(point string, key run.Key)) {
	o.hook = func(p point, key run.Key) { f(string(p), key) }
}

// Seal makes the agent write nothing any more, as if its process was dead.
func (a *Agent) Seal() { a.journal.seal.Store(true) }

// Unlock gives the lock of the state dir back, as a dead process does.
func (a *Agent) Unlock() error { return a.who.close() }

// SlotsInUse returns how many tasks count.
func (a *Agent) SlotsInUse() int { return a.slots.inUse() }
