package agent_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

// TestSet_delayed_entry delays the write of a journal entry until its caller has
// stopped waiting, while the outcome that requeues the task is still on its way.
// Only one of the two may take effect.
func TestSet_delayed_entry(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		s := w.newSet("blue", 1)
		p := s.start(nil)
		w.sleep(6 * time.Second)
		w.setFaults(inTurn(timedFault{}, // the heartbeat arrives
			timedFault{requestDelayed, time.Second}, // the write of the entry
			timedFault{requestDelayed, 3 * time.Second}))
		w.submit(0)
		w.awaitEnd(10*time.Minute, 0)
		w.requireOnce()
		require.Equal(t, run.StatusSuccess, w.outcome(0).Status)
		require.Equal(t, 1, w.startCount(0))
		s.requireClean(p)
		w.requireLog(0)
	})
}

type timedFault struct {
	what  callFault
	delay time.Duration
}

// inTurn returns the faults of the next calls; later ones have none.
func inTurn(all ...timedFault) func() (callFault, time.Duration) {
	var mu sync.Mutex
	return func() (callFault, time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		if len(all) == 0 {
			return noFault, 0
		}
		next := all[0]
		all = all[1:]
		return next.what, next.delay
	}
}
