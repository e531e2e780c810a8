package desk

import (
	"context"
	"sync"
	"time"
)

// watchdog ends a transfer that makes no progress, and keeps why it failed: the
// body of a request is read by another goroutine.
type watchdog struct {
	cancel context.CancelCauseFunc
	timer  *time.Timer
	mu     sync.Mutex
	failed error
}

// newWatchdog returns a context that ends when there was no progress for too
// long, and with its parent. end must be called.
func newWatchdog(parent context.Context) (context.Context, *watchdog) {
	ctx, cancel := context.WithCancelCause(parent)
	return ctx, &watchdog{cancel: cancel, timer: time.AfterFunc(stall, func() { cancel(errStall) })}
}

func (w *watchdog) pat() { w.timer.Reset(stall) }

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
