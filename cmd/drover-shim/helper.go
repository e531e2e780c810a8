package main

import (
	"context"
	"fmt"
	"io"

	"github.com/drover-run/drover/executor/shim"
	"github.com/drover-run/drover/executor/shim/helper"
)

// serveHelper runs the steps of a helper container, which the shim of the task sends.
func serveHelper(ctx context.Context, dir, name string, inherit bool, stderr io.Writer) int {
	o := helper.Options{Dir: dir, Name: name}
	if inherit {
		o.Environment, o.WorkingDir = inheritedEnvironment()
	}
	if err := helper.Serve(ctx, o); err != nil {
		_, _ = fmt.Fprintln(stderr, "drover-shim helper:", err)
		return shim.ExitFiles
	}
	return shim.ExitDone
}
