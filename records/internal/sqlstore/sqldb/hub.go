package sqldb

import (
	"sync"

	"github.com/drover-run/drover/run"
)

// Hub wakes the goroutines of this process that wait for a run to change.
// Signals are coalesced: a signal that was not received yet stands for all that
// follow. It is safe for concurrent use.
type Hub struct {
	watcherAdded chan struct{}
	outbox       chan struct{}
	garbage      chan struct{}
	packing      chan struct{}

	mu            sync.Mutex
	watchers      map[run.ID]map[*watcher]struct{} // "" holds the watchers of all runs
	count         int
	outboxWatched bool // a caller has requested the outbox channel
}

type watcher struct{ signal chan struct{} }

// NewHub returns a Hub without watchers.
func NewHub() *Hub {
	return &Hub{
		watcherAdded: make(chan struct{}, 1),
		outbox:       make(chan struct{}, 1),
		garbage:      make(chan struct{}, 1),
		packing:      make(chan struct{}, 1),
		watchers:     make(map[run.ID]map[*watcher]struct{}),
	}
}

// Watch returns a channel that is signalled after changes of the run, or of any
// run if id is "".
func (h *Hub) Watch(id run.ID) (signal <-chan struct{}, stop func()) {
	w := &watcher{signal: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watchers[id] == nil {
		h.watchers[id] = make(map[*watcher]struct{})
	}
	h.watchers[id][w] = struct{}{}
	h.count++
	notify(h.watcherAdded)
	return w.signal, sync.OnceFunc(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.watchers[id], w)
		h.count--
		if len(h.watchers[id]) == 0 {
			delete(h.watchers, id)
		}
	})
}

// OutboxWake returns the channel that SignalOutbox signals.
func (h *Hub) OutboxWake() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.outboxWatched {
		h.outboxWatched = true
		notify(h.watcherAdded)
	}
	return h.outbox
}

// HasWatchers reports whether the hub has watchers.
func (h *Hub) HasWatchers() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count > 0 || h.outboxWatched
}

// WatcherAdded is signalled when a watcher is added.
func (h *Hub) WatcherAdded() <-chan struct{} { return h.watcherAdded }

// Signal wakes the watchers of the runs, and those of all runs.
func (h *Hub) Signal(runs ...run.ID) {
	if len(runs) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.count == 0 {
		return
	}
	for _, id := range runs {
		wake(h.watchers[id])
	}
	wake(h.watchers[""])
}

// SignalAll wakes all watchers, after changes that are not known.
func (h *Hub) SignalAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, watchers := range h.watchers {
		wake(watchers)
	}
	notify(h.outbox)
}

// SignalGarbage wakes the reader of GarbageWake.
func (h *Hub) SignalGarbage() { notify(h.garbage) }

// GarbageWake returns the channel that SignalGarbage signals.
func (h *Hub) GarbageWake() <-chan struct{} { return h.garbage }

// SignalPacking wakes the reader of PackingWake.
func (h *Hub) SignalPacking() { notify(h.packing) }

// PackingWake returns the channel that SignalPacking signals.
func (h *Hub) PackingWake() <-chan struct{} { return h.packing }

// SignalOutbox wakes the reader of the outbox.
func (h *Hub) SignalOutbox() { notify(h.outbox) }

func wake(watchers map[*watcher]struct{}) {
	for w := range watchers {
		notify(w.signal)
	}
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
