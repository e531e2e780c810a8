package controlplane_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/executor/controlplane"
	"github.com/drover-run/drover/gateway"
	"github.com/drover-run/drover/internal/tokens"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/runtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const runID = "01jd0000000000000000000000"

// overHTTP returns a client of a real gateway with d as its executor API.
func overHTTP(t *testing.T, d *runtest.ExecutorAPI, token string) *controlplane.Client {
	t.Helper()
	return overHTTPWith(t, d, token, controlplane.Options{})
}

func overHTTPWith(t *testing.T, d *runtest.ExecutorAPI, token string, opts controlplane.Options) *controlplane.Client {
	t.Helper()
	var list []tokens.Token
	for _, s := range []tokens.Scope{tokens.Executor, tokens.Write} {
		list = append(list, tokens.Token{Name: string(s), Hash: tokens.Hash(string(s)), Scopes: []tokens.Scope{s}})
	}
	known, err := tokens.NewList(list)
	require.NoError(t, err)
	g, err := gateway.New(gateway.Deps{
		Runs: &runtest.Service{}, ExecutorAPI: d, Auth: known, Logger: slog.New(slog.DiscardHandler),
	}, gateway.Options{})
	require.NoError(t, err)
	return client(t, g.Handler(), token, opts)
}

func client(t *testing.T, handler http.Handler, token string, opts controlplane.Options) *controlplane.Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	c, err := controlplane.New(server.URL, fixed(token), opts)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func fullDefinition() run.Definition {
	return run.Definition{
		Key: run.Key{Run: runID, Task: 3, Attempt: 2, Dispatch: 1}, RunName: "n", RunGroup: "/a/b", RunCounter: 9, Task: "a[GO=1]",
		Image: "golang:1.26", PullPolicy: run.PullAlways, Platform: "linux/amd64",
		Auth:       map[string]run.Auth{"ghcr.io": {Username: "u", Password: "hunter2"}},
		Services:   []run.ServiceSpec{{Name: "db", Image: "postgres", Environment: map[string]string{"A": "B"}, Command: []string{"x"}}},
		WorkingDir: "/src", Shell: []string{"/bin/sh"}, User: "1", Privileged: true,
		Resources: run.Resources{CPU: "2", Memory: "4Gi", PIDs: 5}, Volumes: []run.Volume{{Path: "/x", Tmpfs: &run.Tmpfs{Size: "1Mi"}}},
		Environment: map[string]string{"TOKEN": "hunter2"}, Secrets: []string{"hunter2"},
		Steps: []run.StepDef{{
			Name: "s", Script: strings.Repeat("echo <é>\n", 1000), Environment: map[string]string{"C": "D"}, WorkingDir: "/y",
			Timeout: time.Minute, When: run.WhenAlways,
		}},
		Timeout: time.Hour, Grace: 10 * time.Second,
		Kubernetes: &run.KubernetesPool{NodeSelector: map[string]string{"disk": "ssd"}, PodTemplate: json.RawMessage(`{"spec":{}}`)},
	}
}

func fullBatch() run.FrameBatch {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	code := 3
	steps := []run.StepResult{{Status: run.StatusFailed, ExitCode: &code, TimedOut: true, Started: at, Ended: at}}
	return run.FrameBatch{
		Key: run.Key{Run: runID, Task: 3, Attempt: 2, Dispatch: 1}, Executor: "e",
		Frames: []run.Frame{
			{Version: 1, N: 1, Time: at, Kind: run.FrameOutput, Step: run.SetupStep, Stream: run.StreamSystem, Data: []byte("\xff\x00\n")},
			{Version: 1, N: 2, Time: at, Kind: run.FrameStepStart},
			{Version: 1, N: 3, Time: at, Kind: run.FrameStepEnd, Status: run.StatusFailed, ExitCode: &code, TimedOut: true},
			{Version: 1, N: 4, Time: at, Kind: run.FrameOutputs, Outputs: map[string]string{"a": "b"}},
			{Version: 1, N: 5, Time: at, Kind: run.FrameTaskEnd, Result: &run.TaskResult{
				Status: run.StatusFailed, Cause: run.CauseStep, Reason: "x", ExitCode: &code, TimedOut: true, Started: at, Ended: at, Steps: steps,
			}},
		},
	}
}

