package process

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/config"
	"github.com/drover-run/drover/internal/freeport"
)

// TestProcess_AddTelemetry checks that the address is taken at once, and that /readyz
// refuses until the process says by what it is ready.
func TestProcess_AddTelemetry(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	p, err := New(ctx, config.Default(), io.Discard)
	require.NoError(t, err)
	require.NoError(t, p.AddTelemetry(ctx, config.Telemetry{}), "no address, no telemetry")
	port, err := freeport.On(ctx, "127.0.0.1")
	require.NoError(t, err)
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	require.NoError(t, p.AddTelemetry(ctx, config.Telemetry{Listen: address}))
	require.ErrorContains(t, p.AddTelemetry(ctx, config.Telemetry{Listen: address}), "listen at telemetry.listen: ")

	url := "http://" + address
	require.ErrorContains(t, checkReady(ctx, url+"/readyz"), "the process is starting")
	response, err := http.Get(url + "/healthz")
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
	p.ReadyIf(func(context.Context) error { return errors.New("the records do not answer") })
	require.ErrorContains(t, checkReady(ctx, url+"/readyz"), "the records do not answer")
	p.ReadyIf(func(context.Context) error { return nil })
	require.NoError(t, checkReady(ctx, url+"/readyz"))
	stop()
	require.NoError(t, p.Finish(ctx, nil))
}
