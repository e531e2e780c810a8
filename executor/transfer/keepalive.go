package transfer

import (
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drover-run/drover/run"
)

// errSilent is the error of a connection that was silent for too long.
var errSilent = run.Errorf(run.CodeUnavailable, "no message from the task for %s", maxSilence)

// sendKeepalives sends keepalives periodically until the returned function is called. No
// keepalive is being written once that returns.
func (w *wire) sendKeepalives() (stop func()) {
	done := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		ticker := time.NewTicker(keepaliveInterval)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				if !w.mu.TryLock() {
					continue // the message that is being written proves life too
				}
				err := w.put(kindKeepalive, nil)
				w.mu.Unlock()
				if err != nil {
					return // the readers and writers of the connection fail as well
				}
			}
		}
	})
	return func() {
		close(done)
		group.Wait()
	}
}

// deadlineConn closes a connection when a read has waited for maxSilence. The time
// between reads does not count. One goroutine may read.
type deadlineConn struct {
	io.ReadWriteCloser
	silent atomic.Bool
}

// Read implements io.Reader.
func (m *deadlineConn) Read(b []byte) (int, error) {
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
