package gateway_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/gateway"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/runtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const runID = "01jd0000000000000000000000"

// serve starts a gateway and returns its address.
func serve(t *testing.T, deps gateway.Deps, opts gateway.Options) string {
	t.Helper()
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	if deps.Runs == nil {
		deps.Runs = &runtest.Service{}
	}
	g, err := gateway.New(deps, opts)
	require.NoError(t, err)
	server := httptest.NewServer(g.Handler())
	t.Cleanup(server.Close)
	return server.URL
}

// call describes a request.
type call struct {
	method string
	path   string
	body   string
	header map[string]string
}

// answer is a response with its body.
type answer struct {
	status int
	header http.Header
	body   string
}

func (c call) do(t *testing.T, base string) answer {
	t.Helper()
	method := c.method
	if method == "" {
		method = http.MethodGet
	}
	r, err := http.NewRequestWithContext(t.Context(), method, base+c.path, strings.NewReader(c.body))
	require.NoError(t, err)
	if method != http.MethodGet {
		r.Header.Set("Content-Type", "application/json")
	}
	for k, v := range c.header {
		switch {
		case k == "Host":
			r.Host = v
		case v == "":
			r.Header.Del(k)
		default:
			r.Header.Set(k, v)
		}
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return answer{status: response.StatusCode, header: response.Header, body: string(data)}
}

// problem demands a problem document of the status and code.
func (a answer) problem(t *testing.T, status int, code run.Code) api.Problem {
	t.Helper()
	require.Equal(t, status, a.status, a.body)
	require.Equal(t, "application/problem+json", a.header.Get("Content-Type"))
	var p api.Problem
	require.NoError(t, json.Unmarshal([]byte(a.body), &p))
	require.Equal(t, string(code), p.Code, a.body)
	require.Equal(t, status, p.Status)
	require.NotEmpty(t, p.Title)
	require.Equal(t, "urn:drover:problem:"+p.Code, p.Type)
	return p
}

func (a answer) read(t *testing.T, v any) {
	t.Helper()
	require.Less(t, a.status, 300, a.body)
	require.NoError(t, json.Unmarshal([]byte(a.body), v))
}

// readCloser hides the type of a reader, so that the request has no
// Content-Length.
type readCloser struct{ io.Reader }

func (readCloser) Close() error { return nil }

func packed(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.String()
}
