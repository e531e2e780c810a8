package executor

import (
	"fmt"
	"log/slog"

	"github.com/drover-run/drover/run"
)

// maxSplits is how often a batch that the desk refuses is halved to find what is
// wrong in it. That is enough to find one frame among as many as fill the queue,
// and it bounds the calls where all are refused.
const maxSplits = 16

// sent is how much of the frames of a batch is sent. Each number must be sent:
// the log has no gaps in its numbers.
type sent int

const (
	asTheyAre sent = iota
	// marked leaves out what steps have written and put out. A line in its place
	// says so.
	marked
	// blank leaves out the beginning and the end of steps and task as well.
	blank
	nothing // the log is given up
)

// of returns the frames that are sent for those of a batch, which were refused
// for the reason given.
func (as sent) of(batch []run.Frame, why error) []run.Frame {
	if as == asTheyAre {
		return batch
	}
	out := make([]run.Frame, len(batch))
	mark, left := -1, 0
	for i, f := range batch {
		switch f.Kind {
		case run.FrameStepStart, run.FrameStepEnd, run.FrameTaskEnd:
			if as == marked {
				out[i] = f
				continue
			}
		case run.FrameOutput, run.FrameOutputs, run.FrameAsk:
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
		out[mark].Data = []byte(clip(line, run.MaxFrameData-1) + "\n")
	}
	return out
}

// leaveOut logs that frames were refused that were sent in a way, and gives the
// log up after the last one.
func (s *shipper) leaveOut(why error, as sent, first, last int64) {
	if as == asTheyAre {
		s.fault = why
	}
	if as+1 < nothing {
		s.log.Error("leaving out frames that the desk refuses", slog.Any("error", why), slog.Int64("first", first), slog.Int64("last", last))
		return
	}
	s.log.Error("giving up on the rest of a log that the desk refuses", slog.Any("error", why), slog.Int64("from", first))
	s.giveUp()
}
