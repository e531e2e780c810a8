package shell

import (
	"context"

	"github.com/drover-run/drover/run"
)

// canceled is the error of a call that was given up.
func canceled(ctx context.Context) error {
	err := context.Cause(ctx)
	return &run.Error{Code: run.CodeCanceled, Message: "given up: " + err.Error(), Err: err}
}
