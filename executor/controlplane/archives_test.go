package controlplane_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor/controlplane"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/runtest"
)

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func TestClient_archives(t *testing.T) {
	t.Parallel()
	content := make([]byte, 3<<20)
	_, _ = rand.Read(content)
	key := run.Key{Run: runID, Task: 3, Attempt: 1, Dispatch: 1}
	info := run.ArchiveInfo{Kind: run.ArchiveCache, Name: "k", Size: int64(len(content)), Digest: digest(content)}
	ref := run.ArchiveRef{ArchiveInfo: info, Ref: "ref-1", Limits: run.ArchiveLimits{Size: 1, Entries: 2, Bytes: 3}}
	up := run.ArchiveUpload{Ref: "ref-2", Executor: "x", Limits: ref.Limits}
	var received []byte
	c := overHTTP(t, &runtest.ExecutorAPI{
		FindArchivesFunc: func(_ context.Context, q run.ArchiveQuery) ([]run.ArchiveRef, error) {
			require.Equal(t, run.ArchiveQuery{Key: key, Executor: "x", Step: 4, Keys: []string{"a", "b"}}, q)
			return []run.ArchiveRef{ref}, nil
		},
		OpenArchiveFunc: func(_ context.Context, r run.ArchiveRead) (io.ReadCloser, error) {
			require.Equal(t, "x", r.Executor)
			if r.Ref.Ref != "ref-1" {
				return nil, run.Errorf(run.CodeGone, "the reference expired")
			}
			return io.NopCloser(bytes.NewReader(content[r.Offset:])), nil
		},
		BeginArchiveFunc: func(_ context.Context, s run.ArchiveSave) (run.ArchiveUpload, error) {
			require.Equal(t, run.ArchiveSave{Key: key, Executor: "x", Step: 5, CacheKey: "k"}, s)
			return up, nil
		},
		SaveArchiveFunc: func(_ context.Context, u run.ArchiveUpload, r io.Reader) (run.ArchiveInfo, error) {
			require.Equal(t, run.ArchiveUpload{Ref: "ref-2", Executor: "x"}, u)
			var err error
			received, err = io.ReadAll(r)
			return info, err
		},
	}, "executor")

	refs, err := c.FindArchives(t.Context(), run.ArchiveQuery{Key: key, Executor: "x", Step: 4, Keys: []string{"a", "b"}})
	require.NoError(t, err)
	require.Equal(t, []run.ArchiveRef{ref}, refs)
	read := func(r run.ArchiveRead) ([]byte, error) {
		r.Executor = "x"
		body, err := c.OpenArchive(t.Context(), r)
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(body)
		require.NoError(t, body.Close())
		return data, err
	}
	for _, offset := range []int64{0, 1 << 20, int64(len(content))} {
		got, err := read(run.ArchiveRead{Ref: ref, Offset: offset})
		require.NoError(t, err)
		require.True(t, bytes.Equal(content[offset:], got), "from %d on", offset)
	}
	other := ref
	other.Digest = digest(nil)
	_, err = read(run.ArchiveRead{Ref: other})
	require.Equal(t, run.CodeInvalid, run.CodeOf(err), "%v", err)
	other.Ref = "ref-9"
	_, err = read(run.ArchiveRead{Ref: other})
	require.Equal(t, run.CodeGone, run.CodeOf(err), "%v", err)

	got, err := c.BeginArchive(t.Context(), run.ArchiveSave{Key: key, Executor: "x", Step: 5, CacheKey: "k"})
	require.NoError(t, err)
	require.Equal(t, up, got)
	saved, err := c.SaveArchive(t.Context(), up, bytes.NewReader(content))
	require.NoError(t, err)
	require.Equal(t, info, saved)
	require.True(t, bytes.Equal(content, received))
}

