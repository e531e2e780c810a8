package agent

import (
	"context"
	"errors"

	"github.com/drover-run/drover/run"
)

// codeOf returns the code of an error as run.CodeOf does, but reports an abandoned
// call as a timeout or a cancellation and not as an internal error.
func codeOf(err error) run.Code {
	code := run.CodeOf(err)
	switch {
	case code != run.CodeInternal:
	case errors.Is(err, context.DeadlineExceeded):
		return run.CodeTimeout
	case errors.Is(err, context.Canceled):
		return run.CodeCanceled
	}
	return code
}