// The client transfers all fields of requests and responses.
func TestClient_round_trip(t *testing.T) {
	t.Parallel()
	var got []any
	keys := []run.Key{{Run: runID, Task: 0, Attempt: 1, Dispatch: 1}, {Run: runID, Task: 1, Attempt: 1, Dispatch: 1}}
	d := &runtest.ExecutorAPI{
		RegisterFunc: func(_ context.Context, e run.Executor) (run.DesiredState, error) {
			got = append(got, e)
			return run.DesiredState{Drain: true}, nil
		},
		RenewFunc: func(_ context.Context, r run.Renewal) (run.DesiredState, error) {
			got = append(got, r)
			return run.DesiredState{}, nil
		},
		ClaimFunc: func(_ context.Context, c run.ClaimRequest) (run.Definition, error) {
			got = append(got, c)
			return fullDefinition(), nil
		},
		AppendFramesFunc: func(_ context.Context, b run.FrameBatch) error { got = append(got, b); return nil },
		ClaimStatesFunc: func(_ context.Context, executor string, requested []run.Key) (map[run.Key]run.ClaimState, error) {
			got = append(got, executor, requested)
			return map[run.Key]run.ClaimState{keys[0]: run.ClaimOpen}, nil
		},
	}
	c := overHTTP(t, d, "executor")
	executor := run.Executor{
		ID: "e", Pool: "p", Driver: "docker", OS: "linux", Arch: "amd64", Labels: map[string]string{"a": "b"}, Privileged: true,
		Slots: 4, SlotsUsed: 1, Version: "v1", JournalID: "j", Set: "s", Temporary: true, RemoveAfter: time.Minute, State: run.ExecutorDraining,
	}
	renewal := run.Renewal{Executor: "e", Set: "s", JournalID: "j", SlotsUsed: 2, Draining: true, Drained: true}
	claim := run.ClaimRequest{Key: keys[0], Executor: "e", Set: "s", JournalID: "j", SpecVersion: run.NewestSpecVersion}
	desired, err := c.Register(t.Context(), executor)
	require.NoError(t, err)
	require.True(t, desired.Drain)
	desired, err = c.Renew(t.Context(), renewal)
	require.NoError(t, err)
	require.False(t, desired.Drain)
	definition, err := c.Claim(t.Context(), claim)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(fullDefinition(), definition))
	require.NoError(t, c.AppendFrames(t.Context(), fullBatch()))
	large := run.FrameBatch{Key: keys[0], Executor: "e"}
	for n := range 20 {
		large.Frames = append(large.Frames, run.Frame{Version: 1, N: int64(n + 1), Kind: run.FrameOutput, Data: make([]byte, run.MaxFrameData)})
	}
	require.NoError(t, c.AppendFrames(t.Context(), large))
	states, err := c.ClaimStates(t.Context(), "e", keys)
	require.NoError(t, err)
	require.Equal(t, map[run.Key]run.ClaimState{keys[0]: run.ClaimOpen, keys[1]: run.ClaimUnknown}, states)
	states, err = c.ClaimStates(t.Context(), "e", nil)
	require.NoError(t, err)
	require.Empty(t, states)
	want := []any{executor, renewal, claim, fullBatch(), large, "e", keys, "e", []run.Key{}}
	require.Equal(t, want, got)
}

