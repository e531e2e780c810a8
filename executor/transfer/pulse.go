package transfer

import (
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drover-run/drover/run"
)

// errSilent is the fault of a connection from which nothing comes.
var errSilent = run.Errorf(run.CodeUnavailable, "nothing was heard of the task for %s", maxSilence)

// pulse sends a pulse again and again, until the function that it returns is
// called; none is under way when that returns.
func (w *wire) pulse() (stop func()) {
	done := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		ticker := time.NewTicker(pulseEach)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				if !w.mu.TryLock() {
					continue // what is being written is a pulse as well
				}
				err := w.put(kindPulse, nil)
				w.mu.Unlock()
				if err != nil {
					return // whoever reads and writes finds out by himself
				}
			}
		}
	})
	return func() {
		close(done)
		group.Wait()
	}
}

// mortal closes a connection when a read waited in vain for too long. The time
// between reads does not count. One goroutine may read.
type mortal struct {
	io.ReadWriteCloser
	silent atomic.Bool
}

// Read implements io.Reader.
func (m *mortal) Read(b []byte) (int, error) {
	timer := time.AfterFunc(maxSilence, func() {
		m.silent.Store(true)
		_ = m.Close()
	})
	defer timer.Stop()
	n, err := m.ReadWriteCloser.Read(b)
	if err != nil && m.silent.Load() {
		err = errSilent
	}
	return n, err
}
