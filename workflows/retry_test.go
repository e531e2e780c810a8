package workflows_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/contract"
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
		"no memory, on failed":                    {[]run.RetryOn{run.RetryFailed}, answer(run.StatusFailed, run.CauseOOM, ""), 2},
		"no memory, on oom":                       {[]run.RetryOn{run.RetryOOM}, answer(run.StatusFailed, run.CauseOOM, ""), 2},
		"no memory, on timeout":                   {[]run.RetryOn{run.RetryTimeout}, answer(run.StatusFailed, run.CauseOOM, ""), 1},
		"a failed step, on oom":                   {[]run.RetryOn{run.RetryOOM}, failStep, 1},
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

func TestRetry_waits_grow(t *testing.T) {
	t.Parallel()
	policy := run.Retry{MaxAttempts: 5, Backoff: run.Duration(time.Second), BackoffFactor: 3, BackoffMax: run.Duration(5 * time.Second)}
	w := newWorkflowEnv(t, newPlan(retrying("a", policy)))
	w.on("a", failStep, failStep, failStep, failStep, succeed)
	begin := w.env.Now()
	require.Equal(t, run.ResultSuccess, w.run().Result)
	require.Equal(t, 14*time.Second, w.env.Now().Sub(begin).Round(time.Second), "1 s, 3 s, 5 s, 5 s")
	require.Equal(t, "attempt 2 failed: step 1 exited with code 3; tried again after 3s", w.writes(0)[2].Reason)
}

func TestRetry_jitter_is_a_function_of_the_attempt(t *testing.T) {
	t.Parallel()
	reasons := func() (out []string) {
		policy := run.Retry{MaxAttempts: 4, Backoff: run.Duration(time.Minute), BackoffJitter: 0.5}
		w := newWorkflowEnv(t, newPlan(retrying("a", policy), retrying("b", policy)))
		w.on("a", failStep)
		w.on("b", failStep)
		require.Equal(t, run.ResultFailed, w.run().Result)
		for task := range 2 {
			for _, c := range w.writes(task)[1:4] {
				out = append(out, c.Reason)
			}
		}
		return out
	}
	first := reasons()
	require.Equal(t, first, reasons(), "another execution decides alike")
	waits := map[string]bool{}
	for _, reason := range first {
		_, wait, ok := strings.Cut(reason, "tried again after ")
		require.True(t, ok)
		d, err := time.ParseDuration(wait)
		require.NoError(t, err)
		require.GreaterOrEqual(t, d, 30*time.Second)
		require.LessOrEqual(t, d, time.Minute)
		waits[wait] = true
	}
	require.Len(t, waits, 6, "each attempt of each task has a wait of its own")
}

func TestRetry_only_after_exit_codes(t *testing.T) {
	t.Parallel()
	for code, attempts := range map[int]int{3: 3, 4: 1} {
		w := newWorkflowEnv(t, newPlan(retrying("a", run.Retry{MaxAttempts: 3, ExitCodes: []int{3, 70}})))
		w.on("a", func(w *workflowEnv, key run.Key) (contract.ExecuteResult, error) {
			out, err := failStep(w, key)
			out.Ended.ExitCode = &code
			return out, err
		})
		require.Equal(t, run.ResultFailed, w.run().Result)
		require.Len(t, w.requests(), attempts)
	}
}
