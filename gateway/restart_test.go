package gateway_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/gateway"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/runtest"
)

func TestServer_RestartRun(t *testing.T) {
	t.Parallel()
	const other run.ID = "01jd0000000000000000000001"
	received := make(chan run.RestartRequest, 1)
	service := &runtest.Service{RestartFunc: func(_ context.Context, req run.RestartRequest) (run.Run, error) {
		received <- req
		r := fullRun()
		r.ID, r.RestartedFrom = other, req.Run
		return r, nil
	}}
	base := serve(t, gateway.Deps{Runs: service, Auth: testTokens(t)}, gateway.Options{})
	for body, want := range map[string]run.RestartRequest{
		"from: start":           {From: run.RestartStart},
		"from: failed":          {From: run.RestartFailed},
		"tasks: [a, 'b[OS=x]']": {Tasks: []string{"a", "b[OS=x]"}},
		"{}":                    {}, // the service chooses between from and tasks
		"{from: start, environment: {COMMIT: 4f2a}, secrets: {T: hunter2}}": {
			From: run.RestartStart, Environment: map[string]string{"COMMIT": "4f2a"}, Secrets: map[string]run.Secret{"T": "hunter2"},
		},
	} {
		header := map[string]string{"Content-Type": "application/yaml", "Authorization": "Bearer secret-write"}
		got := call{http.MethodPost, "/api/v1/runs/" + runID + "/restart", body, header}.do(t, base)
		require.Equal(t, http.StatusCreated, got.status, got.body)
		require.Equal(t, "/api/v1/runs/"+string(other), got.header.Get("Location"))
		require.NotEmpty(t, got.header.Get("ETag"))
		require.Empty(t, got.header.Values("Idempotent-Replayed"))
		require.NotContains(t, got.body, "hunter2")
		conforms(t, "Run", got.body)
		want.Run, want.Subject = runID, "write"
		require.Empty(t, cmp.Diff(want, <-received))
	}
}

// The faults of a restart contain nothing of its secrets.
func TestServer_RestartRun_keeps_secrets(t *testing.T) {
	t.Parallel()
	service := &runtest.Service{RestartFunc: func(_ context.Context, req run.RestartRequest) (run.Run, error) {
		return run.Run{}, run.Errorf(run.CodeInternal, "%v %+v %#v", req, req, req)
	}}
	base := serve(t, gateway.Deps{Runs: service}, gateway.Options{})
	restart := func(body string) answer {
		return call{http.MethodPost, "/api/v1/runs/" + runID + "/restart", body, nil}.do(t, base)
	}
	require.NotContains(t, restart(`{"from": "start", "secrets": {"T": "hunter2"}}`).body, "hunter2")
	require.NotContains(t, restart(`{"from": "start", "secrets": "hunter2"}`).body, "hunter2")
	require.NotContains(t, restart(`{"from": "start", "secrets": {"T": ["hunter2"]}}`).body, "hunter2")
	require.NotContains(t, restart(`{"secrets": {"T": "hunter2`).body, "hunter2")
}

func TestServer_idempotency_keys(t *testing.T) {
	t.Parallel()
	keys := make(chan string, 1)
	replayed := false
	answered := func(key string) (run.Run, error) {
		keys <- key
		if key == "other" {
			return run.Run{}, run.Errorf(run.CodeIdempotencyMismatch, "the key was used with another request")
		}
		return run.Run{ID: runID, Replayed: replayed}, nil
	}
	service := &runtest.Service{
		CreateFunc:  func(_ context.Context, req run.CreateRequest) (run.Run, error) { return answered(req.IdempotencyKey) },
		RestartFunc: func(_ context.Context, req run.RestartRequest) (run.Run, error) { return answered(req.IdempotencyKey) },
	}
	base := serve(t, gateway.Deps{Runs: service}, gateway.Options{})
	for path, body := range map[string]string{"/api/v1/runs": goodSpec, "/api/v1/runs/" + runID + "/restart": `{"from": "start"}`} {
		post := func(key string) answer {
			return call{http.MethodPost, path, body, map[string]string{"Idempotency-Key": key}}.do(t, base)
		}
		replayed = false
		for _, key := range []string{"", "8e03978e-40d5-43dd-bc93-6894a57f9324", `a, "b" %2F;c=d`, "~"} {
			got := post(key)
			require.Equal(t, http.StatusCreated, got.status, got.body)
			require.Equal(t, key, <-keys)
			require.Empty(t, got.header.Values("Idempotent-Replayed"))
		}
		replayed = true
		got := post("again")
		require.Equal(t, http.StatusCreated, got.status)
		require.Equal(t, "true", got.header.Get("Idempotent-Replayed"))
		require.Equal(t, "/api/v1/runs/"+runID, got.header.Get("Location"))
		<-keys
		post("other").problem(t, http.StatusUnprocessableEntity, run.CodeIdempotencyMismatch)
		<-keys
	}
}
