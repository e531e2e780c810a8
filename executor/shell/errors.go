package shell

import (
	"context"

	"github.com/drover-run/drover/run"
)

// canceled returns the error of a call whose context ended.
func canceled(ctx context.Context) error {
	err := context.Cause(ctx)
	return &run.Error{Code: run.CodeCanceled, Message: "canceled: " + err.Error(), Err: err}
}
