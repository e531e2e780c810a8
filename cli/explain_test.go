package cli_test

import (
	"fmt"
	"maps"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/clitest"
)

// callAs makes the caller one with scopes, as in `as read`, or with roles in the group
// /test, as in `as submitter,approver /test/**`.
func callAs(ts *testscript.TestScript, _ bool, args []string) {
	s, names := api.Session{Subject: "ada", Scopes: []string{}}, strings.Split(args[0], ",")
	if len(args) == 1 {
		s.Scopes = names
	} else {
		for _, role := range names {
			s.Bindings = append(s.Bindings, api.RoleBinding{Role: api.RoleBindingRole(role), Groups: args[1:]})
		}
	}
	ts.Value("gateway").(*clitest.Gateway).SetSession(s)
}

// addWaitingRuns adds runs for all causes of waiting, with the reasons of a gateway.
func addWaitingRuns(ts *testscript.TestScript, _ bool, _ []string) {
	g := ts.Value("gateway").(*clitest.Gateway)
	g.Put(api.Run{
		ID: "grouped", Group: "/test/a", Phase: api.PhaseQueued, Admission: api.AdmissionManual, Changegroups: []string{"deploys", "the floor's"},
		Reason: "waits for change group deploys: position 2 in queue, 1 of 1 slots held by run-0",
	})
	tasks := map[string]api.Task{
		"build":         {Number: 0, Status: api.StatusSuccess, Pool: "shell"},
		"gate":          {Number: 1, Status: api.StatusWaitingApproval, Reason: "waits for approval: 0 of 1 given"},
		"gate[OS=x]":    {Number: 2, Status: api.StatusWaitingApproval, Reason: "waits for approval: 1 of 2 given"},
		"test":          {Number: 3, Status: api.StatusQueued, Pool: "gpu", Reason: "no executor of pool gpu is online"},
		"lint":          {Number: 4, Status: api.StatusQueued, Pool: "gpu", Reason: "no executor of pool gpu is online"},
		"deploy":        {Number: 5, Status: api.StatusQueued, Pool: "shell", Reason: "all 4 slots of pool shell are in use; position 9 in queue, about 2m0s"},
		"lost":          {Number: 6, Status: api.StatusRunning, Pool: "shell", Reason: "executor host-7 is out of contact since 12:00:00"},
		"goes on":       {Number: 7, Status: api.StatusRunning, Pool: "shell"},
		"failed before": {Number: 8, Status: api.StatusFailed, Reason: "step 0 exited with code 3"},
	}
	for i := range 13 {
		tasks[fmt.Sprintf("after-%02d", i)] = api.Task{Number: 10 + i, Status: api.StatusNotStarted, Reason: "waits for gate"}
	}
	g.Put(api.Run{ID: "busy", Group: "/test/b", Phase: api.PhaseRunning, Tasks: tasks})
	slots := map[string]api.Task{"a": {
		Status: api.StatusWaitingChangegroup, Changegroups: []api.TaskChangeGroup{{Name: "the lab", Units: 1}},
		Reason: "waits for change group the lab: position 1 in queue, 1 of 1 slots held by run-0",
	}}
	g.Put(api.Run{ID: "slots", Group: "/test/b", Phase: api.PhaseRunning, Tasks: slots})
	two := maps.Clone(slots)
	two["b"] = api.Task{Number: 1, Status: api.StatusWaitingChangegroup, Changegroups: []api.TaskChangeGroup{{Name: "gpus", Units: 2}}, Reason: "waits for change group gpus: ..."}
	g.Put(api.Run{ID: "two-slots", Group: "/test/b", Phase: api.PhaseRunning, Tasks: two})
	g.Put(api.Run{ID: "idle", Phase: api.PhaseRunning, Tasks: map[string]api.Task{"a": {Status: api.StatusRunning}}})
	g.Put(api.Run{
		ID: "ended", Group: "/test/c", Phase: api.PhaseFinished, Result: api.ResultFailed, Reason: "a: step 0 exited with code 3",
		Tasks: map[string]api.Task{
			"a":       {Number: 1, Status: api.StatusFailed, Reason: "x", Executor: "host-7", Attempt: 1},
			"allowed": {Number: 0, Status: api.StatusFailed, Reason: "y", Executor: "host-7", Attempt: 1, AllowFailure: true},
		},
		Tests: api.TestSummary{Tests: 5, Failed: 2, FailedNames: []string{"shop.Cart", "shop.Till"}},
	})
	g.Write("ended", "a", 1, "FAIL: total is 3, want 4\n")
	g.Write("ended", "allowed", 1, "FAIL: as allowed\n")
	many := map[string]api.Task{
		"never": {Number: 0, Status: api.StatusFailed, Reason: "no executor"}, // it has no log
		"fine":  {Number: 1, Status: api.StatusSuccess, Executor: "host-7"},
	}
	for i, os := range []string{"a", "b", "c", "d"} {
		many["test[OS="+os+"]"] = api.Task{Number: 2 + i, Status: api.StatusFailed, Executor: "host-7"}
	}
	g.Put(api.Run{ID: "many", Phase: api.PhaseFinished, Result: api.ResultFailed, Reason: "test[OS=a] and more failed", Tasks: many})
}
