package agent_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor/agent"
	"github.com/drover-run/drover/run"
)

// once returns a hook that calls f the first time the process reaches a failpoint.
func once(at string, f func(p *process)) func(p *process, point string, key run.Key) {
	var done atomic.Bool
	return func(p *process, point string, _ run.Key) {
		if point == at && done.CompareAndSwap(false, true) {
			f(p)
		}
	}
}

// TestAgent_crash kills the process at every failpoint of the protocol, and starts
// the next one at once, well within the heartbeat timeout, or long after it.
func TestAgent_crash(t *testing.T) {
	t.Parallel()
	for _, point := range agent.Failpoints() {
		for _, away := range []time.Duration{0, 10 * time.Second, 2 * time.Minute} {
			t.Run(fmt.Sprintf("%s/away_%s", point, away), func(t *testing.T) {
				withTestEnv(t, func(t *testing.T, w *testEnv) {
					h := w.newHost(1)
					p := h.start(once(point, (*process).kill))
					w.submit(0)
					<-p.ended
					w.sleep(away)
					next := h.start(nil)
					w.awaitEnd(10*time.Minute, 0)
					w.requireOnce()
					require.Equal(t, run.StatusSuccess, w.outcome(0).Status)
					require.Equal(t, 1, w.startCount(0))
					w.requireClean(h, next)
					w.requireLog(0)
					require.Empty(t, w.log.errors(), "nothing is lost")
				})
			})
		}
	}
}

// TestAgent_freeze freezes the process at every failpoint of the protocol, for less
// and for much more than the heartbeat timeout, and thaws it. Another executor of
// the pool runs the tasks that it is given meanwhile.
func TestAgent_freeze(t *testing.T) {
	t.Parallel()
	for _, point := range agent.Failpoints() {
		for _, d := range []time.Duration{10 * time.Second, 35 * time.Second, 5 * time.Minute} {
			t.Run(fmt.Sprintf("%s/for_%s", point, d), func(t *testing.T) {
				withTestEnv(t, func(t *testing.T, w *testEnv) {
					h, other := w.newHost(1), w.newHost(1)
					p := h.start(once(point, func(p *process) { p.freeze(d) }))
					w.submit(0)
					w.sleep(time.Second)
					q := other.start(nil)
					w.awaitEnd(20*time.Minute, 0)
					w.requireOnce()
					require.Equal(t, run.StatusSuccess, w.outcome(0).Status)
					require.Equal(t, 1, w.startCount(0))
					w.requireClean(h, p)
					w.requireClean(other, q)
					w.requireLog(0)
				})
			})
		}
	}
}

// TestAgent_failpoints blocks the one goroutine that reaches a failpoint, while the
// rest of the process continues. The task does not complete before all failpoints
// before the completion are reached, so a crash or a freeze there tests the
// intended state.
func TestAgent_failpoints(t *testing.T) {
	t.Parallel()
	points := agent.Failpoints()
	for _, point := range points[:slices.Index(points, "accepted")] {
		t.Run(point, func(t *testing.T) {
			withTestEnv(t, func(t *testing.T, w *testEnv) {
				h := w.newHost(1)
				held := make(chan struct{})
				p := h.start(once(point, func(*process) {
					close(held)
					w.sleep(time.Minute)
				}))
				w.submit(0)
				<-held
				w.sleep(30 * time.Second)
				require.Empty(t, w.ends(0), "completed beyond the point")
				w.awaitEnd(20*time.Minute, 0)
				w.requireOnce()
				require.Equal(t, run.StatusSuccess, w.outcome(0).Status)
				w.requireClean(h, p)
				w.requireLog(0)
			})
		})
	}
}

// requireLog checks that the log of the dispatch that ran is complete.
func (w *testEnv) requireLog(task int) {
	w.t.Helper()
	w.await(time.Minute, func() (bool, string) {
		key := w.api.lastClaim(task)
		frames := w.api.log(key)
		if len(frames) == 0 || frames[len(frames)-1].Kind != run.FrameTaskEnd {
			return false, fmt.Sprintf("log of %s has %d frames and no end", key, len(frames))
		}
		for i, f := range frames {
			if f.N != int64(i)+1 {
				return false, fmt.Sprintf("frame %d of %s has number %d", i, key, f.N)
			}
		}
		return true, ""
	})
}
