package workflows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// loseContactOfMember claims the task on a member of a set that then loses contact.
func loseContactOfMember(executor, set string) behaviour {
	return loseContactOfSibling(executor, executor, set)
}

// loseContactOfSibling claims it on one member, and loses contact on another member
// that adopted it.
func loseContactOfSibling(claimant, last, set string) behaviour {
	return func(w *workflowEnv, key run.Key) (contract.ExecuteResult, error) {
		w.claim(key, claimant)
		return contract.ExecuteResult{}, temporal.NewHeartbeatTimeoutError(contract.Heartbeat{
			Executor: last, Set: set, JournalID: "j-" + set, Key: key.String(),
		})
	}
}

// TestSet_adopts: any member of the set may adopt the task.
func TestSet_adopts(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(node("a")))
	start := time.Date(2026, 1, 2, 12, 3, 50, 0, time.UTC)
	w.env.SetStartTime(start)
	w.on("a", loseContactOfMember("pod-1", "blue"))
	w.onAdopt("a", hold, loseContactOfMember("pod-2", "blue"), answer(run.StatusSuccess, "", ""))
	w.at(time.Minute, func() {
		require.Equal(t, "executor pod-1 of set blue out of contact since 12:03:20Z", w.tasks[0].Reason)
		w.complete(0, 1, 1, contract.ExecuteResult{}, temporal.NewHeartbeatTimeoutError())
	})
	require.Equal(t, run.ResultSuccess, w.run().Result)
	require.Equal(t, []string{
		"execute a 1.1 on pool:linux", "adopt a 1.1 on set:blue", "adopt a 1.1 on set:blue", "adopt a 1.1 on set:blue",
	}, w.requests())
}

// TestSet_delivered_twice asks the set if a member answers that another member
// holds the task.
func TestSet_delivered_twice(t *testing.T) {
	t.Parallel()
	for name, claimed := range map[string]contract.Heartbeat{
		"as the member knows": {Set: "blue"},
		"as the records know": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkflowEnv(t, newPlan(node("a")))
			w.sets = map[string]string{"pod-1": "blue"}
			w.on("a", func(w *workflowEnv, key run.Key) (contract.ExecuteResult, error) {
				w.claim(key, "pod-1")
				return contract.ExecuteResult{Claimed: &claimed}, nil
			})
			w.onAdopt("a", answer(run.StatusSuccess, "", ""))
			require.Equal(t, run.ResultSuccess, w.run().Result)
			require.Equal(t, []string{"execute a 1.1 on pool:linux", "adopt a 1.1 on set:blue"}, w.requests())
		})
	}
}

// TestSet_stops sends the stop to the set, for tasks in contact and out of
// contact.
func TestSet_stops(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(node("a"), node("b")))
	w.sets = map[string]string{"host-1": "blue"}
	w.on("a", hold)
	w.on("b", loseContactOfMember("pod-1", "green"))
	w.onAdopt("b", hold)
	w.signal(time.Minute, contract.SignalStop, nil)
	w.at(2*time.Minute, func() {
		w.complete(1, 1, 1, ended(run.StatusStopped, "", ""), nil)
	})
	require.Equal(t, run.ResultStopped, w.run().Result)
	require.Contains(t, w.stops, "1.1.1 on set:green")
}

// TestSet_removed ends the wait for a set that has no member left.
func TestSet_removed(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(node("a")))
	w.on("a", loseContactOfMember("pod-1", "blue"))
	w.onAdopt("a", hold)
	w.signal(time.Minute, contract.SignalExecutorRemoved, contract.ExecutorRemoved{Executor: "pod-1", Reason: "the cluster is gone"})
	require.Equal(t, run.ResultFailed, w.run().Result)
	require.Equal(t, "executor pod-1 was removed while it had the task: the cluster is gone", w.tasks[0].Reason)
}

// TestSet_removed_that_waits_for_another_member ends the wait for a set whose
// removal names the member in the records.
func TestSet_removed_that_waits_for_another_member(t *testing.T) {
	t.Parallel()
	for name, execute := range map[string]behaviour{
		"that took the task over": loseContactOfSibling("pod-1", "pod-2", "blue"),
		"that comes first": func(w *workflowEnv, key run.Key) (contract.ExecuteResult, error) {
			w.claim(key, "pod-1")
			return contract.ExecuteResult{Claimed: &contract.Heartbeat{Set: "blue"}}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkflowEnv(t, newPlan(node("a")))
			w.sets = map[string]string{"pod-1": "blue"}
			w.on("a", execute)
			w.onAdopt("a", leaveQueued)
			w.at(time.Minute, func() { w.lost = map[string]string{"pod-1": "the cluster is gone"} })
			w.signal(2*time.Minute, contract.SignalExecutorRemoved, contract.ExecutorRemoved{Executor: "pod-1", Reason: "the cluster is gone"})
			require.Equal(t, run.ResultFailed, w.run().Result)
			require.Equal(t, "executor pod-1 was removed while it had the task: the cluster is gone", w.tasks[0].Reason)
		})
	}
}

// TestSet_removed_that_is_back continues to wait if a member of the set has
// come back meanwhile, or if another set was removed.
func TestSet_removed_that_is_back(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(node("a")))
	w.sets = map[string]string{"pod-1": "blue"}
	w.on("a", loseContactOfSibling("pod-1", "pod-2", "blue"))
	w.onAdopt("a", hold)
	w.signal(time.Minute, contract.SignalExecutorRemoved, contract.ExecutorRemoved{Executor: "pod-1"})
	w.signal(time.Minute, contract.SignalExecutorRemoved, contract.ExecutorRemoved{Executor: "pod-9"})
	w.at(2*time.Minute, func() {
		w.complete(0, 1, 1, ended(run.StatusSuccess, "", ""), nil)
	})
	require.Equal(t, run.ResultSuccess, w.run().Result)
}

// TestSet_holds_a_task_delivered_to_another_executor asks the whole set if a member has
// claimed a task that was delivered to a removed executor.
func TestSet_holds_a_task_delivered_to_another_executor(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(node("a")))
	w.sets = map[string]string{"pod-1": "blue"}
	w.on("a", func(w *workflowEnv, key run.Key) (contract.ExecuteResult, error) {
		w.claim(key, "pod-1")
		return loseContactBeforeClaim("host-7")(w, key)
	})
	w.onAdopt("a", leaveQueued, answer(run.StatusSuccess, "", ""))
	w.signal(time.Hour, contract.SignalExecutorRemoved, contract.ExecutorRemoved{Executor: "host-7"})
	require.Equal(t, run.ResultSuccess, w.run().Result)
	require.Equal(t, []string{
		"execute a 1.1 on pool:linux", "adopt a 1.1 on executor:host-7", "adopt a 1.1 on set:blue",
	}, w.requests())
}
