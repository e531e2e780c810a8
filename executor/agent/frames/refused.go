package frames

import (
	"fmt"

	"github.com/drover-run/drover/internal/truncate"
	"github.com/drover-run/drover/run"
)

// maxSplits is how many times a refused batch is halved to find the invalid frame.
// That is enough to find one frame in a full queue, and it bounds the calls if the
// gateway refuses all frames.
const maxSplits = 16

// redaction is how much of the content of a batch is sent. Every frame number must be
// sent: the numbers of a log have no gaps.
type redaction int

const (
	redactNone redaction = iota
	// redactOutput removes the output and outputs of steps. One line in their place reports
	// that.
	redactOutput
	// redactAll also removes the start and end frames of steps and the task.
	redactAll
	abandonLog // the log is abandoned
)

// apply returns the frames that are sent in place of a batch that was refused for the
// reason why.
func (level redaction) apply(batch []run.Frame, why error) []run.Frame {
	if level == redactNone {
		return batch
	}
	out := make([]run.Frame, len(batch))
	mark, left := -1, 0
	for i, f := range batch {
		switch f.Kind {
		case run.FrameStepStart, run.FrameStepEnd, run.FrameTaskEnd:
			if level == redactOutput {
				out[i] = f
				out[i].Stream, out[i].Data = "", nil // task_end may have output
				continue
			}
		case run.FrameOutput, run.FrameOutputs, run.FrameArchiveRequest:
		}
		if mark < 0 {
			mark = i
		}
		left++
		out[i] = run.Frame{
			Version: run.FrameOutput.Version(), N: f.N, Time: f.Time, Kind: run.FrameOutput, Step: f.Step, Stream: run.StreamSystem,
		}
	}
	if mark >= 0 {
		line := fmt.Sprintf("drover: %d frames of this log are missing here, since they were refused: %v", left, why)
		out[mark].Data = []byte(truncate.String(line, run.MaxFrameData-1, "") + "\n")
	}
	return out
}

// logRefused logs that frames were refused at a level, and abandons the log after the
// last level.
func (s *Sender) logRefused(why error, level redaction, first, last int64) {
	if level == redactNone {
		s.fault = why
	}
	if level+1 < abandonLog {
		s.config.Log.Error("removing the content of frames that the gateway refuses", "error", why, "first", first, "last", last)
		return
	}
	s.config.Log.Error("abandoning the rest of a log that the gateway refuses", "error", why, "from", first)
	s.Abandon()
}
