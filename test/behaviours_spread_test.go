package test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/test/harness"
)

// loadIsSpread starts two executors of a pool, each with slots for all tasks of
// a run. Both executors get tasks of a run, unless one is still busy with those of
// the run before.
func loadIsSpread(t *testing.T, _ *harness.Dev) {
	const rounds, tasks = 12, 4
	parts := harness.StartParts(t, fmt.Sprint(tasks), nil)
	parts.AddExecutor("other", fmt.Sprint(tasks)).AwaitReady()
	parts.AwaitPath("/api/v1/pools/shell", func(body string) bool {
		var pool api.Pool
		return json.Unmarshal([]byte(body), &pool) == nil && pool.Online == 2
	})
	alone := 0
	for range rounds {
		id := parts.Submit("name: spread\ngroup: /behaviours/10_spread\ntasks: {a: {matrix: {N: [a, b, c, d]}, steps: [{run: sleep 0.2}]}}\n").ID
		by := map[string]bool{}
		for _, task := range parts.AwaitPhase(id, api.PhaseFinished).Tasks {
			require.Equal(t, api.StatusSuccess, task.Status)
			by[task.Executor] = true
		}
		if len(by) == 1 {
			alone++
		}
	}
	t.Logf("one executor had all %d tasks in %d of %d runs", tasks, alone, rounds)
	require.LessOrEqual(t, alone, rounds/2)
}

// finishedWithinASecond checks that a run finishes within a second of the end of its
// work. On a machine that is busy with other tests some runs take longer.
func finishedWithinASecond(t *testing.T, dev *harness.Dev) {
	client := harness.NewClient(t, dev.Server, dev.Token)
	testenv.Await(t, func() (bool, string) {
		id := client.Submit("name: end\ngroup: /behaviours/08_second\ntasks: {a: {steps: [{run: ':'}]}, b: {steps: [{run: ':'}]}}\n").ID
		r := client.AwaitPhase(id, api.PhaseFinished)
		var worked time.Time
		for _, task := range r.Tasks {
			for _, step := range task.Steps {
				if step.EndedAt.After(worked) {
					worked = step.EndedAt
				}
			}
		}
		require.False(t, worked.IsZero())
		took := r.EndedAt.Sub(worked)
		return took < time.Second, fmt.Sprintf("the run ended %s after its work", took)
	})
}
