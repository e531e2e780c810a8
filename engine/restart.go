package engine

import (
	"context"

	"github.com/drover-run/drover/run"
)

// Restart implements run.Service.
func (e *Engine) Restart(context.Context, run.RestartRequest) (run.Run, error) {
	return run.Run{}, run.Errorf(run.CodeNotSupported, "restarting is not supported yet")
}
