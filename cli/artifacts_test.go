package cli_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/gateway"
	"github.com/drover-run/drover/internal/archive"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/runtest"
)

// artifactStore serves the artifacts of one run. The first read of an artifact is cut
// off.
type artifactStore struct {
	content []byte
	opened  atomic.Int32
}

func (s *artifactStore) Artifacts(context.Context, run.ID) ([]run.Artifact, error) {
	return []run.Artifact{
		{Task: "test", Name: "report", Size: 1234, Expires: time.Date(2026, 2, 3, 4, 5, 0, 0, time.UTC), Tests: &run.TestSummary{Tests: 5, Failed: 2}},
		{Task: "test", Name: "old", Removed: true},
		{Task: "test[GO=1.26]", Name: "report", Size: 7},
	}, nil
}

func (s *artifactStore) OpenArtifact(_ context.Context, ref run.ArtifactRef, offset int64) (run.Artifact, io.ReadCloser, error) {
	if ref.Name != "report" {
		return run.Artifact{}, nil, run.Errorf(run.CodeNotFound, "there is no artifact %s", ref.Name)
	}
	sum := sha256.Sum256(s.content)
	a := run.Artifact{Size: int64(len(s.content)), Digest: "sha256:" + hex.EncodeToString(sum[:])}
	var r io.Reader = bytes.NewReader(s.content[offset:])
	if s.opened.Add(1) == 1 {
		r = io.MultiReader(io.LimitReader(r, int64(len(s.content)/2)), iotest.ErrReader(errors.New("gone")))
	}
	return a, io.NopCloser(r), nil
}

func (s *artifactStore) OpenArtifactFile(ctx context.Context, _ run.ArtifactRef, path string) (run.ArtifactEntry, io.ReadCloser, error) {
	f, err := archive.Open(ctx, bytes.NewReader(s.content), path, archive.Limits{})
	if err != nil {
		return run.ArtifactEntry{}, nil, err
	}
	return run.ArtifactEntry{Path: path, Size: f.Size}, f, nil
}

func (s *artifactStore) ArtifactEntries(context.Context, run.ArtifactRef, int) ([]run.ArtifactEntry, bool, error) {
	return []run.ArtifactEntry{
		{Path: "a", Type: run.EntryDirectory, Mode: 0o755},
		{Path: "a/b", Type: run.EntryFile, Mode: 0o644, Size: 3},
		{Path: "a/c", Type: run.EntrySymlink, Mode: 0o777, Target: "b"},
	}, true, nil
}

func TestArtifacts(t *testing.T) {
	t.Parallel()
	random := make([]byte, 2<<20)
	_, _ = rand.Read(random)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "large"), random, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "small"), []byte("hello\n"), 0o600))
	var packed bytes.Buffer
	_, err := archive.Pack(t.Context(), &packed, archive.Selection{Root: dir}, archive.Limits{})
	require.NoError(t, err)
	s := &artifactStore{content: packed.Bytes()}
	g, err := gateway.New(gateway.Deps{Runs: &runtest.Service{}, Artifacts: s, Logger: slog.New(slog.DiscardHandler)}, gateway.Options{})
	require.NoError(t, err)
	server := httptest.NewServer(g.Handler())
	t.Cleanup(server.Close)
	const id = "01jd0000000000000000000000"
	get := func(args ...string) (command.ExitCode, string, string) {
		return execute(t, server.URL, nil, append([]string{"artifacts"}, args...)...)
	}

	code, stdout, _ := get("list", id)
	require.Zero(t, code)
	require.Equal(t, `TASK            NAME     BYTES   TESTS           EXPIRES
test            report   1234    2 of 5 failed   2026-02-03 04:05
test            old      0       -               removed
test[GO=1.26]   report   7       -               with the run
`, stdout)
	code, stdout, _ = get("list", id, "-o", "json")
	require.Zero(t, code)
	require.Contains(t, stdout, `"failed":2`)
	code, stdout, stderr := get("list", id, "test", "report")
	require.Zero(t, code)
	require.Equal(t, "MODE   BYTES   PATH\n0755   0       a/\n0644   3       a/b\n0777   0       a/c -> b\n", stdout)
	require.Contains(t, stderr, "has more entries")
	code, _, _ = get("list", id, "test")
	require.Equal(t, command.ExitInvalid, code)

	out := filepath.Join(t.TempDir(), "new", "dir")
	code, _, stderr = get("get", id, "test", "report", "-o", out)
	require.Zero(t, code, stderr)
	require.Equal(t, int32(2), s.opened.Load(), "the client resumes at the offset")
	got, err := os.ReadFile(filepath.Join(out, "large"))
	require.NoError(t, err)
	require.True(t, bytes.Equal(random, got))
	code, stdout, _ = get("get", id, "test", "report", "--out", "-")
	require.Zero(t, code)
	require.True(t, bytes.Equal(s.content, []byte(stdout)))
	code, stdout, _ = get("get", id, "test", "report", "--path", "small")
	require.Zero(t, code)
	require.Equal(t, "hello\n", stdout)
	file := filepath.Join(t.TempDir(), "file")
	code, _, _ = get("get", id, "test", "report", "--path", "small", "-o", file)
	require.Zero(t, code)
	got, err = os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "hello\n", string(got))
	code, _, stderr = get("get", id, "test", "report", "--path", "nope", "-o", file+"2")
	require.NotZero(t, code)
	require.Contains(t, stderr, `no file "nope"`)
	left, err := filepath.Glob(file + "2*")
	require.NoError(t, err)
	require.Empty(t, left)
	code, _, stderr = get("get", id, "test", "other")
	require.NotZero(t, code)
	require.Contains(t, stderr, "there is no artifact other")
	code, _, _ = get("get", id, "test")
	require.Equal(t, command.ExitInvalid, code)

	answer, err := server.Client().Get(server.URL + "/api/v1/runs/" + id + "/artifacts/test/report?path=small")
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, "sandbox", answer.Header.Get("Content-Security-Policy"), "a browser must not execute files of tasks")
	require.Equal(t, http.StatusOK, answer.StatusCode)
}

