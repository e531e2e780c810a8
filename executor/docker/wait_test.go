package docker

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"
)

// TestWait_unread starts a wait whose answer is not received: no goroutine stays, as the end
// of all tests checks.
func TestWait_unread(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 2)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"StatusCode": 3}`)
		asked <- struct{}{}
	}))
	t.Cleanup(server.Close)
	cli, err := client.NewClientWithOpts(client.WithHost("tcp://" + server.Listener.Addr().String()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cli.Close()) })
	wait(t.Context(), cli, "container", container.WaitConditionNotRunning)
	<-asked
	require.Equal(t, containerEnd{code: 3}, <-wait(t.Context(), cli, "container", container.WaitConditionNotRunning))
}
