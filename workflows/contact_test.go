package workflows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

func TestContact_lost_and_found(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(node("a")))
	start := time.Date(2026, 1, 2, 12, 3, 50, 0, time.UTC)
	w.env.SetStartTime(start)
	w.on("a", loseContact("host-7"))
	w.onAdopt("a", hold, loseContact("host-8"), answer(run.StatusSuccess, "", ""))
	w.at(time.Minute, func() {
		require.Equal(t, run.StatusRunning, w.tasks[0].Status)
		require.Equal(t, "executor host-7 out of contact since 12:03:20Z", w.tasks[0].Reason)
		w.complete(0, 1, 1, contract.ExecuteResult{}, temporal.NewHeartbeatTimeoutError())
	})
	require.Equal(t, run.ResultSuccess, w.run().Result)
	require.Equal(t, []string{
		"execute a 1.1 on pool:linux", "adopt a 1.1 on executor:host-7", "adopt a 1.1 on executor:host-7", "adopt a 1.1 on executor:host-8",
	}, w.requests())
}

func TestContact_never_started(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(node("a")))
	w.on("a", loseContact("host-7"), succeed)
	w.onAdopt("a", neverStarted)
	require.Equal(t, run.ResultSuccess, w.run().Result)
	writes := w.writes(0)
	require.Equal(t, change{0, 1, 2, run.StatusQueued, "the key is closed"}, writes[len(writes)-2])
}

func TestContact_lost_before_the_first_heartbeat(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(node("a")))
	w.on("a", func(*workflowEnv, run.Key) (contract.ExecuteResult, error) {
		return contract.ExecuteResult{}, temporal.NewHeartbeatTimeoutError()
	}, succeed)
	require.Equal(t, run.ResultSuccess, w.run().Result)
	require.Equal(t, []string{"execute a 1.1 on pool:linux", "execute a 1.2 on pool:linux"}, w.requests())
}

func TestContact_delivered_twice(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		claimed contract.Heartbeat
		claim   bool
		want    []string
	}{
		"with details": {
			contract.Heartbeat{Executor: "host-7"},
			true,
			[]string{"execute a 1.1 on pool:linux", "adopt a 1.1 on executor:host-7"},
		},
		"without details, but claimed": {
			contract.Heartbeat{},
			true,
			[]string{"execute a 1.1 on pool:linux", "adopt a 1.1 on executor:host-7"},
		},
		"without details, and not claimed": {
			contract.Heartbeat{},
			false,
			[]string{"execute a 1.1 on pool:linux", "execute a 1.2 on pool:linux"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkflowEnv(t, newPlan(node("a")))
			w.on("a", func(w *workflowEnv, key run.Key) (contract.ExecuteResult, error) {
				if tc.claim {
					w.claim(key, "host-7")
				}
				return contract.ExecuteResult{Claimed: &tc.claimed}, nil
			}, succeed)
			w.onAdopt("a", answer(run.StatusSuccess, "", ""))
			require.Equal(t, run.ResultSuccess, w.run().Result)
			require.Equal(t, tc.want, w.requests())
			for _, c := range w.writes(0) {
				require.NotContains(t, c.Reason, "out of contact")
			}
		})
	}
}

func TestContact_unknown_error(t *testing.T) {
	t.Parallel()
	broken := temporal.NewNonRetryableApplicationError("boom", "panic", nil)
	for name, tc := range map[string]struct {
		claim bool
		want  string
	}{
		"before the claim": {false, "execute a 1.2 on pool:linux"},
		"after the claim":  {true, "adopt a 1.1 on executor:host-1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkflowEnv(t, newPlan(node("a")))
			w.on("a", func(w *workflowEnv, key run.Key) (contract.ExecuteResult, error) {
				if tc.claim {
					w.claim(key, "host-1")
				}
				return contract.ExecuteResult{}, broken
			}, succeed)
			require.Equal(t, run.ResultSuccess, w.run().Result)
			require.Equal(t, tc.want, w.requests()[1])
		})
	}
}

