package blobs_test

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/blobs"
	"github.com/drover-run/drover/run"
)

var packKey = run.Key{Run: "01jd0000000000000000000000", Task: 3, Attempt: 1, Dispatch: 2}

func frameSeq(frames []run.Frame, then error) iter.Seq2[run.Frame, error] {
	return func(yield func(run.Frame, error) bool) {
		for _, f := range frames {
			if !yield(f, nil) {
				return
			}
		}
		if then != nil {
			yield(run.Frame{}, then)
		}
	}
}

// logOf returns a log of two steps, with bytes of all values.
func logOf(seed uint64, chunks int) []run.Frame {
	random := rand.New(rand.NewPCG(seed, 1))
	at := time.Unix(1_700_000_000, 0).UTC()
	frames := []run.Frame{{Version: 1, N: 1, Time: at, Kind: run.FrameStepStart}}
	add := func(f run.Frame) {
		f.Version, f.N, f.Time = 1, int64(len(frames)+1), at.Add(time.Duration(len(frames))*time.Millisecond)
		frames = append(frames, f)
	}
	for i := range chunks {
		data := make([]byte, random.IntN(run.MaxFrameData)+1)
		for j := range data {
			data[j] = byte(random.Uint32())
		}
		switch i % 4 {
		case 0:
			data = bytes.Repeat([]byte("10%\r"), 100)
		case 1:
			data = []byte(strings.Repeat("a line\n", 50))
		}
		stream := run.StreamStdout
		if i%3 == 0 {
			stream = run.StreamStderr
		}
		add(run.Frame{Kind: run.FrameOutput, Step: i * 2 / chunks, Stream: stream, Data: data})
		if i == chunks/2 {
			add(run.Frame{Kind: run.FrameStepEnd, Status: run.StatusSuccess})
			add(run.Frame{Kind: run.FrameStepStart, Step: 1})
		}
	}
	add(run.Frame{Kind: run.FrameOutputs, Outputs: map[string]string{"k": "a\nb"}})
	add(run.Frame{Kind: run.FrameTaskEnd, Result: &run.TaskResult{Status: run.StatusSuccess}})
	return frames
}

func testPack(t *testing.T, s *blobs.Store) {
	ctx := t.Context()
	_, err := s.PackedBlocks(ctx, packKey, 9, 100)
	require.Equal(t, run.CodeNotFound, run.CodeOf(err))
	for _, chunks := range []int{0, 1, 3000} {
		frames := logOf(uint64(chunks), chunks)
		last := frames[len(frames)-1].N
		size, err := s.PackFrames(ctx, packKey, last, frameSeq(frames, nil))
		require.NoError(t, err)
		blocks, err := s.PackedBlocks(ctx, packKey, last, size)
		require.NoError(t, err)
		require.Equal(t, chunks > 1000, len(blocks) > 8)
		var got []run.Frame
		for _, b := range blocks {
			part, err := s.PackedFrames(ctx, packKey, last, b)
			require.NoError(t, err)
			require.Equal(t, b.First, part[0].N)
			require.Equal(t, b.Last, part[len(part)-1].N)
			require.Equal(t, run.OutlineOf(part), b.LogOutline)
			got = append(got, part...)
		}
		require.Equal(t, frames, got)
		require.NoError(t, s.DeletePacked(ctx, packKey, last))
		require.NoError(t, s.DeletePacked(ctx, packKey, last))
		_, err = s.PackedFrames(ctx, packKey, last, blocks[0])
		require.Equal(t, run.CodeNotFound, run.CodeOf(err))
	}
}

// testPackBroken fails the source of the frames late: no object becomes
// visible.
func testPackBroken(t *testing.T, s *blobs.Store) {
	key := keyOf(12)
	frames := logOf(2, 3000)
	broken := errors.New("broken")
	_, err := s.PackFrames(t.Context(), key, 3002, frameSeq(frames[:2900], broken))
	require.ErrorIs(t, err, broken)
	_, err = s.PackedBlocks(t.Context(), key, 3002, 1000)
	require.Equal(t, run.CodeNotFound, run.CodeOf(err))
}