// The URL of a gateway behind a proxy has a path.
func TestClient_base_path(t *testing.T) {
	t.Parallel()
	d := &runtest.ExecutorAPI{RegisterFunc: func(context.Context, run.Executor) (run.DesiredState, error) {
		return run.DesiredState{Drain: true}, nil
	}}
	g, err := gateway.New(gateway.Deps{Runs: &runtest.Service{}, ExecutorAPI: d, Logger: slog.New(slog.DiscardHandler)}, gateway.Options{BasePath: "/ci/drover"})
	require.NoError(t, err)
	proxy := http.NewServeMux() // of which only the base path belongs to the gateway
	proxy.Handle("/ci/drover/", g.Handler())
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	for _, address := range []string{server.URL + "/ci/drover", server.URL + "/ci/drover/"} {
		c, err := controlplane.New(address, fixed(""), controlplane.Options{})
		require.NoError(t, err)
		t.Cleanup(c.Close)
		desired, err := c.Register(t.Context(), run.Executor{ID: "e", Pool: "p", Driver: "shell", OS: "linux", Arch: "amd64", JournalID: "j", Slots: 1, Version: "v1"})
		require.NoError(t, err)
		require.True(t, desired.Drain)
		_, err = c.JoinSession(t.Context(), "e", "session", "token")
		require.Equal(t, run.CodeNotSupported, run.CodeOf(err), "the gateway answers: %v", err)
	}
}

// The API document describes manually what package run marshals.
func TestContract_of_the_executor_API(t *testing.T) {
	t.Parallel()
	doc, err := openapi3.NewLoader().LoadFromData(api.Document())
	require.NoError(t, err)
	for schema, value := range map[string]any{"Definition": fullDefinition(), "FrameBatch": fullBatch()} {
		data, err := json.Marshal(value)
		require.NoError(t, err)
		var v any
		require.NoError(t, json.Unmarshal(data, &v))
		s := doc.Components.Schemas[schema].Value
		require.NoError(t, s.VisitJSON(v))
		for key := range v.(map[string]any) {
			require.Contains(t, s.Properties, key, schema)
		}
	}
}

func register(t *testing.T, c *controlplane.Client, e run.Executor) error {
	t.Helper()
	_, err := c.Register(t.Context(), e)
	return err
}

func renew(ctx context.Context, c *controlplane.Client, r run.Renewal) error {
	_, err := c.Renew(ctx, r)
	return err
}

func TestClient_errors(t *testing.T) {
	t.Parallel()
	for _, code := range []run.Code{
		run.CodeConflict, run.CodeNotFound, run.CodeForbidden, run.CodeInvalid, run.CodeUnavailable, run.CodeExhausted, run.CodeInternal,
	} {
		t.Run(string(code), func(t *testing.T) {
			t.Parallel()
			d := &runtest.ExecutorAPI{
				RegisterFunc: func(context.Context, run.Executor) (run.DesiredState, error) {
					return run.DesiredState{}, run.Errorf(code, "because")
				},
				RenewFunc: func(context.Context, run.Renewal) (run.DesiredState, error) {
					return run.DesiredState{}, fmt.Errorf("deep: %w", run.Errorf(code, "because"))
				},
			}
			c := overHTTP(t, d, "executor")
			for _, err := range []error{
				register(t, c, run.Executor{ID: "e", Pool: "p", Driver: "d", JournalID: "j", Slots: 1}),
				renew(t.Context(), c, run.Renewal{Executor: "e", JournalID: "j"}),
			} {
				require.Equal(t, code, run.CodeOf(err), err)
				if code != run.CodeInternal {
					require.ErrorContains(t, err, "because")
				}
			}
		})
	}
}

func TestClient_incomplete(t *testing.T) {
	t.Parallel()
	c := overHTTP(t, &runtest.ExecutorAPI{}, "executor")
	err := register(t, c, run.Executor{ID: "e"})
	require.Equal(t, run.CodeInvalid, run.CodeOf(err))
	var coded *run.Error
	require.ErrorAs(t, err, &coded)
	require.Len(t, coded.Faults, 3)
	err = register(t, c, run.Executor{ID: "e", Pool: "p", Driver: "d", JournalID: "j"})
	require.ErrorContains(t, err, "slot")
	err = c.AppendFrames(t.Context(), run.FrameBatch{Key: run.Key{Run: runID}, Executor: "e"})
	require.ErrorContains(t, err, "frame")
}

