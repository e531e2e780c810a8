package gateway_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/gateway"
	"github.com/drover-run/drover/internal/version"
)

func TestVersion(t *testing.T) {
	t.Parallel()
	got := call{path: "/api/v1/version"}.do(t, serve(t, gateway.Deps{}, gateway.Options{}))
	require.Equal(t, http.StatusOK, got.status)
	require.JSONEq(t, `{"version": "`+version.String()+`"}`, got.body)
}
