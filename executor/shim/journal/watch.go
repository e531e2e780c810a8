package journal

import (
	"cmp"
	"sync/atomic"
	"time"
)

// watch is one follower's view of a directory.
type watch struct {
	changed  chan struct{}
	closing  atomic.Bool
	fallback time.Duration // poll interval
}

func newWatch(fallback time.Duration) *watch {
	return &watch{changed: make(chan struct{}, 1), fallback: cmp.Or(fallback, pollFallback)}
}

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
