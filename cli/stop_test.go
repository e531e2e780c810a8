package cli_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/cli"
	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/session"
)

// TestStop_force checks what the gateway is asked for: a first stop lets the tasks
// clean up, and a second one, or --force, does not.
func TestStop_force(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		known string // the run before the stop
		args  []string
		want  string
	}{
		"first":               {`"phase": "running"`, nil, `{}`},
		"second":              {`"phase": "running", "stop_requested": true`, nil, `{"force":true}`},
		"forced":              {`"phase": "running"`, []string{"--force"}, `{"force":true}`},
		"forced and second":   {`"phase": "running", "stop_requested": true`, []string{"--force"}, `{"force":true}`},
		"of a run that ended": {`"phase": "finished", "stop_requested": true`, nil, `{"cancel_queued":true}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := "no request"
			var out strings.Builder
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					text, err := io.ReadAll(r.Body)
					if err != nil || !strings.HasSuffix(r.URL.Path, "/runs/r1/stop") {
						t.Errorf("%s: %v", r.URL.Path, err)
					}
					body = string(text)
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{"id": "r1", "result": "unknown", `+x.known+`}`)
			}))
			defer server.Close()
			root := cli.New(session.Env{Stdout: &out, LookupEnv: func(name string) (string, bool) { return server.URL, name == "DROVER_SERVER" }})
			require.Equal(t, command.ExitOK, command.Execute(t.Context(), root, append([]string{"runs", "stop", "r1"}, x.args...)))
			if body = strings.TrimSpace(body); body == "" {
				body = "{}"
			}
			require.JSONEq(t, x.want, body)
			if strings.Contains(x.known, "running") {
				require.Equal(t, strings.Contains(x.want, "force"), strings.Contains(out.String(), "its tasks are killed"), out.String())
			}
		})
	}
}

// TestStop_queued stops a run that may be queued, by one call: it is cancelled, or stopped
// if it starts at the same time.
func TestStop_queued(t *testing.T) {
	t.Parallel()
	for phase, stdout := range map[string]string{"cancelled": "run r1 cancelled\n", "running": "run r1 stopping\n"} {
		t.Run(phase, func(t *testing.T) {
			t.Parallel()
			var calls []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				now := "queued"
				if r.Method == http.MethodPost {
					body, err := io.ReadAll(r.Body)
					if err != nil {
						t.Errorf("read the body: %v", err)
					}
					calls = append(calls, r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]+" "+strings.TrimSpace(string(body)))
					now = phase
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{"id": "r1", "result": "unknown", "phase": "`+now+`"}`)
			}))
			defer server.Close()
			code, out, stderr := execute(t, server.URL, nil, "runs", "stop", "r1")
			require.Equal(t, command.ExitOK, code, stderr)
			require.Equal(t, []string{`stop {"cancel_queued":true}`}, calls)
			require.Equal(t, stdout, out)
		})
	}
}

// TestStop_ends_meanwhile stops a run that ends between two calls of the command: that is a
// success if another caller has stopped or cancelled it.
func TestStop_ends_meanwhile(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		before, after string // the run
		code          command.ExitCode
		stdout        string
	}{
		"cancelled":               {`"phase": "queued"`, `"phase": "cancelled"`, command.ExitOK, "run r1 cancelled\n"},
		"started and stopped":     {`"phase": "queued"`, `"phase": "finished", "stop_requested": true`, command.ExitOK, "run r1 finished\n"},
		"stopped":                 {`"phase": "running", "stop_requested": true`, `"phase": "finished", "stop_requested": true`, command.ExitOK, "run r1 finished\n"},
		"finished in another way": {`"phase": "running"`, `"phase": "finished"`, command.ExitOther, ""},
		"cancelled before it all": {`"phase": "cancelled"`, `"phase": "cancelled"`, command.ExitOther, ""},
		"stopped before it all":   {`"phase": "finished", "stop_requested": true`, `"phase": "finished", "stop_requested": true`, command.ExitOther, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			known := x.before
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					known = x.after
					w.Header().Set("Content-Type", "application/problem+json")
					w.WriteHeader(http.StatusConflict)
					_, _ = io.WriteString(w, `{"code": "wrong_phase", "detail": "run r1 has ended"}`)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{"id": "r1", "result": "unknown", `+known+`}`)
			}))
			defer server.Close()
			code, stdout, stderr := execute(t, server.URL, nil, "runs", "stop", "r1")
			require.Equal(t, x.code, code, stderr)
			require.Equal(t, x.stdout, stdout)
		})
	}
}
