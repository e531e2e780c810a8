package engine_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

// TestAppendFrames_in_other_bounds appends a batch that the records reject after
// its bytes were stored, and then its frames with other bounds: each frame is
// shown once. Frames that are sent again after the packing leave no object
// behind.
func TestAppendFrames_in_other_bounds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := newPackBench(t, dir)
	id := b.submit(t, map[string]*run.TaskSpec{"t": twoSteps()}).ID
	key := b.claim(t, id)
	batch := func(frames ...run.Frame) run.FrameBatch {
		return run.FrameBatch{Key: key, Executor: executorID, Frames: frames}
	}
	one, two, three := frame(1, run.FrameOutput, 0, "one\n"), frame(2, run.FrameOutput, 0, "two\n"), frame(3, run.FrameOutput, 0, "three\n")
	four, end := frame(4, run.FrameOutput, 0, "four\n"), frame(5, run.FrameTaskEnd, 0, "")
	end.Result = &run.TaskResult{Status: run.StatusSuccess}
	b.appendFrames(t, key, one)
	err := b.AppendFrames(t.Context(), batch(three, four))
	require.Equal(t, run.CodeInvalid, run.CodeOf(err), "it leaves one out: %v", err)
	b.appendFrames(t, key, two)
	b.appendFrames(t, key, three)
	b.appendFrames(t, key, four)
	require.Equal(t, "one\ntwo\nthree\nfour\n", string(b.readAll(t, run.LogQuery{Run: id, Task: "t"})))
	b.appendFrames(t, key, end)
	require.NoError(t, b.compactor.Pack(t.Context()))
	require.NoError(t, b.collector.Collect(t.Context()))
	b.appendFrames(t, key, three)
	b.appendFrames(t, key, four)
	require.NoError(t, b.collector.Collect(t.Context()))
	require.Equal(t, "one\ntwo\nthree\nfour\n", string(b.readAll(t, run.LogQuery{Run: id, Task: "t"})))
	var left []string
	require.NoError(t, filepath.WalkDir(filepath.Join(dir, "blobs"), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			left = append(left, filepath.Base(path))
		}
		return err
	}))
	require.Equal(t, []string{"packed.000000000005.zst"}, left)
}
