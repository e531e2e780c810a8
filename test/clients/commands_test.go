package clients

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/test/harness"
)

// TestCommands_search_and_stop searches the logs of a run, and ends runs in each phase, by
// the command line at a real gateway.
func TestCommands_search_and_stop(t *testing.T) {
	t.Parallel()
	dev := harness.StartDev(t, nil, "--executor", "shell")
	run := func(want string, args ...string) {
		t.Helper()
		out, code := dev.Command(args...)
		require.Equal(t, 0, code, out)
		require.Equal(t, want, out)
	}

	id := dev.Submit(`name: search
group: /test/commands
secrets: {TOKEN: hunter-of-lines}
tasks:
  a:
    steps:
    - run: 'echo begin; printf "\033[31mERROR\033[0m in red\n"; echo "no error of $TOKEN"'
    - {name: last, run: 'seq 2000; echo another Error'}
  b: {depends: [a], steps: [{run: 'echo all is well'}]}
`).ID
	dev.AwaitPhase(id, api.PhaseFinished)
	page := dev.Server + "/runs/" + id + "/tasks/a"
	// The first line is of the setup.
	run(fmt.Sprintf("a | step 1, line 3: ERROR in red\na | step 1, line 4: no error of ***\na | step 2, line 2005: another Error\na in the web UI: %s?line=3\n", page),
		"logs", id, "--search", "error")
	run("step 2, line 2001: another Error\n", "logs", id, "a", "--step", "last", "--search", "error")
	run("no line of a has \"hunter\"\n", "logs", id, "a", "--search", "hunter")
	// Each page of a search has up to 1,000 lines.
	out, code := dev.Command("logs", id, "a", "--search", "1", "-o", "json")
	require.Equal(t, 0, code)
	require.Contains(t, out, fmt.Sprintf(`,"step":1,"text":"1991","url":"%s?line=1995"}`, page))

	const manual = "name: queued\ngroup: /test/commands\nadmission: manual\ntasks: {t: {steps: [{run: 'true'}]}}\n"
	queued := dev.Submit(manual).ID
	run("run "+queued+" cancelled\n", "runs", "stop", queued)
	require.Equal(t, api.PhaseCancelled, dev.Get(queued).Phase)
	out, code = dev.Command("runs", "stop", queued)
	require.Equal(t, 5, code)
	require.Contains(t, out, "run "+queued+" is cancelled: only a queued or running run can be stopped")

	running := dev.Submit("name: long\ngroup: /test/commands\ntasks: {t: {steps: [{run: sleep 300}]}}\n").ID
	dev.Await(running, func(r api.Run) bool { return r.Tasks["t"].Status == api.StatusRunning })
	run("run "+running+" stopping\n", "runs", "stop", running)
	require.Equal(t, api.ResultStopped, dev.AwaitPhase(running, api.PhaseFinished).Result)
}
