package archives

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/test/harness"
)

// signed is a query parameter that only requests by a signed URL have.
const signed = "X-Amz-Signature"

// storeProxy is a reverse proxy of an S3 server. Its fault function handles the
// requests by signed URLs.
type storeProxy struct {
	*httptest.Server
	direct atomic.Int32 // requests by signed URLs
	tokens atomic.Int32 // requests by signed URLs that carry a bearer token
	fault  func(w http.ResponseWriter, forward http.Handler, r *http.Request)
}

func newStoreProxy(t *testing.T, bucket testenv.S3) *storeProxy {
	t.Helper()
	u, err := url.Parse(bucket.URL)
	require.NoError(t, err)
	server, err := url.Parse(u.Query().Get("endpoint"))
	require.NoError(t, err)
	// The signature covers the host, so the proxy keeps it.
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(server); r.Out.Host = r.In.Host }}
	d := &storeProxy{}
	d.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !r.URL.Query().Has(signed) {
			forward.ServeHTTP(w, r)
			return
		}
		d.direct.Add(1)
		if r.Header.Get("Authorization") != "" {
			d.tokens.Add(1)
		}
		if d.fault == nil {
			forward.ServeHTTP(w, r)
			return
		}
		d.fault(w, forward, r)
	}))
	t.Cleanup(d.Close)
	return d
}

// truncateFirst cuts the first response off after half of its body.
func truncateFirst(once *atomic.Bool) func(http.ResponseWriter, http.Handler, *http.Request) {
	return func(w http.ResponseWriter, forward http.Handler, r *http.Request) {
		if once.Swap(true) {
			forward.ServeHTTP(w, r)
			return
		}
		whole := httptest.NewRecorder()
		forward.ServeHTTP(whole, r)
		maps.Copy(w.Header(), whole.Header())
		w.WriteHeader(whole.Code)
		_, _ = io.Copy(w, io.LimitReader(whole.Body, int64(whole.Body.Len()/2)))
		panic(http.ErrAbortHandler)
	}
}

// TestArchives_direct restores a workspace directly from a real S3-compatible
// server, and through the gateway when the server cannot be reached. Only the
// reader of an archive gets its signed URL.
func TestArchives_direct(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fault      func(http.ResponseWriter, http.Handler, *http.Request)
		direct     int32 // requests to the store
		viaGateway bool  // whether the gateway serves the whole archive
	}{
		"no fault":          {direct: 1},
		"cut":               {fault: truncateFirst(new(atomic.Bool)), direct: 2},
		"cannot be reached": {fault: func(http.ResponseWriter, http.Handler, *http.Request) { panic(http.ErrAbortHandler) }, direct: 1, viaGateway: true},
		"signed long ago": {fault: func(w http.ResponseWriter, forward http.Handler, r *http.Request) {
			q := r.URL.Query()
			q.Set("X-Amz-Date", "20200101T000000Z")
			r.URL.RawQuery = q.Encode()
			forward.ServeHTTP(w, r)
		}, direct: 1, viaGateway: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bucket := testenv.RequireS3(t)
			proxy := newStoreProxy(t, bucket)
			proxy.fault = tt.fault
			env := []string{"DROVER_BLOBS__URL=" + bucket.At(proxy.URL), "DROVER_ARCHIVES__DIRECT_MIN_BYTES=1000000", "DROVER_LOG__LEVEL=debug"}
			for key, value := range bucket.Environment {
				env = append(env, key+"="+value)
			}
			p := harness.StartParts(t, "1", map[harness.Part][]string{
				harness.Gateway: env, harness.Control: env, harness.Executor: {"DROVER_LOG__LEVEL=debug"},
			})
			const size = 20 << 20
			r := p.AwaitPhase(p.Submit(fmt.Sprintf(`name: direct
group: /test/direct
tasks:
  make:
    steps:
      - run: mkdir tree && head -c %d /dev/urandom > tree/noise && (cd tree && sha256sum noise > sum)
      - save_workspace: {paths: [tree]}
      - save_artifacts: {name: tree, paths: [tree]}
  small:
    depends: [make]
    steps:
      - run: echo little > little
      - save_workspace: {paths: [little]}
  check:
    depends: [small]
    steps:
      - restore_workspace:
      - run: cat little; cd tree && sha256sum -c sum
`, size)).ID, "finished")
			require.Equal(t, api.Result("success"), r.Result, harness.Describe(r))
			require.Contains(t, p.Logs(r.ID, "check"), "noise: OK")
			require.Equal(t, tt.direct, proxy.direct.Load(), "small archives go through the gateway")
			gatewayReads := 1 // the small archive
			if tt.viaGateway {
				gatewayReads = 2
			}
			for _, want := range []string{
				`drover_archive_redirects_total{kind="workspace"}`,
				fmt.Sprintf(`drover_archives_read_total{kind="workspace",outcome="read"} %d`, gatewayReads),
			} {
				p.AwaitPath("/metrics", func(text string) bool { return strings.Contains(text, want) })
			}

			// The gateway redirects a client to the store for an artifact too, if
			// the client asks for it.
			path := "/api/v1/runs/" + r.ID + "/artifacts/make/tree"
			status, whole, err := p.Do(t.Context(), http.MethodGet, path, "", "")
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, status)
			require.Greater(t, len(whole), size)
			require.Equal(t, tt.direct, proxy.direct.Load(), "the gateway redirects only clients that ask for it")
			proxy.fault = nil
			require.NoError(t, os.Mkdir(filepath.Join(p.Dir, "got"), 0o700))
			getDirect(t, p, r.ID, filepath.Join(p.Dir, "got"))
			require.Equal(t, tt.direct+1, proxy.direct.Load())
			require.Zero(t, proxy.tokens.Load(), "no bearer token is sent to the store")
			requireAbsent(t, p.Dir, signed+"=", bucket.Environment["AWS_SECRET_ACCESS_KEY"])
		})
	}
}

// getDirect downloads the artifact with the CLI.
func getDirect(t *testing.T, p *harness.Parts, id, dir string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), harness.Drover(t), "artifacts", "get", id, "make", "tree", "--direct", "-o", dir)
	cmd.Env = []string{"HOME=" + p.Dir, "DROVER_SERVER=" + p.Server, "DROVER_TOKEN=" + p.Token}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.FileExists(t, filepath.Join(dir, "tree", "noise"))
}

// requireAbsent checks that no file below a directory contains one of the
// texts: logs, records, histories.
func requireAbsent(t *testing.T, dir string, texts ...string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, text := range texts {
			require.False(t, bytes.Contains(data, []byte(text)), "%s has %q", path, text)
		}
		return nil
	}))
}
