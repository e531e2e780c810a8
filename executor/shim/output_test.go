package shim

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor/shim/journal"
	"github.com/drover-run/drover/internal/mask"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

// The output of a step is written before its end, also if the reader was delayed
// for so long that the pipe seemed quiet, and another process holds the pipe open.
func TestDrain_of_a_reader_that_is_late(t *testing.T) {
	t.Parallel()
	for name, finish := range map[string]bool{"at the end of the step": false, "at the end of the task": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			j, err := journal.Create(dir, journal.Options{First: 1})
			require.NoError(t, err)
			r, w, err := os.Pipe()
			require.NoError(t, err)
			t.Cleanup(func() { _ = w.Close() })
			to := newSink(j, 0, false)
			to.mu.Lock() // blocks writes to the sink
			p := newPipeReader(onePipe{r, run.StreamStdout}, mask.NewSet(nil), to)
			text := strings.Repeat("one line of many\n", 500)
			_, err = w.WriteString(text)
			require.NoError(t, err)
			testenv.Await(t, func() (bool, string) { return p.read.Load() > 0, "nothing was read" })
			_, err = w.WriteString("the last\n")
			require.NoError(t, err)

			ended := make(chan struct{})
			go func() {
				defer close(ended)
				if finish {
					p.finish()
				} else {
					(&task{}).drain([]*pipeReader{p})
				}
			}()
			select {
			case <-ended:
				to.mu.Unlock()
				t.Fatal("it did not wait for the output")
			case <-time.After(3 * drainQuiet): //nolint:forbidigo // no event marks the absence of the end
			}
			to.mu.Unlock()
			<-ended
			to.flush()
			var output strings.Builder
			for line, err := range journal.ReadLines(dir, 1) {
				require.NoError(t, err)
				f, err := journal.Decode(line)
				require.NoError(t, err)
				output.Write(f.Data)
			}
			require.Equal(t, text+"the last\n", output.String())
			p.finish()
		})
	}
}

// readOutput returns the output frames of a journal.
func readOutput(t *testing.T, dir string) (frames []run.Frame) {
	t.Helper()
	for line, err := range journal.ReadLines(dir, 1) {
		require.NoError(t, err)
		f, err := journal.Decode(line)
		require.NoError(t, err)
		require.LessOrEqual(t, len(f.Data), run.MaxFrameData)
		frames = append(frames, f)
	}
	return frames
}

// A sink that keeps lines whole writes each at the place of its end, in frames of its
// stream, and bounds what it holds back.
func TestSink_lines(t *testing.T) {
	t.Parallel()
	const out, errs = run.StreamStdout, run.StreamStderr
	type piece struct {
		stream run.Stream
		text   string
	}
	long := strings.Repeat("x", maxLine-1)
	for name, tt := range map[string]struct{ in, want []piece }{
		"whole lines":           {[]piece{{out, "a\n"}, {errs, "b\n"}, {out, "c\nd\n"}}, []piece{{out, "a\n"}, {errs, "b\n"}, {out, "c\nd\n"}}},
		"interrupted":           {[]piece{{out, "a"}, {errs, "b\n"}, {out, "c\n"}}, []piece{{errs, "b\n"}, {out, "ac\n"}}},
		"both interrupted":      {[]piece{{out, "a"}, {errs, "b"}, {out, "c\nd"}, {errs, "e\n"}, {out, "f\n"}}, []piece{{out, "ac\n"}, {errs, "be\n"}, {out, "df\n"}}},
		"ends at the end":       {[]piece{{out, "a"}, {errs, "b\n"}, {errs, "c"}}, []piece{{errs, "b\n"}, {out, "a"}, {errs, "c"}}},
		"as long as allowed":    {[]piece{{out, long}, {errs, "b\n"}, {out, "\n"}}, []piece{{errs, "b\n"}, {out, long + "\n"}}},
		"too long":              {[]piece{{out, long}, {out, "xx"}, {errs, "b\n"}, {out, "\n"}}, []piece{{out, long + "xx"}, {errs, "b\n"}, {out, "\n"}}},
		"too long after a line": {[]piece{{out, "a"}, {out, "\n" + long + "xx"}, {errs, "b\n"}}, []piece{{out, "a\n" + long + "xx"}, {errs, "b\n"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			j, err := journal.Create(dir, journal.Options{First: 1})
			require.NoError(t, err)
			to := newSink(j, 0, true)
			for _, p := range tt.in {
				to.add(p.stream, []byte(p.text))
			}
			to.finish(run.StreamStdout, run.StreamStderr)
			require.NoError(t, j.Close())
			var got []piece
			for _, f := range readOutput(t, dir) {
				if n := len(got); n > 0 && got[n-1].stream == f.Stream {
					got[n-1].text += string(f.Data)
				} else {
					got = append(got, piece{f.Stream, string(f.Data)})
				}
			}
			require.Equal(t, tt.want, got)
		})
	}
}

// The beginnings of lines are written though their ends do not come, however much the
// other stream prints meanwhile.
func TestSink_begun_lines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j, err := journal.Create(dir, journal.Options{First: 1})
	require.NoError(t, err)
	to := newSink(j, 0, true)
	to.add(run.StreamStdout, []byte("prompt"))
	shown := func() (bool, string) {
		to.add(run.StreamStderr, []byte("half "))
		to.add(run.StreamStderr, []byte("line\n"))
		for _, f := range readOutput(t, dir) {
			if string(f.Data) == "prompt" {
				return true, ""
			}
		}
		return false, "the prompt is not shown"
	}
	testenv.Await(t, shown)
	to.finish(run.StreamStdout, run.StreamStderr)
	require.NoError(t, j.Close())
}

// Two pipes that are read each by itself, as on systems without a source for both,
// lose no byte and break no line.
func TestSeparatePipes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j, err := journal.Create(dir, journal.Options{First: 1})
	require.NoError(t, err)
	pipes, err := separatePipes()
	require.NoError(t, err)
	to := newSink(j, 0, true)
	var readers []*pipeReader
	for _, s := range pipes.sources {
		readers = append(readers, newPipeReader(s, mask.NewSet(nil), to))
	}
	var want [2]string
	for i := range 2000 {
		for n, w := range []*os.File{pipes.stdout, pipes.stderr} {
			text := strconv.Itoa(n) + " line " + strconv.Itoa(i)
			_, err := w.WriteString(text)
			require.NoError(t, err)
			_, err = w.WriteString(" end\n")
			require.NoError(t, err)
			want[n] += text + " end\n"
		}
	}
	pipes.closeWriters()
	for _, r := range readers {
		r.finish()
	}
	require.NoError(t, j.Close())
	var got [2]string
	all := ""
	for _, f := range readOutput(t, dir) {
		n := 0
		if f.Stream == run.StreamStderr {
			n = 1
		}
		got[n] += string(f.Data)
		all += string(f.Data)
	}
	require.Equal(t, want, got)
	for line := range strings.Lines(all) {
		require.Regexp(t, `^[01] line [0-9]+ end\n$`, line)
	}
}
