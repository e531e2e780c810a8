package cli_test

import (
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/clitest"
)

// addOutputs adds a run with outputs and one without.
func addOutputs(ts *testscript.TestScript, _ bool, _ []string) {
	g := ts.Value("gateway").(*clitest.Gateway)
	g.Put(api.Run{ID: "built", Phase: api.PhaseFinished, Result: api.ResultSuccess, Tasks: map[string]api.Task{
		"build": {Number: 0, Status: api.StatusSuccess, Outputs: map[string]string{"version": "1.4", "notes": "one\ntwo"}},
		"lint":  {Number: 1, Status: api.StatusSuccess},
		"pack":  {Number: 2, Status: api.StatusSuccess, Outputs: map[string]string{"file": "a.tar"}},
	}})
	g.Put(api.Run{ID: "none", Phase: api.PhaseRunning, Tasks: map[string]api.Task{"only": {Status: api.StatusRunning}}})
}
