package agent_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor/agent"
	"github.com/drover-run/drover/run"
)

// A task that one executor runs is delivered to another one, since its workflow was
// reset. The task continues, and its steps begin once.
func TestAgent_reset_while_another_executor_has_the_task(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		w.script = func(run.Key) script { return script{lines: 100, pause: time.Second} }
		a, b := w.newHost(1), w.newHost(1)
		p := a.start(nil)
		w.submit(0)
		w.await(time.Minute, func() (bool, string) { return w.startCount(0) == 1, "it has not begun" })
		q := b.start(nil)
		for range 3 {
			w.reset(0)
			w.sleep(7 * time.Second)
		}
		w.awaitEnd(time.Hour, 0)
		require.Equal(t, run.StatusSuccess, w.outcome(0).Status)
		require.Equal(t, 1, w.startCount(0))
		require.Equal(t, 1, w.api.lastClaim(0).Dispatch)
		w.requireLog(0)
		w.requireClean(a, p)
		w.requireClean(b, q)
	})
}

// The refusal of a claim that another executor has says nothing about what ran,
// with every wording of the gateway. The refusal of a claim that no executor has
// does.
func TestAgent_reset_answers(t *testing.T) {
	key := run.Key{Run: testRun, Attempt: 1, Dispatch: 1}
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		h := w.newHost(2)
		p := h.start(nil)
		w.api.queue(key)
		w.api.put(key, claim{executor: "elsewhere", journal: "j"})
		w.await(time.Minute, func() (bool, string) { return p.agent.Health() == nil, "it is not healthy" })
		for range 2 {
			d := &delivery{token: "t", done: make(chan struct{}), last: time.Now(), key: key}
			w.tokens.mu.Lock()
			w.tokens.byToken["t"] = d
			w.tokens.mu.Unlock()
			out := p.agent.Execute(w.ctx, agent.Delivery{Key: key, Token: []byte("t"), Attempt: 1})
			require.Equal(t, agent.Outcome{Executor: p.agent.ID(), Claimed: &agent.HeartbeatDetails{Key: key}}, out)
		}
		require.Zero(t, w.startCount(0))
		w.requireClean(h, p)
	})
}

// A workflow is reset at each failpoint of a task's life cycle, also between the
// acceptance of its result and the end of its claim.
func TestAgent_reset_at_each_failpoint(t *testing.T) {
	t.Parallel()
	for _, at := range agent.Failpoints() {
		for _, hosts := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s/%d_hosts", at, hosts), func(t *testing.T) {
				withTestEnv(t, func(t *testing.T, w *testEnv) {
					times := 0
					hook := func(_ *process, point string, key run.Key) {
						if point != at {
							return
						}
						w.mu.Lock()
						times++
						first := times == 1
						w.mu.Unlock()
						if first {
							w.reset(key.Task)
							w.sleep(3 * time.Second)
						}
					}
					all, last := make([]*host, hosts), make([]*process, hosts)
					for i := range hosts {
						all[i] = w.newHost(1)
						last[i] = all[i].start(hook)
					}
					w.submit(0)
					w.awaitEnd(time.Hour, 0)
					require.Equal(t, run.StatusSuccess, w.outcome(0).Status)
					require.Equal(t, 1, w.startCount(0))
					w.requireLog(0)
					for i, h := range all {
						w.requireClean(h, last[i])
					}
				})
			})
		}
	}
}

// The workflow is reset after the result was accepted: the executor reports it
// again.
func TestAgent_reset_after_the_result_was_accepted(t *testing.T) {
	for name, restart := range map[string]bool{"same process": false, "next process": true} {
		t.Run(name, func(t *testing.T) {
			withTestEnv(t, func(t *testing.T, w *testEnv) {
				h := w.newHost(1)
				p := h.start(nil)
				key := run.Key{Run: testRun, Attempt: 1, Dispatch: 1}
				w.api.queue(key)
				d := w.tokens.schedule("pool", delivery{kind: "execute", key: key})
				require.Equal(t, run.StatusSuccess, d.out.Ended.Status)
				w.await(time.Minute, func() (bool, string) { return len(h.keys()) == 0, "the environment is there" })
				w.sleep(10 * time.Minute)
				if restart {
					p.cancel()
					<-p.ended
					p = h.start(nil)
				}
				d = w.tokens.schedule("executor:"+p.agent.ID(), delivery{kind: "adopt", key: key})
				require.NotNil(t, d.out.Ended, "%+v", d.out)
				require.Equal(t, run.StatusSuccess, d.out.Ended.Status)
				require.Equal(t, 1, w.startCount(0))
				w.api.closeClaim(key)
				w.requireClean(h, p)
				w.requireLog(0)
			})
		})
	}
}
