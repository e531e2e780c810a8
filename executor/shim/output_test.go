package shim

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor/shim/journal"
	"github.com/drover-run/drover/internal/mask"
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
			to := newSink(j, 0)
			to.mu.Lock() // blocks writes to the sink
			p := newPipeReader(r, mask.NewSet(nil), to, run.StreamStdout)
			text := strings.Repeat("one line of many\n", 500)
			_, err = w.WriteString(text)
			require.NoError(t, err)
			require.Eventually(t, func() bool { return p.read.Load() > 0 }, time.Minute, time.Millisecond)
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
			case <-time.After(3 * drainQuiet): // no event marks the absence of the end
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
