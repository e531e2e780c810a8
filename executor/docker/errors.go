package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/client"

	"github.com/drover-run/drover/run"
)

// daemonError wraps an error of the client with a code and with the operation
// that failed.
func daemonError(err error, format string, args ...any) error {
	doing := fmt.Sprintf(format, args...)
	return &run.Error{Code: codeOf(err), Message: doing + ": " + daemonText(err), Err: err}
}

// refused is daemonError for a call whose parameters come from the task. If the
// daemon answers at all, the task's definition is at fault.
func refused(err error, format string, args ...any) error {
	code := codeOf(err)
	if code != run.CodeUnavailable && code != run.CodeCanceled && code != run.CodeTimeout {
		code = run.CodeInvalid
	}
	doing := fmt.Sprintf(format, args...)
	return &run.Error{Code: code, Message: doing + ": " + daemonText(err), Err: err}
}

func codeOf(err error) run.Code {
	var known *run.Error
	var network net.Error
	switch {
	case errors.As(err, &known):
		return known.Code
	case errors.Is(err, context.Canceled):
		return run.CodeCanceled
	case errors.Is(err, context.DeadlineExceeded):
		return run.CodeTimeout
	case client.IsErrConnectionFailed(err), cerrdefs.IsUnavailable(err), errors.As(err, &network),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return run.CodeUnavailable
	case cerrdefs.IsNotFound(err):
		return run.CodeNotFound
	case cerrdefs.IsConflict(err):
		return run.CodeConflict
	case cerrdefs.IsInvalidArgument(err):
		return run.CodeInvalid
	case cerrdefs.IsUnauthorized(err), cerrdefs.IsPermissionDenied(err):
		return run.CodeForbidden
	}
	return run.CodeInternal
}

// daemonText returns the daemon's message without the client's prefix.
func daemonText(err error) string {
	return strings.TrimPrefix(err.Error(), "Error response from daemon: ")
}
