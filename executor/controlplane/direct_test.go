package controlplane_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor/controlplane"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/runtest"
)

// signature is the secret part of an archive's URL.
const signature = "X-Signature=hunter2"

// bucket is an object store with one archive and configurable answers.
type bucket struct {
	*httptest.Server
	content []byte
	answer  func(w http.ResponseWriter, r *http.Request) bool // true: it answered; nil: the default answer

	mu       sync.Mutex
	received []*http.Request
}

func newBucket(t *testing.T) *bucket {
	t.Helper()
	b := &bucket{content: make([]byte, 3<<20)}
	_, _ = rand.Read(b.content)
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		b.received = append(b.received, r)
		b.mu.Unlock()
		if b.answer == nil || !b.answer(w, r) {
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b.content))
		}
	}))
	t.Cleanup(b.Close)
	return b
}

func (b *bucket) requests() []*http.Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.received
}

func (b *bucket) url() string { return b.URL + "/archive?" + signature }

// redirecting returns a client of a gateway that redirects to an address. through
// lists the offsets that were read through the gateway, reported the errors passed to
// OnIndirect.
func redirecting(t *testing.T, b *bucket, address string) (read func(offset int64) ([]byte, error), through *[]int64, reported *[]error) {
	t.Helper()
	through, reported = new([]int64), new([]error)
	c := overHTTPWith(t, &runtest.ExecutorAPI{
		LocateArchiveFunc: func(_ context.Context, r run.ArchiveRead) (string, error) {
			require.Equal(t, "ref", r.Ref.Ref)
			return address, nil
		},
		OpenArchiveFunc: func(_ context.Context, r run.ArchiveRead) (io.ReadCloser, error) {
			*through = append(*through, r.Offset)
			return io.NopCloser(bytes.NewReader(b.content[r.Offset:])), nil
		},
	}, "executor", controlplane.Options{OnIndirect: func(err error) { *reported = append(*reported, err) }})
	ref := run.ArchiveRef{Ref: "ref", ArchiveInfo: run.ArchiveInfo{Size: int64(len(b.content)), Digest: digest(b.content)}}
	return func(offset int64) ([]byte, error) {
		body, err := c.OpenArchive(t.Context(), run.ArchiveRead{Ref: ref, Executor: "x", Offset: offset})
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(body)
		return data, errors.Join(err, body.Close())
	}, through, reported
}

func TestClient_archives_directly_from_the_store(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	read, through, reported := redirecting(t, b, b.url())
	for _, offset := range []int64{0, 1 << 20} {
		got, err := read(offset)
		require.NoError(t, err)
		require.True(t, bytes.Equal(b.content[offset:], got))
	}
	require.Empty(t, *through)
	require.Empty(t, *reported)
	require.Len(t, b.requests(), 2)
	for _, r := range b.requests() {
		require.Empty(t, r.Header.Get("Authorization"), "the store receives no token")
		require.Empty(t, r.Header.Get("Drover-Archive"), "and no reference")
	}
	require.Equal(t, fmt.Sprintf("bytes=%d-", 1<<20), b.requests()[1].Header.Get("Range"))

	// Another archive at the URL is never accepted.
	b.content = bytes.Repeat([]byte("x"), len(b.content))
	_, err := read(0)
	require.Equal(t, run.CodeInvalid, run.CodeOf(err), "%v", err)
	require.Empty(t, *through)
}

// If the store can not be read, the client reads through the gateway, and reports
// the reason without the URL.
func TestClient_archives_fall_back_to_the_gateway(t *testing.T) {
	t.Parallel()
	refuse := func(status int) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			http.Error(w, "Request has expired: "+r.URL.String(), status)
			return true
		}
	}
	for name, tt := range map[string]struct {
		address func(b *bucket) string
		answer  func(w http.ResponseWriter, r *http.Request) bool
		want    string
	}{
		"unreachable": {address: func(b *bucket) string { b.Close(); return b.url() }, want: "connection refused"},
		"expired":     {answer: refuse(http.StatusForbidden), want: "HTTP status 403"},
		"unavailable": {answer: refuse(http.StatusServiceUnavailable), want: "HTTP status 503"},
		"redirects": {answer: func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, "/other", http.StatusFound)
			return true
		}, want: "HTTP status 302"},
		"another size": {answer: func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Range", "bytes 5-")
			w.WriteHeader(http.StatusPartialContent)
			_, _ = io.WriteString(w, "please log in")
			return true
		}, want: "13 bytes"},
		"closes early": {answer: func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }, want: "EOF"},
		"unencrypted":  {address: func(*bucket) string { return "http://store.example.com/archive?" + signature }, want: "unencrypted"},
		"no host":      {address: func(*bucket) string { return "store/archive?" + signature }, want: "no URL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBucket(t)
			b.answer = tt.answer
			address := b.url()
			if tt.address != nil {
				address = tt.address(b)
			}
			read, through, reported := redirecting(t, b, address)
			for range 2 {
				got, err := read(5)
				require.NoError(t, err)
				require.True(t, bytes.Equal(b.content[5:], got))
			}
			require.Equal(t, []int64{5, 5}, *through)
			require.Len(t, *reported, 1, "the store is not tried again for a while")
			require.ErrorContains(t, (*reported)[0], tt.want)
			require.NotContains(t, (*reported)[0].Error(), "hunter2")
			require.LessOrEqual(t, len(b.requests()), 1)
		})
	}
}

// A read that the store cuts is resumed at the store; one that returns nothing is
// repeated through the gateway.
func TestClient_archives_cut_on_their_way_from_the_store(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	const most = 1 << 20
	cut := true
	b.answer = func(w http.ResponseWriter, _ *http.Request) bool {
		if !cut {
			return false
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(b.content)))
		_, _ = w.Write(b.content[:most])
		panic(http.ErrAbortHandler)
	}
	read, through, reported := redirecting(t, b, b.url())
	got, err := read(0)
	require.Equal(t, run.CodeUnavailable, run.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "the object store is unreachable")
	require.NotContains(t, err.Error(), "hunter2")
	require.Equal(t, b.content[:len(got)], got)
	cut = false
	rest, err := read(int64(len(got)))
	require.NoError(t, err)
	require.True(t, bytes.Equal(b.content, append(got, rest...)))
	require.Empty(t, *through)

	b.answer = func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Length", fmt.Sprint(len(b.content)))
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, err = read(0)
	require.Equal(t, run.CodeUnavailable, run.CodeOf(err), "%v", err)
	got, err = read(0)
	require.NoError(t, err)
	require.True(t, bytes.Equal(b.content, got))
	require.Equal(t, []int64{0}, *through)
	require.Empty(t, *reported, "no read failed to start")
}

// Without a redirect the client reads through the gateway.
func TestClient_archives_of_a_gateway_without_urls(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	read, through, _ := redirecting(t, b, "")
	got, err := read(0)
	require.NoError(t, err)
	require.True(t, bytes.Equal(b.content, got))
	require.Equal(t, []int64{0}, *through)
}
