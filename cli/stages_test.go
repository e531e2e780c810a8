package cli_test

import (
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/clitest"
)

// addStages adds a run with a task in each stage, and one whose gateway reports none.
func addStages(ts *testscript.TestScript, _ bool, _ []string) {
	g := ts.Value("gateway").(*clitest.Gateway)
	at := func(seconds int) time.Time { return clitest.Start().Add(time.Duration(seconds) * time.Second) }
	task := func(number int, stage api.Stage, stages ...api.StageTimes) api.Task {
		return api.Task{
			Number: number, Status: api.StatusRunning, Stage: stage, Stages: stages, Attempt: 1, Executor: "host-7", StartedAt: at(0),
			Steps: []api.Step{{Name: "compile", Type: "run"}, {Type: "save_cache"}},
		}
	}
	prepared := api.StageTimes{Stage: "prepare", StartedAt: at(0), EndedAt: at(30)}
	compiled := api.StageTimes{Stage: "step", Step: new(0), StartedAt: at(30), EndedAt: at(40)}
	g.Put(api.Run{ID: "staged", Phase: api.PhaseRunning, Tasks: map[string]api.Task{
		"pulls":  task(0, "prepare", api.StageTimes{Stage: "prepare", StartedAt: at(0)}),
		"builds": task(1, "step", prepared, api.StageTimes{Stage: "step", Step: new(0), StartedAt: at(30)}),
		"saves":  task(2, "transfer", prepared, compiled, api.StageTimes{Stage: "transfer", Step: new(1), StartedAt: at(40)}),
		"cleans": task(3, "cleanup", prepared, compiled, api.StageTimes{Stage: "cleanup", StartedAt: at(40)}),
		"older":  {Number: 4, Status: api.StatusRunning, Attempt: 1, Executor: "host-6", StartedAt: at(0)},
	}})
}
