package executor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

// silentTask runs a task without output. The process is frozen until the task's
// heartbeat has timed out, and receives the adoption when it thaws.
func silentTask(w *world, whileFrozen func()) (*host, *process, run.Key) {
	w.script = func(run.Key) script { return script{hang: true} }
	h := w.newHost(1)
	p := h.start(nil)
	w.submit(0)
	w.sleep(3 * time.Second)
	key := w.desk.lastClaim(0)
	require.Equal(w.t, 1, w.desk.asked(key))
	whileFrozen()
	p.freeze(heartbeatTimeout + 10*time.Second)
	return h, p, key
}

func TestAgent_tells_the_desk_when_it_was_adopted(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		h, p, key := silentTask(w, func() {})
		w.sleep(10 * time.Second)
		require.Equal(t, 2, w.desk.asked(key), "nothing else reports the contact")
		w.sleep(5 * time.Minute)
		require.Equal(t, 2, w.desk.asked(key), "once is enough")
		w.tokens.stop(0)
		w.awaitEnd(time.Minute, 0)
		require.Equal(t, 1, w.beginnings(0))
		w.requireClean(h, p)
	})
}

func TestAgent_tells_the_desk_when_that_is_back(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		h, p, key := silentTask(w, func() { w.desk.setDown(true) })
		w.sleep(time.Minute)
		require.Equal(t, 1, w.desk.asked(key))
		w.desk.setDown(false)
		w.sleep(10 * time.Second)
		require.Equal(t, 2, w.desk.asked(key))
		w.tokens.stop(0)
		w.awaitEnd(time.Minute, 0)
		w.requireClean(h, p)
	})
}
