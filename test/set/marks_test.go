package set

import (
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// marks counts how often the steps of each task began. Each step reports its
// start to the test over HTTP, so the count does not depend on Drover's own
// records.
type marks struct {
	mu    sync.Mutex
	count map[string]int // by the URL path /RUN/TASK
}

// listen listens on an address of this host that the steps must be able to
// reach. It returns the shell command with which a step reports its start.
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

// requireOnce checks that the given number of tasks began, each once.
func (m *marks) requireOnce(t *testing.T, tasks int) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for task, n := range m.count {
		require.Equal(t, 1, n, "starts of the steps of %s", task)
	}
	require.Len(t, m.count, tasks)
}
