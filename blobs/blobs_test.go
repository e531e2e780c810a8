package blobs_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/blobs"
	"github.com/drover-run/drover/run"
)

func TestStore(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]string{
		"file": "file://" + filepath.Join(t.TempDir(), "new", "dir"),
		"mem":  "mem://",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := blobs.Open(t.Context(), address)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, s.Close()) })
			require.NoError(t, s.Check(t.Context()))

			key := run.Key{Run: "01jd0000000000000000000000", Task: 3, Attempt: 1, Dispatch: 2}
			batch := run.FrameBatch{Key: key, Frames: []run.Frame{
				{Version: 1, N: 5, Time: time.Unix(1, 2).UTC(), Kind: run.FrameOutput, Stream: run.StreamStderr, Data: []byte{0, 255, '\n'}},
				{Version: 1, N: 6, Time: time.Unix(1, 3).UTC(), Kind: run.FrameStepEnd, Status: run.StatusSuccess},
			}}
			_, err = s.GetFrames(t.Context(), key, 5)
			require.Equal(t, run.CodeNotFound, run.CodeOf(err))
			size, err := s.PutFrames(t.Context(), batch)
			require.NoError(t, err)
			require.Positive(t, size)
			other := batch
			other.Frames = []run.Frame{{N: 5, Data: []byte("something else")}}
			_, err = s.PutFrames(t.Context(), other)
			require.NoError(t, err, "a batch that is there is left as it is")
			got, err := s.GetFrames(t.Context(), key, 5)
			require.NoError(t, err)
			require.Empty(t, cmp.Diff(batch.Frames, got))
		})
	}
}

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
