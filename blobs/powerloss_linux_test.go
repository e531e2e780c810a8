package blobs_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/blobs"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

// TestStore_file_survives_a_loss_of_power stores objects on a disk that loses
// power directly after the last call.
func TestStore_file_survives_a_loss_of_power(t *testing.T) {
	t.Parallel()
	disk := testenv.RequireDisk(t)
	open := func() *blobs.Store {
		s, err := blobs.Open(t.Context(), "file://"+filepath.Join(disk.Dir, "new", "blobs"))
		require.NoError(t, err)
		return s
	}
	frames := func(text string) []run.Frame {
		return []run.Frame{{Version: 1, N: 1, Kind: run.FrameOutput, Data: []byte(text)}, {Version: 1, N: 2, Kind: run.FrameTaskEnd}}
	}
	content := make([]byte, 1<<20)
	_, _ = rand.Read(content)
	var archives []string
	sizes := map[int]int64{}
	for round := range 5 {
		// Nothing syncs after the last object.
		for _, last := range []string{"batch", "packed", "archive", "deletion"} {
			s := open()
			n := 10*round + len(last)
			switch last {
			case "batch":
				_, err := s.PutFrames(t.Context(), run.FrameBatch{Key: keyOf(n), Frames: frames(fmt.Sprint(n))})
				require.NoError(t, err)
			case "packed":
				var err error
				sizes[n], err = s.PackFrames(t.Context(), keyOf(1000+n), 2, func(yield func(run.Frame, error) bool) {
					for _, f := range frames(fmt.Sprint(n)) {
						if !yield(f, nil) {
							return
						}
					}
				})
				require.NoError(t, err)
			case "archive":
				object := s.NewObject()
				require.NoError(t, s.PutArchive(t.Context(), object, bytes.NewReader(content)))
				archives = append(archives, object)
			case "deletion":
				require.NoError(t, s.DeleteFrames(t.Context(), keyOf(10*round+len("batch")), 1))
			}
			disk.CutPower()
			require.NoError(t, s.Close())
			disk.RestorePower()
			s = open()
			for _, object := range archives {
				r, err := s.GetArchive(t.Context(), object, 0)
				require.NoError(t, err, "an archive was lost")
				got, err := io.ReadAll(r)
				require.NoError(t, err)
				require.NoError(t, r.Close())
				require.True(t, bytes.Equal(content, got), "an archive has %d bytes of %d", len(got), len(content))
			}
			for n, size := range sizes {
				blocks, err := s.PackedBlocks(t.Context(), keyOf(1000+n), 2, size)
				require.NoError(t, err, "a packed log was lost")
				require.Len(t, blocks, 1)
				got, err := s.PackedFrames(t.Context(), keyOf(1000+n), 2, blocks[0])
				require.NoError(t, err)
				require.Equal(t, fmt.Sprint(n), string(got[0].Data))
			}
			if last == "deletion" {
				_, err := s.GetFrames(t.Context(), keyOf(10*round+len("batch")), 1)
				require.Equal(t, run.CodeNotFound, run.CodeOf(err), "a deleted batch reappeared")
			} else {
				got, err := s.GetFrames(t.Context(), keyOf(10*round+len("batch")), 1)
				require.NoError(t, err, "a batch was lost")
				require.Equal(t, fmt.Sprint(10*round+len("batch")), string(got[0].Data))
			}
			require.NoError(t, s.Close())
		}
	}
}
