package blobs_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/blobs"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

// conformance is what every blob store must do.
var conformance = map[string]func(t *testing.T, s *blobs.Store){
	"archives":                   testArchives,
	"batches":                    testBatches,
	"batches are written once":   testBatchesOnce,
	"batches are deleted":        testBatchesDeleted,
	"packed logs":                testPack,
	"packed logs that break off": testPackBroken,
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
}

func TestStore_file(t *testing.T) {
	t.Parallel()
	conform(t, "file://"+filepath.Join(t.TempDir(), "new", "dir"))
}

func TestStore_mem(t *testing.T) {
	t.Parallel()
	conform(t, "mem://")
}

// TestStore_s3 is not parallel: the credentials are those of the process.
func TestStore_s3(t *testing.T) {
	bucket := testenv.RequireS3(t)
	for key, value := range bucket.Environment {
		t.Setenv(key, value)
	}
	conform(t, bucket.URL)
	t.Run("archives by signed URLs", func(t *testing.T) { testSigned(t, bucket) })
}

func TestStore_s3_says_what_is_wrong(t *testing.T) {
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
	check(bucket.Named("nobodys"), "there is no bucket s3://nobodys")
	t.Setenv("AWS_SECRET_ACCESS_KEY", bucket.Environment["AWS_SECRET_ACCESS_KEY"]+"x")
	check(bucket.URL, "the credentials are refused")
	t.Setenv("AWS_ACCESS_KEY_ID", "nobody")
	check(bucket.URL, "reaching the blob store s3://drover: ") // and how this server puts it
}

func TestOpen_clouds(t *testing.T) {
	t.Setenv("AZURE_STORAGE_ACCOUNT", "nobody")
	t.Setenv("AZURE_STORAGE_KEY", "bm9ib2R5")
	for _, address := range []string{"s3://bucket?region=eu-central-1", "gs://bucket?anonymous=true", "azblob://container"} {
		s, err := blobs.Open(t.Context(), address)
		require.NoError(t, err, address)
		require.NoError(t, s.Close())
	}
}

// keyOf is a key of a test's own.
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
	other := batch
	other.Frames = []run.Frame{{N: 5, Data: []byte("something else")}}
	_, err = s.PutFrames(t.Context(), other)
	require.NoError(t, err, "a batch that is there is left as it is")
	got, err := s.GetFrames(t.Context(), key, 5)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(batch.Frames, got))
}

// testBatchesOnce has many write one batch at once, each another: whoever was
// first, all read the same as soon as they can read it. An object store may
// refuse the second before the first can be read.
func testBatchesOnce(t *testing.T, s *blobs.Store) {
	const writers, rounds = 8, 5
	for round := range rounds {
		key := keyOf(100 + round)
		seen := make([][]byte, writers)
		start := make(chan struct{})
		var all sync.WaitGroup
		for w := range writers {
			all.Go(func() {
				frames := []run.Frame{{N: 1, Data: bytes.Repeat(fmt.Appendf(nil, "writer %d\n", w), 1000*(w+1))}}
				<-start
				if _, err := s.PutFrames(t.Context(), run.FrameBatch{Key: key, Frames: frames}); err != nil {
					t.Errorf("writer %d: %v", w, err)
					return
				}
				got, err := s.GetFrames(t.Context(), key, 1)
				for began := time.Now(); run.CodeOf(err) == run.CodeNotFound && time.Since(began) < 10*time.Second; {
					got, err = s.GetFrames(t.Context(), key, 1)
				}
				if err != nil || len(got) != 1 {
					t.Errorf("writer %d reads %d frames: %v", w, len(got), err)
					return
				}
				seen[w] = got[0].Data
			})
		}
		close(start)
		all.Wait()
		for w := range writers {
			require.True(t, bytes.Equal(seen[0], seen[w]), "writers 0 and %d read different batches", w)
		}
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
		require.NoError(t, s.DeleteFrames(t.Context(), key, 1), "it is not there")
	}
}
