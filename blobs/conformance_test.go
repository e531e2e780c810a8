package blobs_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"gocloud.dev/blob"

	"github.com/drover-run/drover/blobs"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

// conformance is the contract of every blob store.
var conformance = map[string]func(t *testing.T, s *blobs.Store){
	"archives":                 testArchives,
	"batches":                  testBatches,
	"batches are written once": testBatchesOnce,
	"batches are deleted":      testBatchesDeleted,
	"packed logs":              testPack,
	"packed logs that fail":    testPackBroken,
}

func conform(t *testing.T, address string) {
	t.Helper()
	s, err := blobs.Open(t.Context(), address)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	require.NoError(t, s.Check(t.Context()))
	for name, test := range conformance {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
	if address == "mem://" {
		return // each memory bucket is new, and none survives a loss of power
	}
	bucket, err := blob.OpenBucket(t.Context(), address)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, bucket.Close()) })
	t.Run("torn batches", func(t *testing.T) {
		t.Parallel()
		testBatchesTorn(t, s, func(key string, data []byte) { require.NoError(t, bucket.WriteAll(t.Context(), key, data, nil)) })
	})
}

func TestStore_file(t *testing.T) {
	t.Parallel()
	conform(t, "file://"+filepath.Join(t.TempDir(), "new", "dir"))
}

func TestStore_mem(t *testing.T) {
	t.Parallel()
	conform(t, "mem://")
}

// TestStore_s3 is not parallel, because it sets the environment of the process.
func TestStore_s3(t *testing.T) {
	bucket := testenv.RequireS3(t)
	for key, value := range bucket.Environment {
		t.Setenv(key, value)
	}
	conform(t, bucket.URL)
	t.Run("archives by signed URLs", func(t *testing.T) { testSigned(t, bucket) })
}

func TestStore_s3_reports_errors(t *testing.T) {
	bucket := testenv.RequireS3(t)
	for key, value := range bucket.Environment {
		t.Setenv(key, value)
	}
	check := func(address, want string) {
		t.Helper()
		s, err := blobs.Open(t.Context(), address)
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		err = s.Check(t.Context())
		require.Equal(t, run.CodeUnavailable, run.CodeOf(err))
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), bucket.Environment["AWS_SECRET_ACCESS_KEY"])
		_, err = s.PutFrames(t.Context(), run.FrameBatch{Key: keyOf(1), Frames: []run.Frame{{N: 1}}})
		require.Error(t, err)
	}
	check(bucket.Named("absent"), "no bucket s3://absent")
	t.Setenv("AWS_SECRET_ACCESS_KEY", bucket.Environment["AWS_SECRET_ACCESS_KEY"]+"x")
	check(bucket.URL, "the credentials are refused")
	t.Setenv("AWS_ACCESS_KEY_ID", "unknown")
	check(bucket.URL, "reach the blob store s3://drover: ") // the rest depends on the server
}

func TestOpen_clouds(t *testing.T) {
	t.Setenv("AZURE_STORAGE_ACCOUNT", "unknown")
	t.Setenv("AZURE_STORAGE_KEY", "bm9ib2R5")
	for _, address := range []string{"s3://bucket?region=eu-central-1", "gs://bucket?anonymous=true", "azblob://container"} {
		s, err := blobs.Open(t.Context(), address)
		require.NoError(t, err, address)
		require.NoError(t, s.Close())
	}
}

// keyOf returns a key for one test.
func keyOf(task int) run.Key {
	return run.Key{Run: "01jd0000000000000000000000", Task: task, Attempt: 1, Dispatch: 2}
}