// TestPack_zstd reads a packed log with only zstd.
func TestPack_zstd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := blobs.Open(t.Context(), "file://"+dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	frames := logOf(1, 500)
	_, err = s.PackFrames(t.Context(), packKey, 502, frameSeq(frames, nil))
	require.NoError(t, err)
	data, err := os.ReadFile(onlyFile(t, dir))
	require.NoError(t, err)
	r, err := zstd.NewReader(bytes.NewReader(data))
	require.NoError(t, err)
	defer r.Close()
	plain, err := io.ReadAll(r)
	require.NoError(t, err)
	for _, f := range frames {
		require.Contains(t, string(plain), string(f.Data))
	}
}

// TestPack_broken fails the source of the frames, and creates the incomplete
// file of a killed process: neither becomes visible, and both are removed.
func TestPack_broken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := blobs.Open(t.Context(), "file://"+dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	frames := logOf(1, 500)
	away := run.Errorf(run.CodeNotFound, "a batch is missing")
	_, err = s.PackFrames(t.Context(), packKey, 502, frameSeq(frames[:400], away))
	require.ErrorIs(t, err, away)
	require.Equal(t, run.CodeNotFound, run.CodeOf(err))
	require.Empty(t, filesIn(t, dir))
	_, err = s.PackFrames(t.Context(), packKey, 502, frameSeq(frames[:400], errors.New("broken")))
	require.Equal(t, run.CodeUnavailable, run.CodeOf(err))

	size, err := s.PackFrames(t.Context(), packKey, 502, frameSeq(frames, nil))
	require.NoError(t, err)
	name := onlyFile(t, dir)
	left := name + ".18a8f0c0d1b2.tmp"
	require.NoError(t, os.WriteFile(left, []byte("half of it"), 0o600))
	again, err := s.PackFrames(t.Context(), packKey, 502, frameSeq(frames, nil))
	require.NoError(t, err)
	require.Equal(t, size, again)
	require.Equal(t, name, onlyFile(t, dir))
	require.NoError(t, os.WriteFile(left, []byte("half of it"), 0o600))
	require.NoError(t, s.DeletePacked(t.Context(), packKey, 502))
	require.Empty(t, filesIn(t, dir))
}

func TestPack_damaged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := blobs.Open(t.Context(), "file://"+dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	size, err := s.PackFrames(t.Context(), packKey, 102, frameSeq(logOf(1, 100), nil))
	require.NoError(t, err)
	blocks, err := s.PackedBlocks(t.Context(), packKey, 102, size)
	require.NoError(t, err)
	name := onlyFile(t, dir)
	whole, err := os.ReadFile(name)
	require.NoError(t, err)
	for i := range 200 {
		damaged := bytes.Clone(whole)
		at := (i * 7919) % len(damaged)
		if i%2 == 0 {
			at = len(damaged) - 1 - i/2
		}
		damaged[at] ^= 0x55
		require.NoError(t, os.WriteFile(name, damaged, 0o600))
		if _, err := s.PackedBlocks(t.Context(), packKey, 102, size); err != nil {
			require.Equal(t, run.CodeInternal, run.CodeOf(err))
		}
		for _, b := range blocks {
			if _, err := s.PackedFrames(t.Context(), packKey, 102, b); err != nil {
				require.Equal(t, run.CodeInternal, run.CodeOf(err))
			}
		}
	}
	require.NoError(t, os.WriteFile(name, whole[:10], 0o600))
	_, err = s.PackedBlocks(t.Context(), packKey, 102, size)
	require.Error(t, err)
}

func filesIn(t *testing.T, dir string) []string {
	t.Helper()
	var files []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	}))
	return files
}

func onlyFile(t *testing.T, dir string) string {
	t.Helper()
	files := filesIn(t, dir)
	require.Len(t, files, 1)
	return files[0]
}
