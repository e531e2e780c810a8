package engine_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// TestAppendFrames_replaces_unacknowledged_batches appends a batch after a gateway
// that lost power had stored another batch without its row in the records.
func TestAppendFrames_replaces_unacknowledged_batches(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.submit(t, map[string]*run.TaskSpec{"t": twoSteps()}).ID
	key := b.claim(t, id)
	b.appendFrames(t, key, frame(1, run.FrameStepStart, 0, ""), frame(2, run.FrameOutput, 0, "one\n"))
	_, err := b.blobs.PutFrames(t.Context(), run.FrameBatch{Key: key, Frames: []run.Frame{frame(3, run.FrameOutput, 0, "left behind\n")}})
	require.NoError(t, err)

	b.appendFrames(t, key, frame(3, run.FrameOutput, 0, "two\n"), frame(4, run.FrameOutput, 0, "three\n"))
	require.Equal(t, "one\ntwo\nthree\n", b.readAll(t, id))

	// An acknowledged batch stays as it is.
	err = b.AppendFrames(t.Context(), run.FrameBatch{Key: key, Executor: executorID, Frames: []run.Frame{frame(3, run.FrameOutput, 0, "other\n")}})
	require.NoError(t, err, "the records have the frame")
	err = b.AppendFrames(t.Context(), run.FrameBatch{Key: key, Executor: executorID, Frames: []run.Frame{
		frame(3, run.FrameOutput, 0, "two\n"), frame(4, run.FrameOutput, 0, "three\n"), frame(5, run.FrameOutput, 0, string(bytes.Repeat([]byte("x"), 100))),
	}})
	require.Equal(t, run.CodeInvalid, run.CodeOf(err))
	require.Equal(t, "one\ntwo\nthree\n", b.readAll(t, id))
}

// readAll reads the stored log of the first task.
func (b bench) readAll(t *testing.T, id run.ID) string {
	t.Helper()
	batches, err := b.store.Batches(t.Context(), id, 0, 1, records.BatchRef{})
	require.NoError(t, err)
	var text []byte
	for _, batch := range batches {
		frames, err := b.blobs.GetFrames(t.Context(), batch.Key, batch.First)
		require.NoError(t, err)
		require.Equal(t, batch.Last, frames[len(frames)-1].N, "the rows name other frames than those that are stored")
		for _, f := range frames {
			text = append(text, f.Data...)
		}
	}
	return string(text)
}
