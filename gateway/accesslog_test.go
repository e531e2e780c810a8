package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/gateway"
	"github.com/drover-run/drover/gateway/access"
	"github.com/drover-run/drover/internal/logging"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/runtest"
)

// TestServer_access_log checks which requests have a line at info, and what the
// lines contain.
func TestServer_access_log(t *testing.T) {
	t.Parallel()
	service := func() *runtest.Service {
		return &runtest.Service{
			GetFunc:    func(_ context.Context, id run.ID, _ ...string) (run.Run, error) { return run.Run{ID: id}, nil },
			CreateFunc: func(context.Context, run.CreateRequest) (run.Run, error) { return run.Run{ID: runID}, nil },
			StopFunc: func(context.Context, run.ID, run.StopOptions, run.Token) (run.Run, error) {
				return run.Run{}, errors.New("cause")
			},
		}
	}
	read := map[string]string{"Authorization": "Bearer secret-read", "X-Request-Id": "mine-1"}
	write := map[string]string{"Authorization": "Bearer secret-write"}
	calls := map[string]call{
		"get":       {path: "/api/v1/runs/" + runID + "?fields=hunter2", header: read},
		"create":    {http.MethodPost, "/api/v1/runs", goodSpec, write},
		"stop":      {http.MethodPost, "/api/v1/runs/" + runID + "/stop", `{}`, write},
		"unknown":   {path: "/api/v1/runs/" + runID, header: map[string]string{"Authorization": "Bearer secret-hunter2"}},
		"forbidden": {http.MethodPost, "/api/v1/runs", goodSpec, read},
		"health":    {path: "/healthz"},
		"metrics":   {path: "/metrics", header: map[string]string{"Authorization": "Bearer secret-read", "Accept-Encoding": "identity"}},
		"claim":     {http.MethodPost, "/api/v1/executor/claim", `{}`, map[string]string{"Authorization": "Bearer secret-executor"}},
		"log":       {path: logPath, header: read},
		"events":    {path: "/api/v1/events", header: read},
		"no route":  {path: "/hunter2", header: read},
	}
	for detail, quiet := range map[string][]string{
		"":             {"health", "metrics", "claim", "log", "events"},
		access.All:     nil,
		access.Calls:   {"health", "metrics", "claim", "log", "events"},
		access.Refused: {"get", "create", "stop", "health", "metrics", "claim", "log", "events", "no route"},
	} {
		t.Run(detail, func(t *testing.T) {
			t.Parallel()
			for name, c := range calls {
				var out syncBuffer
				base := serve(t, gateway.Deps{
					Runs: service(), Auth: testTokens(t), Logger: logging.New(&out, logging.FormatJSON, slog.LevelInfo),
				}, gateway.Options{AccessLog: detail})
				got := c.do(t, base)
				line := accessLine(t, out.String())
				if slices.Contains(quiet, name) {
					require.Nil(t, line, name)
					continue
				}
				require.NotNil(t, line, name)
				require.NotContains(t, out.String(), "hunter2", name)
				require.Equal(t, got.header.Get("X-Request-Id"), line["request_id"])
				require.EqualValues(t, got.status, line["status"])
				require.EqualValues(t, len(got.body), line["bytes"], name)
				require.Regexp(t, `^[0-9.]+(µs|ms|s)$`, line["duration"])
				require.Equal(t, "127.0.0.1", line["remote"])
				for key, want := range map[string]map[string]any{
					"get":       {"request_id": "mine-1", "route": "/api/v1/runs/:id", "method": "GET", "subject": "read", "run_id": runID},
					"create":    {"route": "/api/v1/runs", "method": "POST", "subject": "write", "run_id": runID},
					"stop":      {"run_id": runID, "code": "internal", "reason": nil},
					"unknown":   {"subject": nil, "code": "unauthenticated", "reason": "the bearer token is not known"},
					"forbidden": {"subject": "read", "code": "forbidden", "reason": "token read does not have the scope write"},
					"no route":  {"route": "none", "run_id": nil},
				}[name] {
					require.Equal(t, want, line[key], "%s of %s", key, name)
				}
				if got.status >= 400 {
					var p struct {
						RequestID string `json:"request_id"`
					}
					require.NoError(t, json.Unmarshal([]byte(got.body), &p), name)
					require.Equal(t, line["request_id"], p.RequestID)
				}
			}
		})
	}
}

// accessLine returns the line of the only request in a log, or nil.
func accessLine(t *testing.T, log string) map[string]any {
	t.Helper()
	var found map[string]any
	for text := range strings.Lines(log) {
		line := map[string]any{}
		require.NoError(t, json.Unmarshal([]byte(text), &line), text)
		if line["msg"] == "request" {
			require.Nil(t, found, "one line for a request")
			found = line
		}
	}
	return found
}

// BenchmarkServer_access_log measures a request whose line is written, and one whose
// line is not.
func BenchmarkServer_access_log(b *testing.B) {
	for _, detail := range []string{access.Refused, access.Calls} {
		b.Run(detail, func(b *testing.B) {
			g, err := gateway.New(gateway.Deps{
				Runs:   &runtest.Service{GetFunc: func(_ context.Context, id run.ID, _ ...string) (run.Run, error) { return run.Run{ID: id}, nil }},
				Logger: logging.New(new(countingWriter), "text", slog.LevelInfo),
			}, gateway.Options{AccessLog: detail})
			require.NoError(b, err)
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "http://127.0.0.1/api/v1/runs/"+runID, nil)
				w := httptest.NewRecorder()
				g.Handler().ServeHTTP(w, r)
				if w.Code != http.StatusOK {
					b.Fatal(w.Body)
				}
			}
		})
	}
}

// countingWriter counts bytes. It is not io.Discard, which slog recognizes.
type countingWriter struct{ n int }

func (w *countingWriter) Write(p []byte) (int, error) {
	w.n += len(p)
	return len(p), nil
}
