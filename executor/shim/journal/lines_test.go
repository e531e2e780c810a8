package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/mask"
	"github.com/drover-run/drover/run"
)

// endless is a line without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// longLine returns a line of n bytes, newline included.
func longLine(n int64) io.Reader {
	return io.MultiReader(io.LimitReader(endless{}, n-1), strings.NewReader("\n"))
}

func TestLineReader_bounds_a_line(t *testing.T) {
	t.Parallel()
	r := NewLineReader(io.MultiReader(strings.NewReader("first\n"), longLine(1<<30), strings.NewReader("next\n"), longLine(MaxLine), strings.NewReader("last\n")))
	require.Equal(t, "first\n", nextLine(t, r))
	start, err := r.Next()
	require.ErrorIs(t, err, ErrDamaged)
	require.Equal(t, run.CodeInternal, run.CodeOf(err))
	require.True(t, bytes.HasPrefix(start, []byte("xxxx")), "its beginning is returned")
	require.LessOrEqual(t, cap(r.long), 2*MaxLine, "bytes held of a line of 1 GiB")
	require.Equal(t, "next\n", nextLine(t, r), "the rest of the long line is skipped")
	require.LessOrEqual(t, cap(r.long), lineKept, "bytes held after it")
	require.Len(t, nextLine(t, r), MaxLine)
	require.Equal(t, "last\n", nextLine(t, r))
	_, err = r.Next()
	require.ErrorIs(t, err, io.EOF)
}

func nextLine(t *testing.T, r *LineReader) string {
	t.Helper()
	line, err := r.Next()
	require.NoError(t, err)
	return string(line)
}

// stuttering fails before every byte.
type stuttering struct {
	source io.Reader
	failed bool
}

func (r *stuttering) Read(p []byte) (int, error) {
	if r.failed = !r.failed; r.failed {
		return 0, os.ErrDeadlineExceeded
	}
	return r.source.Read(p[:min(1, len(p))])
}

func TestLineReader_continues_after_an_error(t *testing.T) {
	t.Parallel()
	r := NewLineReader(&stuttering{source: strings.NewReader("one\ntwo\n\nthree\ntorn")})
	var got []string
	for {
		line, err := r.Next()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			continue
		}
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		got = append(got, string(line))
	}
	require.Equal(t, []string{"one\n", "two\n", "\n", "three\n"}, got)
}

// The longest line is that of the largest outputs, with the longest escapes, in the
// copy.
func TestMaxLine_is_enough_for_every_frame(t *testing.T) {
	t.Parallel()
	const name = "k"
	outputs := map[string]string{name: strings.Repeat("<", run.MaxOutputBytes-len(name))}
	line := appendFrame(nil, &run.Frame{Version: 1, N: 1 << 62, Time: time.Now(), Kind: run.FrameOutputs, Step: run.MaxSteps, Outputs: outputs})
	require.Greater(t, len(line), 6*run.MaxOutputBytes)

	many := make(map[string]string)
	for i, used := 0, 0; ; i++ {
		key := fmt.Sprintf("%x", i)
		if used += len(key); used > run.MaxOutputBytes {
			break
		}
		many[key] = ""
	}
	manyKeys := appendFrame(nil, &run.Frame{Version: 1, N: 1 << 62, Time: time.Now(), Kind: run.FrameOutputs, Step: run.MaxSteps, Outputs: many})

	result := run.TaskResult{Status: run.StatusFailed, Reason: strings.Repeat("\x01", run.MaxReason), Started: time.Now(), Ended: time.Now()}
	code := -1 << 31
	for range run.MaxSteps {
		result.Steps = append(result.Steps, run.StepResult{Status: run.StatusNotStarted, ExitCode: &code, TimedOut: true, Started: time.Now(), Ended: time.Now()})
	}
	end := appendFrame(nil, &run.Frame{Version: 1, N: 1 << 62, Time: time.Now(), Kind: run.FrameTaskEnd, Result: &result})

	masked := mask.NewSet([]string{"a"}).String("a")
	require.LessOrEqual(t, len(masked), 6, "a masked byte is no longer than one that JSON escapes")

	const nonce = 128
	for _, text := range [][]byte{line, manyKeys, end} {
		require.LessOrEqual(t, nonce+len(text), MaxLine)
		n, ok := numberOf(text)
		require.True(t, ok)
		require.EqualValues(t, 1<<62, n)
	}
}

func TestReader(t *testing.T) {
	t.Parallel()
	line := func(n int64) string {
		return string(appendFrame(nil, &run.Frame{Version: 1, N: n, Kind: run.FrameOutput, Stream: run.StreamStdout, Time: time.Now().UTC(), Data: []byte("x")}))
	}
	end := string(appendFrame(nil, &run.Frame{Version: 1, N: 6, Kind: run.FrameTaskEnd, Time: time.Now()}))
	for name, c := range map[string]struct {
		text string
		want []int64
		why  string
	}{
		"whole":                          {text: line(4) + line(5) + end, want: []int64{4, 5, 6}},
		"nothing":                        {},
		"torn":                           {text: line(4) + line(5)[:20], want: []int64{4}},
		"gap":                            {text: line(4) + line(7), want: []int64{4}, why: "lacks the frames 5 to 6"},
		"bytes cut out":                  {text: line(4)[:30] + line(5)[40:] + line(6), why: "is not a frame"},
		"bytes cut at the end of a line": {text: line(4) + line(5)[:20] + line(6), want: []int64{4}, why: "is not a frame"},
		"backwards":                      {text: line(4) + line(5) + line(5), want: []int64{4, 5}, why: "has frame 5 after frame 5"},
		"garbage":                        {text: line(4) + "\x00\x00\n" + line(5), want: []int64{4}, why: "after frame 4"},
		"a line that a write behind a cut has made": {text: line(4) + "\x00\x00\x00" + line(5), want: []int64{4}, why: "after frame 4"},
		"garbage first": {text: "garbage\n" + line(4), why: "first line"},
		"no number":     {text: `{"v":1,"n":` + "\n", why: "first line"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []int64
			var fault error
			for f, err := range Scan(iotest.HalfReader(strings.NewReader(c.text)), 1) {
				if fault = err; err == nil {
					got = append(got, f.N)
				}
			}
			require.Equal(t, c.want, got)
			if c.why == "" {
				require.NoError(t, fault)
				return
			}
			require.ErrorIs(t, fault, ErrDamaged)
			require.Contains(t, fault.Error(), c.why)
		})
	}
}

func TestScan_of_an_endless_line(t *testing.T) {
	t.Parallel()
	var fault error
	for _, err := range Scan(io.LimitReader(endless{}, 256<<20), 1) {
		fault = err
	}
	require.ErrorIs(t, fault, ErrDamaged)
	require.Contains(t, fault.Error(), "more than 8 MiB")
}
