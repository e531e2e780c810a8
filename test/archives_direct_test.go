package test

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
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/test/harness"
)

// signed is a query parameter that only requests by a signed URL have.
const signed = "X-Amz-Signature"

// storeDoor is a reverse proxy of an S3 server. Its fault function handles the
// requests by signed URLs.
type storeDoor struct {
	*httptest.Server
	direct atomic.Int32 // requests by signed URLs
	tokens atomic.Int32 // requests by signed URLs that carry a bearer token
	fault  func(w http.ResponseWriter, forward http.Handler, r *http.Request)
}

func newStoreDoor(t *testing.T, bucket testenv.S3) *storeDoor {
	t.Helper()
	u, err := url.Parse(bucket.URL)
	require.NoError(t, err)
	server, err := url.Parse(u.Query().Get("endpoint"))
	require.NoError(t, err)
	// The signature covers the host, so the proxy keeps it.
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(server); r.Out.Host = r.In.Host }}
	d := &storeDoor{}
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

// halves cuts the first response off after half of its body.
func halves(once *atomic.Bool) func(http.ResponseWriter, http.Handler, *http.Request) {
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
		fault   func(http.ResponseWriter, http.Handler, *http.Request)
		direct  int32 // requests to the store
		through bool  // whether the gateway serves the whole archive
	}{
		"no fault":          {direct: 1},
		"cut":               {fault: halves(new(atomic.Bool)), direct: 2},
		"cannot be reached": {fault: func(http.ResponseWriter, http.Handler, *http.Request) { panic(http.ErrAbortHandler) }, direct: 1, through: true},
		"signed long ago": {fault: func(w http.ResponseWriter, forward http.Handler, r *http.Request) {
			q := r.URL.Query()
			q.Set("X-Amz-Date", "20200101T000000Z")
			r.URL.RawQuery = q.Encode()
			forward.ServeHTTP(w, r)
		}, direct: 1, through: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bucket := testenv.RequireS3(t)
			door := newStoreDoor(t, bucket)
			door.fault = tt.fault
			env := []string{"DROVER_BLOBS__URL=" + bucket.At(door.URL), "DROVER_ARCHIVES__DIRECT_MIN_BYTES=1000000", "DROVER_LOG__LEVEL=debug"}
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
`, size)).ID, "finished", 2*time.Minute)
			require.Equal(t, api.Result("success"), r.Result, harness.Describe(r))
			require.Contains(t, p.Logs(r.ID, "check"), "noise: OK")
			require.Equal(t, tt.direct, door.direct.Load(), "small archives go through the gateway")
			through := 1 // the small archive
			if tt.through {
				through = 2
			}
			for _, want := range []string{
				`drover_archive_redirects_total{kind="workspace"}`,
				fmt.Sprintf(`drover_archives_read_total{kind="workspace",outcome="read"} %d`, through),
			} {
				p.AwaitPath("/metrics", time.Minute, func(text string) bool { return strings.Contains(text, want) })
			}

			// The gateway redirects a client to the store for an artifact too, if
			// the client asks for it.
			path := "/api/v1/runs/" + r.ID + "/artifacts/make/tree"
			status, whole, err := p.Do(t.Context(), http.MethodGet, path, "", "")
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, status)
			require.Greater(t, len(whole), size)
			require.Equal(t, tt.direct, door.direct.Load(), "the gateway redirects only clients that ask for it")
			door.fault = nil
			require.NoError(t, os.Mkdir(filepath.Join(p.Dir, "got"), 0o700))
			getDirect(t, p, r.ID, filepath.Join(p.Dir, "got"))
			require.Equal(t, tt.direct+1, door.direct.Load())
			require.Zero(t, door.tokens.Load(), "no bearer token is sent to the store")
			requireNowhere(t, p.Dir, signed+"=", bucket.Environment["AWS_SECRET_ACCESS_KEY"])
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

// requireNowhere checks that no file below a directory contains one of the
// texts: logs, records, histories.
func requireNowhere(t *testing.T, dir string, texts ...string) {
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
