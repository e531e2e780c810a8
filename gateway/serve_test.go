package gateway_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/gateway"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/runtest"
)

// Streams also work over HTTP/2, and a client detects a stream that is cut off.
func TestServer_Run_with_TLS(t *testing.T) {
	t.Parallel()
	certified := httptest.NewTLSServer(nil)
	certificates := certified.TLS.Certificates
	client := certified.Client()
	certified.Close()

	l := runtest.NewLog()
	g := running(t, gateway.Deps{Runs: logService(l, make(chan run.LogQuery, 1)), Auth: testTokens(t)}, gateway.Options{
		TLS: &tls.Config{Certificates: certificates, MinVersion: tls.VersionTLS12},
	})
	transport := client.Transport.(*http.Transport).Clone()
	transport.ForceAttemptHTTP2 = true
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url+logPath+"?follow=true", nil)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer secret-read")
	response, err := transport.RoundTrip(r)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, 2, response.ProtoMajor)
	l.Send(run.LogChunk{Data: []byte("one")})
	text := make([]byte, 3)
	_, err = io.ReadFull(response.Body, text)
	require.NoError(t, err)
	g.stop()
	_, err = io.ReadAll(response.Body)
	require.Error(t, err)
	require.NoError(t, <-g.done)
}

// syncBuffer is a buffer for concurrent writers.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func TestServer_logs_requests_without_secrets(t *testing.T) {
	t.Parallel()
	var out syncBuffer
	logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	executorAPI := &runtest.ExecutorAPI{ClaimFunc: func(context.Context, run.ClaimRequest) (run.Definition, error) {
		return run.Definition{Environment: map[string]string{"T": "hunter2"}}, nil
	}}
	base := serve(t, gateway.Deps{ExecutorAPI: executorAPI, Logger: logger, Auth: testTokens(t)}, gateway.Options{})
	claim := `{"executor": "e", "journal_id": "j", "key": {"run": "` + runID + `", "task": 0, "attempt": 1, "dispatch": 1}}`
	header := map[string]string{"Authorization": "Bearer secret-executor", "X-Request-Id": "request-7"}
	got := call{http.MethodPost, "/api/v1/executor/claim", claim, header}.do(t, base)
	require.Contains(t, got.body, "hunter2", "the claim is the only call that returns secrets")
	require.Equal(t, "no-store", got.header.Get("Cache-Control"))
	header["Authorization"] = "Bearer secret-wrong"
	call{http.MethodPost, "/api/v1/executor/claim", claim, header}.do(t, base).problem(t, http.StatusUnauthorized, run.CodeUnauthenticated)
	spec := strings.Replace(goodSpec, `"tasks"`, `"secrets": {"T": "hunter2"}, "colour": 1, "tasks"`, 1)
	header["Authorization"] = "Bearer secret-write"
	refused := call{http.MethodPost, "/api/v1/runs", spec, header}.do(t, base)
	refused.problem(t, http.StatusUnprocessableEntity, run.CodeInvalid)
	require.NotContains(t, refused.body, "hunter2")

	logged := out.String()
	for _, want := range []string{"request_id=request-7", "subject=executor", "status=200", "route=/api/v1/executor/claim", "code=unauthenticated"} {
		require.Contains(t, logged, want)
	}
	for _, secret := range []string{"hunter2", "secret-executor", "secret-wrong"} {
		require.NotContains(t, logged, secret)
	}
}

func TestServer_shutdown_is_not_logged_as_failure(t *testing.T) {
	t.Parallel()
	var out syncBuffer
	logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo}))
	l := runtest.NewLog()
	g := running(t, gateway.Deps{Runs: logService(l, make(chan run.LogQuery, 2)), Logger: logger}, gateway.Options{})
	open(t, g.url+logPath, nil)
	open(t, g.url+logPath, map[string]string{"Accept": "text/event-stream"})
	g.stop()
	require.NoError(t, <-g.done)
	require.Empty(t, out.String())
}
