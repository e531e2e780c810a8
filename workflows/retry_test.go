package workflows_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

func retrying(name string, r run.Retry) run.Node {
	n := node(name)
	n.Retry = r
	return n
}

func TestRetry_until_it_succeeds(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(retrying("a", run.Retry{MaxAttempts: 3, Backoff: run.Duration(5 * time.Second)})))
	w.on("a", failStep, failStart, succeed)
	begin := w.env.Now()
	require.Equal(t, run.ResultSuccess, w.run().Result)
	require.GreaterOrEqual(t, w.env.Now().Sub(begin), 10*time.Second)
	require.Empty(t, cmp.Diff([]change{
		{0, 1, 1, run.StatusQueued, ""},
		{0, 2, 1, run.StatusQueued, "attempt 1 failed: step 1 exited with code 3; tried again after 5s"},
		{0, 3, 1, run.StatusQueued, "attempt 2 failed: image pull failed; tried again after 5s"},
		{0, 3, 1, run.StatusSuccess, ""},
	}, w.writes(0)))
}

func TestRetry_is_exhausted(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(retrying("a", run.Retry{MaxAttempts: 2}), node("b", 0)))
	w.on("a", failStep)
	out := w.run()
	require.Equal(t, run.ResultFailed, out.Result)
	require.Equal(t, "task a failed", out.Reason)
	require.Equal(t, []run.Status{run.StatusFailed, run.StatusSkipped}, w.statuses())
	require.Equal(t, []string{"execute a 1.1 on pool:linux", "execute a 2.1 on pool:linux"}, w.requests())
	require.NotNil(t, w.tasks[0].Result)
}

// TestRetry_with_a_long_reason checks that the recorded reason is cut between
// characters.
func TestRetry_with_a_long_reason(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(retrying("a", run.Retry{MaxAttempts: 2})))
	w.on("a", answer(run.StatusFailed, run.CauseVanished, "x"+strings.Repeat("é", run.MaxReason)), succeed)
	require.Equal(t, run.ResultSuccess, w.run().Result)
	reason := w.writes(0)[1].Reason
	require.LessOrEqual(t, len(reason), run.MaxReason)
	require.Equal(t, "attempt 1 failed: x"+strings.Repeat("é", (run.MaxReason-19)/2), reason)
}

func TestRetry_only_on_named_causes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		on       []run.RetryOn
		first    behaviour
		attempts int
	}{
		"a failed step, on failed":                {[]run.RetryOn{run.RetryFailed}, failStep, 2},
		"a failed step, on start_failed":          {[]run.RetryOn{run.RetryStartFailed}, failStep, 1},
		"a failed start, on failed":               {[]run.RetryOn{run.RetryFailed}, failStart, 1},
		"a failed start, on start_failed":         {[]run.RetryOn{run.RetryStartFailed}, failStart, 2},
		"an environment that vanished":            {[]run.RetryOn{run.RetryFailed}, answer(run.StatusFailed, run.CauseVanished, ""), 2},
		"a removed executor, reported by its own": {nil, answer(run.StatusFailed, run.CauseExecutorLost, ""), 1},
		"a task that was stopped from outside":    {nil, answer(run.StatusStopped, "", ""), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkflowEnv(t, newPlan(retrying("a", run.Retry{MaxAttempts: 2, On: tc.on})))
			w.on("a", tc.first, succeed)
			w.run()
			require.Len(t, w.requests(), tc.attempts)
		})
	}
}

func TestRequeue_is_no_attempt(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(node("a")))
	w.on("a", requeueTask, requeueTask, requeueTask, succeed)
	begin := w.env.Now()
	require.Equal(t, run.ResultSuccess, w.run().Result)
	require.Equal(t, 3*time.Second, w.env.Now().Sub(begin).Round(time.Second), "nothing, then 1 s, then 2 s")
	reason := "executor host-1 requeued it: its disk is full"
	require.Empty(t, cmp.Diff([]change{
		{0, 1, 1, run.StatusQueued, ""},
		{0, 1, 2, run.StatusQueued, reason},
		{0, 1, 3, run.StatusQueued, reason},
		{0, 1, 4, run.StatusQueued, reason},
		{0, 1, 4, run.StatusSuccess, ""},
	}, w.writes(0)))
}

func TestResult_without_a_final_status(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(node("a")))
	w.on("a", answer(run.StatusRunning, "", ""))
	require.Equal(t, run.ResultFailed, w.run().Result)
	require.Equal(t, `its executor reported the status "running" as its end`, w.tasks[0].Reason)
}
