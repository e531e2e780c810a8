package controlplane

import (
	"context"
	"sync"
	"time"
)

// watchdog cancels a transfer that makes no progress, and stores the read error of
// the content: another goroutine reads the body of a request.
type watchdog struct {
	cancel context.CancelCauseFunc
	timer  *time.Timer
	mu     sync.Mutex
	failed error
}

// newWatchdog returns a context that ends after a stall, and with its parent. The
// caller must call end.
func newWatchdog(parent context.Context) (context.Context, *watchdog) {
	ctx, cancel := context.WithCancelCause(parent)
	return ctx, &watchdog{cancel: cancel, timer: time.AfterFunc(stall, func() { cancel(errStall) })}
}

func (w *watchdog) reset() { w.timer.Reset(stall) }

func (w *watchdog) end() {
	w.timer.Stop()
	w.cancel(nil)
}

func (w *watchdog) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = err
}

func (w *watchdog) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}
