package harness

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TCPProxy is a TCP proxy that a test can cut. A cut silently blocks both directions,
// also of open connections. After a restore the blocked data is forwarded, as
// after lost packets.
type TCPProxy struct {
	Address  string
	target   string
	listener net.Listener
	end      context.CancelFunc
	all      sync.WaitGroup

	mu   sync.Mutex
	open chan struct{} // closed while data is forwarded
}

// NewTCPProxy starts a proxy to an address, on a loopback address of its own.
func NewTCPProxy(t testing.TB, target string) *TCPProxy {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, end := context.WithCancel(context.Background())
	whole := make(chan struct{})
	close(whole)
	w := &TCPProxy{Address: listener.Addr().String(), target: target, listener: listener, end: end, open: whole}
	w.all.Go(func() { w.accept(ctx) })
	t.Cleanup(func() {
		end()
		_ = listener.Close()
		w.all.Wait()
	})
	return w
}

// Cut blocks all connections.
func (w *TCPProxy) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.open:
		w.open = make(chan struct{})
	default:
	}
}

// Restore forwards data again.
func (w *TCPProxy) Restore() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.open:
	default:
		close(w.open)
	}
}

// awaitOpen waits until the proxy forwards data. It returns false if the test has
// ended.
func (w *TCPProxy) awaitOpen(ctx context.Context) bool {
	w.mu.Lock()
	open := w.open
	w.mu.Unlock()
	select {
	case <-open:
		return true
	case <-ctx.Done():
		return false
	}
}

func (w *TCPProxy) accept(ctx context.Context) {
	for {
		near, err := w.listener.Accept()
		if err != nil {
			return
		}
		w.all.Go(func() { w.connect(ctx, near) })
	}
}

// connect forwards data between a client connection and a new connection to the
// target, until either ends.
func (w *TCPProxy) connect(ctx context.Context, near net.Conn) {
	defer func() { _ = near.Close() }()
	if !w.awaitOpen(ctx) {
		return
	}
	far, err := (&net.Dialer{}).DialContext(ctx, "tcp", w.target)
	if err != nil {
		return
	}
	defer func() { _ = far.Close() }()
	stop := context.AfterFunc(ctx, func() { _, _ = near.Close(), far.Close() })
	defer stop()
	var both sync.WaitGroup
	both.Go(func() { w.copy(ctx, far, near) })
	both.Go(func() { w.copy(ctx, near, far) })
	both.Wait()
}

func (w *TCPProxy) copy(ctx context.Context, to, from net.Conn) {
	defer func() { _, _ = to.Close(), from.Close() }()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if !w.awaitOpen(ctx) {
			return
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
