package ui_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/gateway/ui"
)

func TestHandler_Serves(t *testing.T) {
	t.Parallel()
	handler, err := ui.New("")
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

// One build serves every base path: the addresses of the index page are complete, and
// name files that the handler has.
func TestHandler_base_path(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"", "/drover", "/ci/drover"} {
		handler, err := ui.New(base)
		require.NoError(t, err)
		get := func(path string) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
			require.Equal(t, http.StatusOK, w.Code)
			return w
		}
		page := get("/runs/01jd/tasks/build.js").Body.String()
		require.Contains(t, page, `<meta name="drover-base" content="`+base+`" />`)
		require.NotContains(t, page, "<script>", "the policy permits no inline scripts")
		addresses := regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(page, -1)
		require.GreaterOrEqual(t, len(addresses), 3)
		for _, address := range addresses {
			path, below := strings.CutPrefix(address[1], base+"/")
			require.True(t, below, address[1])
			require.False(t, strings.HasPrefix(get("/"+path).Header().Get("Content-Type"), "text/html"), "%s is a file", path)
		}
	}
}
