package frames

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

// taskFrames returns the frames of a task with lines of one step.
func taskFrames(lines int) []run.Frame {
	frames := []run.Frame{{Kind: run.FrameStepStart, Step: 0}}
	for i := range lines {
		frames = append(frames, run.Frame{Kind: run.FrameOutput, Stream: run.StreamStdout, Data: fmt.Appendf(nil, "line %d\n", i)})
	}
	frames = append(frames, run.Frame{Kind: run.FrameStepEnd, Status: run.StatusSuccess},
		run.Frame{Kind: run.FrameTaskEnd, Step: run.SetupStep, Result: &run.TaskResult{Status: run.StatusSuccess}})
	for i := range frames {
		frames[i].Version, frames[i].N = 1, int64(i)+1
	}
	return frames
}

// The lines of the last frame are output too.
func TestRedaction_removes_the_output_of_the_end(t *testing.T) {
	t.Parallel()
	all := taskFrames(1)
	end := &all[len(all)-1]
	end.Stream, end.Data = run.StreamSystem, []byte("service db had ended\n")
	got := redactOutput.apply(all, run.Errorf(run.CodeInvalid, "no"))
	require.Equal(t, "drover: 1 frames of this log are missing here, since they were refused: no\n", text(got))
	last := got[len(got)-1]
	require.Equal(t, run.FrameTaskEnd, last.Kind)
	require.Equal(t, end.Result, last.Result)
	require.Empty(t, last.Stream)
	require.NotEmpty(t, end.Data, "the frame itself stays")
}

func text(frames []run.Frame) string {
	var b strings.Builder
	for _, f := range frames {
		b.Write(f.Data)
	}
	return b.String()
}

// refused returns an executor API that refuses certain frames.
func refused(holds func(f run.Frame) bool) func([]run.Frame) error {
	return func(frames []run.Frame) error {
		for _, f := range frames {
			if holds(f) {
				return run.Errorf(run.CodeTooLarge, "frame %d is too large", f.N)
			}
		}
		return nil
	}
}

func TestFrameSender_marks_refused_frames(t *testing.T) {
	t.Parallel()
	const lines = 1000
	all := taskFrames(lines)
	cases := map[string]struct {
		refuse  func([]run.Frame) error
		missing string // contained in the log
		lost    int    // lines
		kinds   int    // frames that are not output
		calls   int    // at most
	}{
		"one line":       {refused(func(f run.Frame) bool { return string(f.Data) == "line 700\n" }), "1 frames of this log are missing here", 1, 3, 40},
		"two lines":      {refused(func(f run.Frame) bool { return f.Stream == run.StreamStdout && (f.N == 100 || f.N == 900) }), "frame 100 is too large", 20, 3, 50},
		"all lines":      {refused(func(f run.Frame) bool { return f.Stream == run.StreamStdout }), "missing here", lines, 3, 60},
		"the end":        {refused(func(f run.Frame) bool { return f.Kind == run.FrameTaskEnd }), "1 frames of this log are missing here", 0, 2, 40},
		"what is stored": {bounded(300), "", 0, 3, 40},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			withSender(t, start(), func(t *testing.T, s *Sender, d *recordingAPI) {
				d.refuse = c.refuse
				for _, f := range all {
					s.Push(f)
				}
				s.Finish(int64(len(all)))
				<-s.Done
				require.LessOrEqual(t, d.calls, c.calls)
				require.Len(t, d.frames, len(all), "every number is sent")
				kinds := 0
				for i, f := range d.frames {
					require.EqualValues(t, i+1, f.N)
					if f.Kind != run.FrameOutput {
						kinds++
					}
				}
				require.Equal(t, c.kinds, kinds)
				require.Contains(t, text(d.frames), c.missing)
				require.GreaterOrEqual(t, strings.Count(text(d.frames), "line "), lines-c.lost)
				require.Equal(t, run.StatusSuccess, s.steps.Results()[0].Status, "the steps are known all the same")
			})
		})
	}
}

// bounded refuses frames in other bounds than before, as a gateway does that has
// stored some of them.
func bounded(stored int64) func([]run.Frame) error {
	return func(frames []run.Frame) error {
		if first, last := frames[0].N, frames[len(frames)-1].N; first <= stored && last > stored {
			return run.Errorf(run.CodeInvalid, "frames come in other bounds than before")
		}
		return nil
	}
}

// A gateway that refuses everything costs few calls, and the sending ends: the
// task's result does not wait for it.
func TestFrameSender_abandons_a_refused_log(t *testing.T) {
	withSender(t, start(), func(t *testing.T, s *Sender, d *recordingAPI) {
		d.refuse = func([]run.Frame) error { return run.Errorf(run.CodeInvalid, "no") }
		for _, f := range taskFrames(1000) {
			s.Push(f)
		}
		<-s.Done
		require.Less(t, d.calls, 60)
		require.Empty(t, d.frames)
	})
}

// If the gateway refuses all output, the sender does not try each half of each
// batch.
func TestFrameSender_stops_searching_when_all_is_refused(t *testing.T) {
	withSender(t, start(), func(t *testing.T, s *Sender, d *recordingAPI) {
		d.refuse = refused(func(f run.Frame) bool { return f.Stream == run.StreamStdout })
		const batches, size = 20, run.MaxFrameData
		n := int64(0)
		for range batches * batchBytes / size {
			n++
			f := output(n, size)
			f.Stream = run.StreamStdout
			require.NoError(t, s.Offer(t.Context(), f))
		}
		s.Finish(n)
		<-s.Done
		require.Less(t, d.calls, 2*batches+60)
		require.Len(t, d.frames, int(n))
	})
}
