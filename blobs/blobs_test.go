package blobs_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/blobs"
	"github.com/drover-run/drover/run"
)

func TestOpen_refuses(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "/a/path", "ftp://x", "::"} {
		_, err := blobs.Open(t.Context(), address)
		require.Equal(t, run.CodeInvalid, run.CodeOf(err), address)
	}
}

func TestStore_file_leaves_no_temporary_files(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := blobs.Open(t.Context(), "file://"+dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	key := run.Key{Run: "01jd0000000000000000000000", Attempt: 1, Dispatch: 1}
	for range 2 {
		_, err := s.PutFrames(t.Context(), run.FrameBatch{Key: key, Frames: []run.Frame{{N: 1}}})
		require.NoError(t, err)
	}
	var files []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	}))
	require.Len(t, files, 1)
}

// TestCheck_needs_writes checks a directory that can be read and not written: a file
// has the name that the object of the check needs as a directory.
func TestCheck_needs_writes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func() *blobs.Store {
		s, err := blobs.Open(t.Context(), "file://"+dir)
		require.NoError(t, err)
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	require.NoError(t, open().Check(t.Context()))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "check")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "check"), nil, 0o600))
	err := open().Check(t.Context())
	require.Equal(t, run.CodeUnavailable, run.CodeOf(err))
	require.ErrorContains(t, err, "write to the blob store file://"+dir)
}
