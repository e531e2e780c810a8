package blobs_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/blobs"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

func testArchives(t *testing.T, s *blobs.Store) {
	read := func(object string, offset int64) ([]byte, error) {
		r, err := s.GetArchive(t.Context(), object, offset)
		if err != nil {
			return nil, err
		}
		defer func() { require.NoError(t, r.Close()) }()
		return io.ReadAll(r)
	}
	content := make([]byte, 20<<20)
	_, _ = rand.Read(content)
	object := s.NewObject()
	require.NotEqual(t, object, s.NewObject())
	require.NoError(t, s.PutArchive(t.Context(), object, bytes.NewReader(content)))
	require.Error(t, s.PutArchive(t.Context(), object, strings.NewReader("other")), "an archive is never replaced")
	for _, offset := range []int64{0, 1, int64(len(content)) - 1, int64(len(content))} {
		got, err := read(object, offset)
		require.NoError(t, err)
		require.True(t, bytes.Equal(content[offset:], got), "from %d on", offset)
	}

	broken := errors.New("broken")
	half := s.NewObject()
	err := s.PutArchive(t.Context(), half, io.MultiReader(bytes.NewReader(content[:12<<20]), iotest.ErrReader(broken)))
	require.ErrorIs(t, err, broken)
	_, err = read(half, 0)
	require.Equal(t, run.CodeNotFound, run.CodeOf(err))
	ctx, cancel := context.WithCancelCause(t.Context())
	err = s.PutArchive(ctx, half, io.MultiReader(bytes.NewReader(content[:12<<20]), readerFunc(func([]byte) (int, error) {
		cancel(broken)
		return 0, io.EOF
	})))
	require.Error(t, err)
	_, err = read(half, 0)
	require.Equal(t, run.CodeNotFound, run.CodeOf(err))

	for range 2 {
		require.NoError(t, s.DeleteArchive(t.Context(), object))
	}
	_, err = read(object, 0)
	require.Equal(t, run.CodeNotFound, run.CodeOf(err))
	_, err = read("../x", 0)
	require.Equal(t, run.CodeInternal, run.CodeOf(err))
}

// testSigned reads an archive as a client without credentials.
func testSigned(t *testing.T, bucket testenv.S3) {
	s, err := blobs.Open(t.Context(), bucket.URL)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	object, content := s.NewObject(), strings.Repeat("content", 1000)
	require.NoError(t, s.PutArchive(t.Context(), object, strings.NewReader(content)))
	sign := func(validity time.Duration) string {
		address, err := s.SignArchive(t.Context(), object, validity)
		require.NoError(t, err)
		require.NotContains(t, address, bucket.Environment["AWS_SECRET_ACCESS_KEY"])
		return address
	}
	get := func(address, span string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		require.NoError(t, err)
		if span != "" {
			r.Header.Set("Range", span)
		}
		response, err := http.DefaultClient.Do(r) //nolint:forbidigo // it has no credentials
		require.NoError(t, err)
		data, err := io.ReadAll(response.Body)
		require.NoError(t, errors.Join(err, response.Body.Close()))
		return response.StatusCode, string(data)
	}
	address := sign(time.Minute)
	status, got := get(address, "")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, content, got)
	status, got = get(address, "bytes=10-")
	require.Equal(t, http.StatusPartialContent, status)
	require.Equal(t, content[10:], got)
	other := s.NewObject()
	status, _ = get(strings.Replace(address, object, other, 1), "")
	require.Equal(t, http.StatusForbidden, status, "the URL is valid for one archive only")
	short := sign(time.Second)
	testenv.Await(t, func() (bool, string) {
		status, text := get(short, "")
		return status == http.StatusForbidden, text
	})
	require.NoError(t, s.DeleteArchive(t.Context(), object))
	status, _ = get(address, "")
	require.Equal(t, http.StatusNotFound, status)
}

// A store that signs no URLs returns "".
func TestStore_signs_no_urls(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"mem://", "file://" + t.TempDir()} {
		s, err := blobs.Open(t.Context(), address)
		require.NoError(t, err)
		got, err := s.SignArchive(t.Context(), s.NewObject(), time.Minute)
		require.NoError(t, err)
		require.Empty(t, got, address)
		require.NoError(t, s.Close())
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// TestStore_file_removes_files_of_killed_writers: a process that is killed during a
// write leaves a file that only the records refer to.
func TestStore_file_removes_files_of_killed_writers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := blobs.Open(t.Context(), "file://"+dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	object := s.NewObject()
	files := func() []string {
		found, err := filepath.Glob(filepath.Join(dir, "archives", "*", "*"))
		require.NoError(t, err)
		return found
	}
	var left []string
	err = s.PutArchive(t.Context(), object, io.MultiReader(strings.NewReader("half"), readerFunc(func([]byte) (int, error) {
		left = files()
		return 0, io.ErrUnexpectedEOF
	})))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Len(t, left, 1, "the state after a kill")
	require.Empty(t, files())
	require.NoError(t, os.WriteFile(left[0], []byte("half"), 0o600))
	require.NoError(t, s.DeleteArchive(t.Context(), object))
	require.Empty(t, files())
}