// TestClient_archives_that_break_off checks that neither side takes a part of an
// archive for the whole.
func TestClient_archives_that_break_off(t *testing.T) {
	t.Parallel()
	content := make([]byte, 1<<20)
	ended := make(chan error, 1)
	c := overHTTP(t, &runtest.ExecutorAPI{
		OpenArchiveFunc: func(context.Context, run.ArchiveRead) (io.ReadCloser, error) {
			return io.NopCloser(io.MultiReader(bytes.NewReader(content), iotest.ErrReader(errors.New("the bucket is gone")))), nil
		},
		SaveArchiveFunc: func(_ context.Context, u run.ArchiveUpload, r io.Reader) (run.ArchiveInfo, error) {
			if u.Ref == "large" {
				_, err := io.CopyN(io.Discard, r, 1000)
				return run.ArchiveInfo{}, errors.Join(run.Errorf(run.CodeTooLarge, "the archive has more than 1000 bytes"), err)
			}
			_, err := io.Copy(io.Discard, r)
			ended <- err
			return run.ArchiveInfo{}, err
		},
	}, "executor")
	body, err := c.OpenArchive(t.Context(), run.ArchiveRead{Ref: run.ArchiveRef{Ref: "r"}, Executor: "x"})
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, body)
	require.Equal(t, run.CodeUnavailable, run.CodeOf(err), "%v", err)
	require.NoError(t, body.Close())

	broken := run.Errorf(run.CodeInvalid, "the connection to the shim broke off")
	_, err = c.SaveArchive(t.Context(), run.ArchiveUpload{Ref: "r", Executor: "x"}, io.MultiReader(bytes.NewReader(content), iotest.ErrReader(broken)))
	require.ErrorIs(t, err, broken)
	require.Error(t, <-ended, "the gateway detects that the archive is incomplete")
	gone, cancel := context.WithCancelCause(t.Context())
	_, err = c.SaveArchive(gone, run.ArchiveUpload{Ref: "r", Executor: "x"}, io.MultiReader(bytes.NewReader(content), readerFunc(func([]byte) (int, error) {
		cancel(context.Canceled)
		<-gone.Done()
		return 0, gone.Err()
	})))
	require.ErrorIs(t, err, context.Canceled)
	require.Error(t, <-ended)

	_, err = c.SaveArchive(t.Context(), run.ArchiveUpload{Ref: "large", Executor: "x"}, bytes.NewReader(content))
	require.Equal(t, run.CodeTooLarge, run.CodeOf(err), "%v", err)
}

// TestClient_archive_changed_on_its_way checks that the gateway compares the
// received content with the digest of the sent content.
func TestClient_archive_changed_on_its_way(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	inner := overHTTP(t, &runtest.ExecutorAPI{
		SaveArchiveFunc: func(_ context.Context, _ run.ArchiveUpload, r io.Reader) (run.ArchiveInfo, error) {
			_, err := io.Copy(io.Discard, r)
			ended <- err
			return run.ArchiveInfo{}, err
		},
	}, "executor")
	_, err := inner.SaveArchive(t.Context(), run.ArchiveUpload{Ref: "r", Executor: "x"}, strings.NewReader("as it is"))
	require.NoError(t, err)
	require.NoError(t, <-ended)
	transport := http.DefaultTransport.(*http.Transport).Clone() // other tests close the idle connections of the default
	t.Cleanup(transport.CloseIdleConnections)
	flips := controlplane.Options{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		r = r.WithContext(r.Context()) // with the same trailer
		r.Body = io.NopCloser(io.MultiReader(strings.NewReader("!"), r.Body))
		return transport.RoundTrip(r)
	})}
	c := overHTTPWith(t, &runtest.ExecutorAPI{
		SaveArchiveFunc: func(_ context.Context, _ run.ArchiveUpload, r io.Reader) (run.ArchiveInfo, error) {
			_, err := io.Copy(io.Discard, r)
			return run.ArchiveInfo{}, err
		},
	}, "executor", flips)
	_, err = c.SaveArchive(t.Context(), run.ArchiveUpload{Ref: "r", Executor: "x"}, strings.NewReader("as it is"))
	require.Equal(t, run.CodeInvalid, run.CodeOf(err), "%v", err)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
