package test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/test/harness"
)

// loadIsSpread starts two executors of a pool, each with slots for all tasks of
// a run. Both executors get tasks of a run, unless one is still busy with those of
// the run before.
func loadIsSpread(t *testing.T, _ *harness.Dev) {
	const rounds, tasks = 12, 4
	parts := harness.StartParts(t, fmt.Sprint(tasks), nil)
	parts.AddExecutor("other", fmt.Sprint(tasks)).AwaitReady()
	parts.AwaitPath("/api/v1/pools/shell", waitTimeout, func(body string) bool {
		var pool api.Pool
		return json.Unmarshal([]byte(body), &pool) == nil && pool.Online == 2
	})
	alone := 0
	for range rounds {
		id := parts.Submit("name: spread\ngroup: /behaviours/10_spread\ntasks: {a: {matrix: {N: [a, b, c, d]}, steps: [{run: sleep 0.2}]}}\n").ID
		by := map[string]bool{}
		for _, task := range parts.AwaitPhase(id, api.PhaseFinished, waitTimeout).Tasks {
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
