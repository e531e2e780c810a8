package agent_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

// silentTask runs a task without output. The process is frozen until the task's
// heartbeat has timed out, and receives the adoption when it thaws.
func silentTask(w *testEnv, whileFrozen func()) (*host, *process, run.Key) {
	w.script = func(run.Key) script { return script{hang: true} }
	h := w.newHost(1)
	p := h.start(nil)
	w.submit(0)
	w.sleep(3 * time.Second)
	key := w.api.lastClaim(0)
	require.Equal(w.t, 1, w.api.grants(key))
	whileFrozen()
	p.freeze(heartbeatTimeout + 10*time.Second)
	return h, p, key
}

func TestAgent_reclaims_after_adoption(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		h, p, key := silentTask(w, func() {})
		w.sleep(10 * time.Second)
		require.Equal(t, 2, w.api.grants(key), "nothing else reports the contact")
		w.sleep(5 * time.Minute)
		require.Equal(t, 2, w.api.grants(key), "once is enough")
		w.tokens.stop(0)
		w.awaitEnd(time.Minute, 0)
		require.Equal(t, 1, w.startCount(0))
		w.requireClean(h, p)
	})
}

func TestAgent_reclaims_when_the_executor_API_is_back(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		h, p, key := silentTask(w, func() { w.api.setDown(true) })
		w.sleep(time.Minute)
		require.Equal(t, 1, w.api.grants(key))
		w.api.setDown(false)
		w.sleep(10 * time.Second)
		require.Equal(t, 2, w.api.grants(key))
		w.tokens.stop(0)
		w.awaitEnd(time.Minute, 0)
		w.requireClean(h, p)
	})
}
