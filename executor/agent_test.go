package executor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

func TestAgent_runs_a_task(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		h := w.newHost(2)
		p := h.start(nil)
		w.submit(0)
		w.awaitEnd(time.Minute, 0)
		require.Equal(t, run.StatusSuccess, w.outcome(0).Status)
		require.Equal(t, 1, w.beginnings(0))
		w.requireClean(h, p)
		log := w.desk.log(run.Key{Run: testRun, Task: 0, Attempt: 1, Dispatch: 1})
		require.Len(t, log, 1+1+3+2)
		require.Equal(t, "pulling\n", string(log[0].Data))
		require.Equal(t, run.FrameTaskEnd, log[len(log)-1].Kind)
	})
}

// requireClean waits until nothing is left of any task.
func (w *world) requireClean(h *host, p *process) {
	w.t.Helper()
	w.await(2*time.Hour, func() (bool, string) {
		if n := len(h.keys()); n > 0 {
			return false, "environments are left"
		}
		if keys := h.journalKeys(); len(keys) > 0 {
			return false, "journal entries are left"
		}
		return p.agent.SlotsInUse() == 0, "slots are in use"
	})
}
