package journal

import "sync/atomic"

// watch is one follower's view of a directory.
type watch struct {
	changed chan struct{}
	closing atomic.Bool
}

func newWatch() *watch { return &watch{changed: make(chan struct{}, 1)} }

// notify wakes the follower; closing means that the shim may be about to end.
func (w *watch) notify(closing bool) {
	if closing {
		w.closing.Store(true)
	}
	select {
	case w.changed <- struct{}{}:
	default:
	}
}