// An executor must not take a token without the scope, or a proxy's refusal, for
// its own removal.
func TestClient_refused_is_not_removed(t *testing.T) {
	t.Parallel()
	for _, token := range []string{"", "wrong", "write"} {
		err := renew(t.Context(), overHTTP(t, &runtest.ExecutorAPI{}, token), run.Renewal{Executor: "e", JournalID: "j"})
		require.Equal(t, run.CodeUnauthenticated, run.CodeOf(err), "token %q", token)
	}
}

func TestClient_foreign_answers(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]run.Code{
		http.StatusBadGateway: run.CodeUnavailable, http.StatusServiceUnavailable: run.CodeUnavailable,
		http.StatusTooManyRequests: run.CodeUnavailable, http.StatusForbidden: run.CodeUnauthenticated,
		http.StatusUnauthorized: run.CodeUnauthenticated, http.StatusNotFound: run.CodeInternal,
		http.StatusConflict: run.CodeInternal, http.StatusFound: run.CodeInternal,
	} {
		for _, media := range []string{"text/html", "application/problem+json"} {
			handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", media)
				w.Header().Set("Location", "http://127.0.0.1:1/")
				w.WriteHeader(status)
			})
			err := renew(t.Context(), client(t, handler, "t", controlplane.Options{}), run.Renewal{})
			require.Equal(t, want, run.CodeOf(err), "status %d: %v", status, err)
		}
	}
}

func TestClient_no_answer(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	silent := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	c := client(t, silent, "t", controlplane.Options{Timeout: 20 * time.Millisecond})
	defer close(release)
	require.Equal(t, run.CodeUnavailable, run.CodeOf(renew(t.Context(), c, run.Renewal{})))

	patient := client(t, silent, "t", controlplane.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, renew(ctx, patient, run.Renewal{}), context.DeadlineExceeded, "the caller's own timeout")

	gone, err := controlplane.New("http://127.0.0.1:1", fixed("secret-token"), controlplane.Options{})
	require.NoError(t, err)
	err = renew(t.Context(), gone, run.Renewal{})
	require.Equal(t, run.CodeUnavailable, run.CodeOf(err))
	require.NotContains(t, err.Error(), "secret-token")
}

func TestClient_broken_answer(t *testing.T) {
	t.Parallel()
	cut := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = w.Write([]byte(`{"key": `))
	})
	_, err := client(t, cut, "t", controlplane.Options{}).Claim(t.Context(), run.ClaimRequest{})
	require.Equal(t, run.CodeUnavailable, run.CodeOf(err))
}

func TestNew_refuses(t *testing.T) {
	t.Parallel()
	for address, ok := range map[string]bool{
		"http://127.0.0.1:8080": true, "http://localhost:8080": true, "http://[::1]:1": true, "https://drover.example.com": true,
		"https://drover.example.com/prefix/": true, "http://drover.example.com": false, "http://10.0.0.1": false,
		"ftp://localhost": false, "localhost:8080": false, "": false, "http://": false, ":": false,
	} {
		_, err := controlplane.New(address, fixed("t"), controlplane.Options{})
		require.Equal(t, ok, err == nil, "%q: %v", address, err)
		if !ok {
			require.Equal(t, run.CodeInvalid, run.CodeOf(err))
		}
	}
	_, err := controlplane.New("http://drover.example.com", fixed("t"), controlplane.Options{AllowPlain: true})
	require.NoError(t, err)
}

func fixed(token string) func() string { return func() string { return token } }

// A token in the header replaces one that expires, and is sent from then on.
func TestClient_replaces_the_token(t *testing.T) {
	t.Parallel()
	shown := make(chan string, 2)
	token := "first"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown <- r.Header.Get("Authorization")
		w.Header().Set("Drover-Token", "second")
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(server.Close)
	c, err := controlplane.New(server.URL, func() string { return token }, controlplane.Options{OnToken: func(next string) { token = next }})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	require.NoError(t, renew(t.Context(), c, run.Renewal{}))
	require.NoError(t, renew(t.Context(), c, run.Renewal{}))
	require.Equal(t, "Bearer first", <-shown)
	require.Equal(t, "Bearer second", <-shown)
}
