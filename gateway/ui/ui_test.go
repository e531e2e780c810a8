package ui_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/gateway/ui"
)

func TestHandler_Serves(t *testing.T) {
	t.Parallel()
	handler, err := ui.New()
	require.NoError(t, err)
	const browser = "text/html,application/xhtml+xml,*/*;q=0.8"
	for name, tc := range map[string]struct {
		method, path, accept string
		want                 bool
	}{
		"page":                        {http.MethodGet, "/runs", browser, true},
		"icon":                        {http.MethodGet, "/icon.svg", "image/*", true},
		"executor named like a file":  {http.MethodGet, "/operations/executors/host.example.com", browser, true},
		"task named like a file":      {http.MethodGet, "/runs/01jd/tasks/build.js", browser, true},
		"file that does not exist":    {http.MethodGet, "/missing.js", "*/*", false},
		"client that reads no HTML":   {http.MethodGet, "/operations/pools", "application/json", false},
		"asset of an earlier version": {http.MethodGet, "/assets/index-old.js", browser, false},
		"call that changes something": {http.MethodPost, "/runs", browser, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequestWithContext(t.Context(), tc.method, tc.path, nil)
			r.Header.Set("Accept", tc.accept)
			require.Equal(t, tc.want, handler.Serves(r))
		})
	}
}