func TestAdopt_that_fails_is_tried_again(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(node("a")))
	w.on("a", loseContact("host-7"))
	fail := func(*workflowEnv, run.Key) (contract.ExecuteResult, error) {
		return contract.ExecuteResult{}, temporal.NewNonRetryableApplicationError("its disk is full", "unavailable", nil)
	}
	w.onAdopt("a", fail, fail, fail, answer(run.StatusSuccess, "", ""))
	begin := w.env.Now()
	require.Equal(t, run.ResultSuccess, w.run().Result)
	require.Equal(t, 7*time.Second, w.env.Now().Sub(begin).Round(time.Second), "1 s, 2 s and 4 s")
}

func TestExecutor_removed(t *testing.T) {
	t.Parallel()
	removed := contract.ExecutorRemoved{Executor: "host-7", Reason: "its disk burnt"}
	for name, tc := range map[string]struct {
		onLost run.OnLost
		max    int
		when   time.Duration // before or after the contact is lost
		result run.Result
		last   change
	}{
		"fails": {run.OnLostFail, 3, time.Hour, run.ResultFailed, change{
			0, 1, 1, run.StatusFailed, "executor host-7 was removed while it had the task: its disk burnt",
		}},
		"is retried":             {run.OnLostRetry, 2, time.Hour, run.ResultSuccess, change{0, 2, 1, run.StatusSuccess, ""}},
		"before its silence":     {run.OnLostRetry, 2, time.Second, run.ResultSuccess, change{0, 2, 1, run.StatusSuccess, ""}},
		"retries are used up":    {run.OnLostRetry, 1, time.Hour, run.ResultFailed, change{0, 1, 1, run.StatusFailed, "executor host-7 was removed while it had the task: its disk burnt"}},
		"no policy means a fail": {"", 2, time.Hour, run.ResultFailed, change{0, 1, 1, run.StatusFailed, "executor host-7 was removed while it had the task: its disk burnt"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := retrying("a", run.Retry{MaxAttempts: tc.max, On: []run.RetryOn{run.RetryStartFailed}})
			n.OnLost = tc.onLost
			w := newWorkflowEnv(t, newPlan(n))
			w.on("a", holdOn("host-7"), succeed)
			w.onAdopt("a", leaveQueued)
			if tc.when > time.Minute {
				w.at(time.Minute, func() {
					_, err := loseContact("host-7")(w, run.Key{Run: runID, Task: 0, Attempt: 1, Dispatch: 1})
					w.complete(0, 1, 1, contract.ExecuteResult{}, err)
				})
			}
			w.signal(tc.when, contract.SignalExecutorRemoved, contract.ExecutorRemoved{Executor: "another"})
			w.signal(tc.when, contract.SignalExecutorRemoved, removed)
			w.signal(tc.when, contract.SignalExecutorRemoved, removed)
			require.Equal(t, tc.result, w.run().Result)
			writes := w.writes(0)
			require.Equal(t, tc.last, writes[len(writes)-1])
		})
	}
}

func TestStop_out_of_contact_waits_for_an_answer(t *testing.T) {
	t.Parallel()
	w := newWorkflowEnv(t, newPlan(node("a")))
	w.on("a", loseContact("host-7"))
	w.onAdopt("a", hold)
	w.signal(time.Minute, contract.SignalStop, nil)
	w.at(24*time.Hour, func() {
		require.Equal(t, run.PhaseRunning, w.phase)
		require.Contains(t, w.stops, "0.1.1 on executor:host-7")
		w.complete(0, 1, 1, ended(run.StatusStopped, "", "stopped"), nil)
	})
	require.Equal(t, run.ResultStopped, w.run().Result)
	require.Equal(t, []run.Status{run.StatusStopped}, w.statuses())
	require.Less(t, len(w.stops), 40, "a stop that is not acknowledged is repeated rarely")
}
