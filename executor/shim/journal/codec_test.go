package journal

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/drover-run/drover/run"
)

// The fast path writes and reads the same as encoding/json.
func TestCodec_matches_the_standard_library(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := run.Frame{
			Version: 1, N: rapid.Int64Range(1, math.MaxInt64).Draw(t, "n"), Step: rapid.IntRange(-1, 300).Draw(t, "step"),
			Kind:   rapid.SampledFrom([]run.FrameKind{run.FrameOutput, run.FrameOutput, run.FrameStepEnd}).Draw(t, "kind"),
			Stream: rapid.SampledFrom([]run.Stream{"", run.StreamStdout, run.StreamStderr, run.StreamSystem}).Draw(t, "stream"),
			Data:   rapid.SliceOf(rapid.Byte()).Draw(t, "data"),
			Time:   time.Unix(rapid.Int64Range(-1e9, 1e11).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanos")).UTC(),
		}
		want, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		line := appendFrame(nil, &f)
		if string(line) != string(want)+"\n" {
			t.Fatalf("got %s, want %s", line, want)
		}
		got, err := Decode(line)
		if err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(got)
		if err != nil || string(again) != string(want) {
			t.Fatalf("read %s, want %s (%v)", again, want, err)
		}
	})
}

func TestCodec_keeps_frames_with_invalid_times(t *testing.T) {
	t.Parallel()
	never := time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	f := run.Frame{Version: 1, N: 1, Kind: run.FrameTaskEnd, Time: never, Status: run.StatusSuccess, Result: &run.TaskResult{
		Status: run.StatusSuccess, Started: never, Ended: never,
		Steps: []run.StepResult{{Status: run.StatusSuccess, Started: never, Ended: never}},
	}}
	got, err := Decode(appendFrame(nil, &f))
	require.NoError(t, err)
	require.Equal(t, run.Frame{Version: 1, N: 1, Kind: run.FrameTaskEnd, Status: run.StatusSuccess, Result: &run.TaskResult{
		Status: run.StatusSuccess, Steps: []run.StepResult{{Status: run.StatusSuccess}},
	}}, got)
}

func FuzzDecode(f *testing.F) {
	f.Add(`{"v":1,"n":1,"t":"2026-11-21T03:00:00Z","k":"output","s":0,"o":"stdout","d":"aGk="}` + "\n")
	f.Add(`{"v":1,"n":1,"t":"2026-11-21T03:00:00Z","k":"output","s":0,"o":"stdout","d":"aGk=","st":"x"}` + "\n")
	f.Add(`{"v":1,"n":07,"t":"2026-11-21t03:00:00Z","k":"output","s":+0,"o":"stdout","d":"aG\nk="}` + "\n")
	f.Fuzz(func(t *testing.T, line string) {
		short, ok := decodeOutput([]byte(line))
		var long run.Frame
		if !ok || json.Unmarshal([]byte(line), &long) != nil {
			return
		}
		// Lines that both can read give the same frame.
		require.True(t, long.Time.Equal(short.Time))
		require.Equal(t, string(long.Data), string(short.Data))
		long.Time, short.Time, long.Data, short.Data = time.Time{}, time.Time{}, nil, nil
		require.Equal(t, long, short)
	})
}

func BenchmarkCodec(b *testing.B) {
	f := run.Frame{Version: 1, N: 12345, Kind: run.FrameOutput, Stream: run.StreamStdout, Time: time.Now().UTC(), Data: make([]byte, run.MaxFrameData)}
	line := appendFrame(nil, &f)
	b.Run("write", func(b *testing.B) {
		b.SetBytes(run.MaxFrameData)
		var buf []byte
		for b.Loop() {
			buf = appendFrame(buf[:0], &f)
		}
	})
	b.Run("read", func(b *testing.B) {
		b.SetBytes(run.MaxFrameData)
		for b.Loop() {
			_, err := Decode(line)
			require.NoError(b, err)
		}
	})
	b.Run("read_by_the_standard_library", func(b *testing.B) {
		b.SetBytes(run.MaxFrameData)
		for b.Loop() {
			var got run.Frame
			require.NoError(b, json.Unmarshal(line, &got))
		}
	})
}
