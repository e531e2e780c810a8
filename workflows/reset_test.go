package workflows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// A workflow that was reset no longer knows which executor holds a task. After
// each answer to its own delivery it adopts the task from the executor that
// claimed it.
func TestReset_adopts_a_task_of_another_executor(t *testing.T) {
	t.Parallel()
	released := func(journal string) error {
		return temporal.NewNonRetryableApplicationError("it drains", contract.ErrorRequeued, nil,
			contract.Requeue{Executor: "host-8", Reason: "it drains", JournalID: journal})
	}
	fail := func(err error) behaviour {
		return func(*workflowEnv, run.Key) (contract.ExecuteResult, error) { return contract.ExecuteResult{}, err }
	}
	for name, answered := range map[string]behaviour{
		"claim refused":                    claimedElsewhere,
		"requeued":                         fail(requeued("host-8", "the claim was refused")),
		"requeued under the holder's name": fail(requeued("host-7", "it shuts down")),
		"released by another journal":      fail(released("j-host-8")),
		"never started at another": func(*workflowEnv, run.Key) (contract.ExecuteResult, error) {
			return contract.ExecuteResult{NeverStarted: "the key is closed", JournalID: "j-host-8"}, nil
		},
		"completed by hand": func(*workflowEnv, run.Key) (contract.ExecuteResult, error) { return contract.ExecuteResult{}, nil },
		"no heartbeat":      fail(temporal.NewHeartbeatTimeoutError()),
		"unknown error":     fail(temporal.NewNonRetryableApplicationError("reset", "ResetWorkflow", nil)),
	} {
		for of, held := range map[string]run.Key{
			"the same dispatch": {Run: runID, Attempt: 1, Dispatch: 1},
			"a later dispatch":  {Run: runID, Attempt: 1, Dispatch: 4},
			"a later attempt":   {Run: runID, Attempt: 2, Dispatch: 2},
		} {
			t.Run(name+"/"+of, func(t *testing.T) {
				t.Parallel()
				w := newWorkflowEnv(t, newPlan(retrying("a", run.Retry{MaxAttempts: 3})))
				w.on("a", func(w *workflowEnv, key run.Key) (contract.ExecuteResult, error) {
					w.setClaim(held, "host-7")
					return answered(w, key)
				}, succeed)
				w.onAdopt("a", answer(run.StatusSuccess, "", ""))
				require.Equal(t, run.ResultSuccess, w.run().Result)
				require.Equal(t, []string{
					"execute a 1.1 on pool:linux", "adopt a " + keyText(held) + " on executor:host-7",
				}, w.requests())
			})
		}
	}
}

// The release by the claim's own journal suffices for another dispatch.
func TestReset_own_journal_releases(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(node("a")))
	w.on("a", func(w *workflowEnv, key run.Key) (contract.ExecuteResult, error) {
		w.claim(key, "host-7")
		return contract.ExecuteResult{}, temporal.NewNonRetryableApplicationError("it drains", contract.ErrorRequeued, nil,
			contract.Requeue{Executor: "host-7", Reason: "it drains", JournalID: "j-host-7"})
	}, succeed)
	require.Equal(t, run.ResultSuccess, w.run().Result)
	require.Equal(t, []string{"execute a 1.1 on pool:linux", "execute a 1.2 on pool:linux"}, w.requests())
}

// An executor whose answer names no journal is asked about its claim, and then
// trusted.
func TestReset_holder_without_a_journal(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(node("a")))
	w.on("a", func(w *workflowEnv, key run.Key) (contract.ExecuteResult, error) {
		w.claim(key, "host-7")
		return contract.ExecuteResult{}, requeued("host-7", "it shuts down")
	}, succeed)
	w.onAdopt("a", neverStarted)
	require.Equal(t, run.ResultSuccess, w.run().Result)
	require.Equal(t, []string{
		"execute a 1.1 on pool:linux", "adopt a 1.1 on executor:host-7", "execute a 1.2 on pool:linux",
	}, w.requests())
}

// An attempt that the records still have as running does not delay the next
// attempt: the workflow knows its end.
func TestReset_an_earlier_attempt_does_not_count(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(retrying("a", run.Retry{MaxAttempts: 2, Backoff: run.Duration(time.Second)})))
	w.on("a", failStep, claimedElsewhere, succeed)
	require.Equal(t, run.ResultSuccess, w.run().Result)
	require.Equal(t, []string{
		"execute a 1.1 on pool:linux", "execute a 2.1 on pool:linux", "execute a 2.2 on pool:linux",
	}, w.requests())
}

func keyText(k run.Key) string { return k.String()[len(k.Run)+len(".0."):] }
