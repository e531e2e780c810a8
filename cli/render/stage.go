package render

import (
	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/run"
)

// TaskStatus returns the status of a task for people. That of a running task says which
// stage it is in, unless it runs a step or an older gateway does not report the stage.
func TaskStatus(status api.Status, stage api.Stage) string {
	if status == api.StatusRunning {
		switch run.Stage(stage) {
		case run.StagePrepare:
			return "preparing"
		case run.StageTransfer:
			return "uploading"
		case run.StageCleanup:
			return "cleaning up"
		case run.StageStep:
		}
	}
	return string(status)
}
