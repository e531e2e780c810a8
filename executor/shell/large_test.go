//go:build unix

package shell_test

import (
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/executortest"
	"github.com/drover-run/drover/executor/gitstore"
	"github.com/drover-run/drover/executor/shell"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

// counter counts what a server sends.
type counter struct {
	http.ResponseWriter
	sent *atomic.Int64
}

func (c counter) Write(p []byte) (int, error) {
	c.sent.Add(int64(len(p)))
	return c.ResponseWriter.Write(p)
}

// TestDriver_large_checkout checks a repository with a history of one GiB out, with a
// depth, and twice with reuse.
func TestDriver_large_checkout(t *testing.T) {
	dir := executortest.LargeRepository(t)
	path, err := exec.CommandContext(t.Context(), "git", "--exec-path").Output()
	require.NoError(t, err)
	var sent atomic.Int64
	git := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1"},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { git.ServeHTTP(counter{w, &sent}, r) }))
	defer server.Close()
	state := t.TempDir()
	d, err := shell.New(shell.Options{
		StateDir: state, ShimPath: testenv.BuildShim(t),
		GitStores: gitstore.Options{MaxBytes: 1 << 30, IndexFile: filepath.Join(state, "git-stores.json")},
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	for n, reuse := range []bool{false, true, true} {
		before, begun := sent.Load(), time.Now()
		def := run.Definition{
			Key: run.Key{Run: "01aaaaaaaaaaaaaaaaaaaaaaaa", Task: n + 1, Attempt: 1, Dispatch: 1}, RunGroup: "/test/shell", Shell: run.DefaultShell(), Grace: time.Second,
			Steps: []run.StepDef{
				{When: run.WhenOnSuccess, Checkout: &run.Checkout{Repository: server.URL + "/large.git", Ref: "main", Depth: 20, Reuse: reuse}},
				{When: run.WhenOnSuccess, Script: `echo "commits=$(git rev-list --count HEAD)"`},
			},
		}
		h, err := d.Start(t.Context(), executor.Task{Definition: def, Launch: func() (int64, error) { return 1, nil }, Log: func(line string) { t.Log(line) }})
		require.NoError(t, err)
		var output strings.Builder
		for f, err := range h.Events(t.Context(), 1) {
			require.NoError(t, err)
			if f.Kind == run.FrameOutput {
				output.Write(f.Data)
			}
		}
		require.NoError(t, h.Remove(t.Context()))
		require.Contains(t, output.String(), "commits=20\n")
		bytes := sent.Load() - before
		t.Logf("reuse %v: %s, the server sent %.1f MB", reuse, time.Since(begun).Round(time.Millisecond), float64(bytes)/1e6)
		if n < 2 {
			require.Less(t, bytes, int64(100<<20), "a depth of 20 commits")
			require.Greater(t, bytes, int64(10<<20))
		} else {
			require.Less(t, bytes, int64(1<<20))
		}
	}
}
