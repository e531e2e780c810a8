package gateway_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/gateway"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/runtest"
)

// The gateway redirects only callers that accept a redirect to the object store,
// and does not log the URL.
func TestServer_redirects_archive_reads(t *testing.T) {
	t.Parallel()
	const address = "https://store.example.com/x?signature=hunter2"
	located := func(_ context.Context, r run.ArchiveRead) (string, error) {
		switch r.Ref.Ref {
		case "large":
			return address, nil
		case "small":
			return "", nil
		}
		return "", run.Errorf(run.CodeGone, "the reference expired")
	}
	executorAPI := &runtest.ExecutorAPI{
		LocateArchiveFunc: located,
		OpenArchiveFunc: func(_ context.Context, r run.ArchiveRead) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(r.Ref.Ref)), nil
		},
	}
	var log syncBuffer
	base := serve(t, gateway.Deps{
		Runs: &runtest.Service{}, ExecutorAPI: executorAPI, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}, gateway.Options{})
	open := func(ref, direct string) answer {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/api/v1/executor/archives?executor=x", nil)
		require.NoError(t, err)
		r.Header.Set("Drover-Archive", ref)
		r.Header.Set("Drover-Direct", direct)
		response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r) // does not follow redirects
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, errors.Join(err, response.Body.Close()))
		return answer{status: response.StatusCode, header: response.Header, body: string(body)}
	}
	for ref, direct := range map[string]string{"large": "false", "small": "true"} {
		got := open(ref, direct)
		require.Equal(t, http.StatusOK, got.status, ref)
		require.Equal(t, ref, got.body)
	}
	got := open("large", "true")
	require.Equal(t, http.StatusTemporaryRedirect, got.status)
	require.Equal(t, address, got.header.Get("Location"))
	require.Equal(t, "no-store", got.header.Get("Cache-Control"))
	require.Empty(t, got.body)
	require.Equal(t, http.StatusGone, open("other", "true").status)
	testenv.Await(t, func() (bool, string) { // a call is logged after the response
		return strings.Contains(log.String(), "status=307") && strings.Contains(log.String(), "status=410"), log.String()
	})
	require.NotContains(t, log.String(), "hunter2")
}
