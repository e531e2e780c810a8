package test

import (
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// marks counts how often the steps of each task began. They say so themselves,
// by a call from wherever they run, so that a second time is seen whatever
// Drover knows of it.
type marks struct {
	mu    sync.Mutex
	count map[string]int // by run and task
}

// listen listens at an address of this host, which must be one that the steps
// reach, and returns the command by which a step marks its task.
func (m *marks) listen(t *testing.T, host string) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(host, "0"))
	require.NoError(t, err)
	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			m.mu.Lock()
			defer m.mu.Unlock()
			if m.count == nil {
				m.count = map[string]int{}
			}
			m.count[r.URL.Path]++
		}),
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return fmt.Sprintf("wget -q -O /dev/null http://%s/$DROVER_RUN_ID/$DROVER_TASK_NAME", listener.Addr())
}

// requireOnce checks that so many tasks began, and none of them twice.
func (m *marks) requireOnce(t *testing.T, tasks int) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for task, n := range m.count {
		require.Equal(t, 1, n, "the steps of %s began so often", task)
	}
	require.Len(t, m.count, tasks)
}
