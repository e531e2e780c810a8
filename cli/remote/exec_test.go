package remote_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

// TestExec_not_found tells what a gateway with sessions does not have from a gateway
// without sessions.
func TestExec_not_found(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		media, body string
		code        run.Code
		want        string
	}{
		"the run":  {"application/problem+json", `{"code": "not_found", "detail": "there is no run r1"}`, run.CodeNotFound, "there is no run r1"},
		"the task": {"application/problem+json", `{"code": "not_found", "detail": "run r1 has no task t"}`, run.CodeNotFound, "run r1 has no task t"},
		"the path": {"application/problem+json", `{"code": "not_found", "detail": "there is no such path"}`, run.CodeNotSupported, "of an earlier version"},
		"a proxy":  {"text/html", "<h1>404</h1>", run.CodeNotSupported, "does not pass WebSockets"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", tt.media)
				w.WriteHeader(http.StatusNotFound)
				_, _ = w.Write([]byte(tt.body))
			}))
			t.Cleanup(server.Close)
			_, err := client(t, server.URL, nil).Exec(t.Context(), "r1", "t")
			require.Equal(t, tt.code, run.CodeOf(err))
			require.ErrorContains(t, err, tt.want)
		})
	}
}