// redirectingStore is a shelf whose artifacts are in an object store.
type redirectingStore struct {
	*artifactStore
	address string
}

func (s *redirectingStore) LocateArchive(context.Context, run.ArchiveRead) (string, error) {
	return "", errors.New("only artifacts are supported")
}

func (s *redirectingStore) LocateArtifact(_ context.Context, _ run.ArtifactRef, _ int64) (run.Artifact, string, error) {
	sum := sha256.Sum256(s.content)
	return run.Artifact{Digest: "sha256:" + hex.EncodeToString(sum[:])}, s.address, nil
}

// A client that asks for it reads an artifact directly from the store, and
// through the gateway if the store refuses or closes the connection.
func TestArtifacts_direct(t *testing.T) {
	t.Parallel()
	content := make([]byte, 2<<20)
	_, _ = rand.Read(content)
	for name, tt := range map[string]struct {
		answer  func(w http.ResponseWriter, n int32) bool // reports whether it wrote a response
		asked   int32                                     // requests to the store
		through int32                                     // reads through the gateway
	}{
		"whole": {asked: 1},
		"cut": {answer: func(w http.ResponseWriter, n int32) bool {
			if n > 1 {
				return false
			}
			w.Header().Set("Content-Length", strconv.Itoa(len(content)))
			_, _ = w.Write(content[:len(content)/2])
			panic(http.ErrAbortHandler)
		}, asked: 2},
		"refused": {answer: func(w http.ResponseWriter, _ int32) bool { w.WriteHeader(http.StatusForbidden); return true }, asked: 1, through: 2},
		"empty answer": {answer: func(w http.ResponseWriter, _ int32) bool {
			w.Header().Set("Content-Length", strconv.Itoa(len(content)))
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, asked: 1, through: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if n := asked.Add(1); r.Header.Get("Authorization") == "" && (tt.answer == nil || !tt.answer(w, n)) {
					http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
				}
			}))
			t.Cleanup(store.Close)
			s := &redirectingStore{artifactStore: &artifactStore{content: content}, address: store.URL + "/artifact?signature=hunter2"}
			g, err := gateway.New(gateway.Deps{Runs: &runtest.Service{}, Artifacts: s, Logger: slog.New(slog.DiscardHandler)}, gateway.Options{})
			require.NoError(t, err)
			server := httptest.NewServer(g.Handler())
			t.Cleanup(server.Close)
			code, stdout, stderr := execute(t, server.URL, nil, "artifacts", "get", "01jd0000000000000000000000", "test", "report", "--direct", "--out", "-")
			require.Zero(t, code, stderr)
			require.NotContains(t, stderr, "hunter2")
			require.True(t, bytes.Equal(content, []byte(stdout)))
			require.Equal(t, tt.asked, asked.Load())
			require.Equal(t, tt.through, s.opened.Load())
		})
	}
}
