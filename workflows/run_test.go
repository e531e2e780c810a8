package workflows_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

func TestRun_one_task(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(node("a")))
	out := w.run()
	require.Equal(t, contract.RunOutput{Phase: run.PhaseFinished, Result: run.ResultSuccess}, out)
	require.Equal(t, run.PhaseFinished, w.phase)
	require.Equal(t, run.ResultSuccess, w.result)
	require.Empty(t, cmp.Diff([]change{
		{0, 1, 1, run.StatusQueued, ""}, {0, 1, 1, run.StatusSuccess, ""},
	}, w.writes(0)))
	require.Equal(t, 2, w.applies, "one transaction before the task and one after it")
	require.Equal(t, []string{"execute a 1.1 on pool:linux"}, w.requests())
}

func TestRun_fan_out_and_in(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(node("a"), wide("b", 100, 0), node("c", 1)))
	out := w.run()
	require.Equal(t, run.ResultSuccess, out.Result)
	requests := w.requests()
	require.Len(t, requests, 102)
	require.Equal(t, "execute a 1.1 on pool:linux", requests[0])
	require.Equal(t, "execute c 1.1 on pool:linux", requests[101])
}
