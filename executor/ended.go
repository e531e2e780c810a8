package executor

import (
	"errors"
	"strings"

	"github.com/drover-run/drover/internal/truncate"
	"github.com/drover-run/drover/run"
)

// endedError adds the cause of an environment's end to an error code.
type endedError struct {
	err   *run.Error
	cause run.Cause
}

func (e *endedError) Error() string { return e.err.Error() }
func (e *endedError) Unwrap() error { return e.err }

// Ended returns the error that Handle.Events yields for an environment that ended
// without a task_end frame: CodeNotFound with the reason, and a cause such as
// run.CauseOOM. A driver without a cause may yield any error of CodeNotFound; the
// cause is then run.CauseVanished.
func Ended(cause run.Cause, reason string) error {
	return &endedError{err: run.Errorf(run.CodeNotFound, "%s", reason), cause: cause}
}

// ErrDamaged is wrapped by the errors that Damaged returns.
var ErrDamaged = errors.New("the journal of the environment is damaged")

// Damaged returns the error that Handle.Events yields if the journal of the
// environment cannot be read, or lacks a frame; err is the reason. Its code is
// CodeInternal as long as the environment may continue: the executor calls Events
// again, since only the end of the environment ends the task. ended means that
// nothing is written to the journal any more; the code is then CodeNotFound, as
// with Ended.
func Damaged(err error, ended bool) error {
	code := run.CodeInternal
	if ended {
		code = run.CodeNotFound
	}
	return &run.Error{Code: code, Message: "the task's journal is damaged, so its result is not known: " + err.Error(), Err: ErrDamaged}
}

// CauseOf returns the cause that Ended stored in err, run.CauseVanished if none.
func CauseOf(err error) run.Cause {
	var e *endedError
	if errors.As(err, &e) && e.cause != "" {
		return e.cause
	}
	return run.CauseVanished
}

// WithNotes adds what only the driver knows about the end of a task to its last frame:
// each note is a part of the reason, and a line of the log. A frame of its own would
// change the number of the last frame for a reader to whom the driver has no notes.
func WithNotes(end run.Frame, notes []string) run.Frame {
	if len(notes) == 0 {
		return end
	}
	result := *end.Result
	result.Reason = truncate.String(result.Reason+"; "+strings.Join(notes, "; "), run.MaxReason, "...")
	end.Result, end.Stream = &result, run.StreamSystem
	end.Data = []byte(truncate.String("drover: "+strings.Join(notes, "\ndrover: "), run.MaxFrameData-1, "...") + "\n")
	return end
}
