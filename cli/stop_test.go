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
		"of a run that ended": {`"phase": "finished", "stop_requested": true`, nil, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := "no request"
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
			root := cli.New(session.Env{LookupEnv: func(name string) (string, bool) { return server.URL, name == "DROVER_SERVER" }})
			require.Equal(t, command.ExitOK, command.Execute(t.Context(), root, append([]string{"runs", "stop", "r1"}, x.args...)))
			if body = strings.TrimSpace(body); body == "" {
				body = "{}"
			}
			require.JSONEq(t, x.want, body)
		})
	}
}