func testBatches(t *testing.T, s *blobs.Store) {
	key := keyOf(10)
	batch := run.FrameBatch{Key: key, Frames: []run.Frame{
		{Version: 1, N: 5, Time: time.Unix(1, 2).UTC(), Kind: run.FrameOutput, Stream: run.StreamStderr, Data: []byte{0, 255, '\n'}},
		{Version: 1, N: 6, Time: time.Unix(1, 3).UTC(), Kind: run.FrameStepEnd, Status: run.StatusSuccess},
	}}
	_, err := s.GetFrames(t.Context(), key, 5)
	require.Equal(t, run.CodeNotFound, run.CodeOf(err))
	size, err := s.PutFrames(t.Context(), batch)
	require.NoError(t, err)
	require.Positive(t, size)
	again, err := s.PutFrames(t.Context(), batch)
	require.NoError(t, err, "a stored batch is no error")
	require.Equal(t, size, again)
	for _, frames := range [][]run.Frame{
		{{N: 5, Data: []byte("something else")}}, batch.Frames[:1], append(slices.Clone(batch.Frames), run.Frame{N: 7}),
	} {
		_, err = s.PutFrames(t.Context(), run.FrameBatch{Key: key, Frames: frames})
		require.Equal(t, run.CodeConflict, run.CodeOf(err), "success would mean that these frames are stored")
	}
	got, err := s.GetFrames(t.Context(), key, 5)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(batch.Frames, got))
}

// testBatchesOnce runs concurrent writers that store one batch with different
// frames. One of them succeeds, and its frames are stored. An object store may
// reject the second writer before the object of the first can be read.
func testBatchesOnce(t *testing.T, s *blobs.Store) {
	const writers, rounds = 8, 5
	for round := range rounds {
		key := keyOf(100 + round)
		errs, sent := make([]error, writers), make([][]byte, writers)
		start := make(chan struct{})
		var all sync.WaitGroup
		for w := range writers {
			sent[w] = bytes.Repeat(fmt.Appendf(nil, "writer %d\n", w), 1000*(w+1))
			all.Go(func() {
				<-start
				_, errs[w] = s.PutFrames(t.Context(), run.FrameBatch{Key: key, Frames: []run.Frame{{N: 1, Data: sent[w]}}})
			})
		}
		close(start)
		all.Wait()
		got, err := s.GetFrames(t.Context(), key, 1)
		require.NoError(t, err)
		require.Len(t, got, 1)
		stored := 0
		for w, err := range errs {
			if err == nil {
				stored++
				require.True(t, bytes.Equal(sent[w], got[0].Data), "writer %d succeeded, and other frames are stored", w)
				continue
			}
			require.Contains(t, []run.Code{run.CodeConflict, run.CodeUnavailable}, run.CodeOf(err), err)
		}
		require.Equal(t, 1, stored)
	}
}

// testBatchesTorn writes the possible contents of an unsynced file after a loss
// of power. No successful call has stored them.
func testBatchesTorn(t *testing.T, s *blobs.Store, seedObject func(key string, data []byte)) {
	for i, torn := range []string{"", "{", "\x00\x00\x00\x00", `{"v":1,"n":1}` + "\n" + `{"v":`} {
		key := keyOf(200 + i)
		frames := []run.Frame{{Version: 1, N: 1, Kind: run.FrameOutput, Data: []byte("line\n")}, {Version: 1, N: 2, Kind: run.FrameTaskEnd}}
		seedObject(fmt.Sprintf("logs/%s/%05d/001.002/%012d", key.Run, key.Task, 1), []byte(torn))
		size, err := s.PutFrames(t.Context(), run.FrameBatch{Key: key, Frames: frames})
		require.NoError(t, err)
		require.Positive(t, size)
		got, err := s.GetFrames(t.Context(), key, 1)
		require.NoError(t, err, "%q was taken for the batch", torn)
		require.Empty(t, cmp.Diff(frames, got), "%q was taken for the batch", torn)
	}
}

func testBatchesDeleted(t *testing.T, s *blobs.Store) {
	key := keyOf(11)
	for range 2 {
		_, err := s.PutFrames(t.Context(), run.FrameBatch{Key: key, Frames: []run.Frame{{N: 1}}})
		require.NoError(t, err)
		require.NoError(t, s.DeleteFrames(t.Context(), key, 1))
		_, err = s.GetFrames(t.Context(), key, 1)
		require.Equal(t, run.CodeNotFound, run.CodeOf(err))
		require.NoError(t, s.DeleteFrames(t.Context(), key, 1), "deletion is idempotent")
	}
}
