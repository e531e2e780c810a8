package harness

import (
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/testenv"
)

// FirstFrozen returns the first process that is stopped, nil if all run.
func FirstFrozen(processes ...*Process) *Process {
	for _, p := range processes {
		if p.Frozen() {
			return p
		}
	}
	return nil
}

// KillDuringTransfer approves one task, waits until its executor freezes itself during
// the transfer, and calls disrupt. The task must then succeed.
func KillDuringTransfer(t *testing.T, parts *Parts, once, id, task string, frozenProcess func() *Process, disrupt func(frozenProcess *Process)) {
	t.Helper()
	parts.Await(id, func(r api.Run) bool { return r.Tasks[task].Status == "waiting_approval" })
	require.NoError(t, os.Remove(once))
	parts.Post(id + "/tasks/" + task + "/approve")
	var executor *Process
	testenv.Await(t, func() (bool, string) {
		executor = frozenProcess()
		return executor != nil, "no executor transfers an archive: " + Describe(parts.Get(id))
	})
	_, listed, err := parts.Do(t.Context(), http.MethodGet, "/api/v1/runs/"+id+"/artifacts", "", "")
	require.NoError(t, err)
	require.NotContains(t, listed, "save-artifacts", "a partial artifact is listed")
	disrupt(executor)
	r := parts.Await(id, func(r api.Run) bool { return !r.Tasks[task].EndedAt.IsZero() })
	require.Equal(t, api.StatusSuccess, r.Tasks[task].Status, "%s: %s", task, r.Tasks[task].Reason)
	require.Equal(t, 1, r.Tasks[task].Attempt)
}
