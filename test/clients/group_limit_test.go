package clients

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/test/harness"
)

// TestGroup_limit limits the runs at and below a group path, whose run files do not name
// the limit.
func TestGroup_limit(t *testing.T) {
	t.Parallel()
	parts := harness.StartParts(t, "4", nil)
	status, body, err := parts.Do(t.Context(), http.MethodPut, "/api/v1/changegroups/group:%2Fproject%2F42", "application/json", `{"max_running": 1}`)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, body)
	submit := func(group, script string) string {
		return parts.Submit("name: grouped\ngroup: " + group + "\ntasks: {a: {pool: shell, steps: [{run: '" + script + "'}]}}\n").ID
	}
	first := submit("/project/42/deploy", "sleep 60")
	parts.AwaitPhase(first, "running")
	second := submit("/project/42", "true")
	other := submit("/project/421", "true")
	parts.AwaitPhase(other, "finished")
	r := parts.Await(second, harness.TemporalAnswers)
	require.EqualValues(t, "queued", r.Phase)
	require.Equal(t, "waits for change group group:/project/42: position 1 in queue, 1 of 1 slots held by "+first, r.Reason)
	parts.Post(first + "/stop")
	r = parts.AwaitPhase(second, "finished")
	require.EqualValues(t, "success", r.Result)
}
