package gateway_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/gateway"
	"github.com/drover-run/drover/run/runtest"
)

func TestServer_GetLinks(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"": `{}`,
		"https://temporal.example/namespaces/drover/workflows/run:{run}": `{"temporal_run": "https://temporal.example/namespaces/drover/workflows/run:{run}"}`,
	} {
		base := serve(t, gateway.Deps{Runs: &runtest.Service{}}, gateway.Options{TemporalRun: url})
		got := call{path: "/api/v1/links"}.do(t, base)
		require.Equal(t, http.StatusOK, got.status)
		require.JSONEq(t, want, got.body)
	}
}
