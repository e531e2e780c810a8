package agent_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

// TestAgent_cleanup stops tasks whose cleanup takes a while: the executor waits for
// it, it begins once, and only a forced stop ends it early.
func TestAgent_cleanup(t *testing.T) {
	t.Parallel()
	key := run.Key{Run: testRun, Attempt: 1, Dispatch: 1}
	const takes = 4 * time.Minute
	cases := map[string]struct {
		stop    func(w *testEnv, p *process)
		cleaned int
		atLeast time.Duration
		atMost  time.Duration
	}{
		"is_awaited": {
			stop:    func(w *testEnv, _ *process) { w.tokens.stop(0) },
			cleaned: 1, atLeast: takes, atMost: takes + time.Minute,
		},
		"is_not_ended_by_repeated_requests": {
			stop: func(w *testEnv, p *process) {
				w.tokens.stop(0)
				for range 5 {
					w.sleep(20 * time.Second)
					require.True(w.t, p.agent.Stop(key, false))
				}
			},
			cleaned: 1, atLeast: takes, atMost: takes + time.Minute,
		},
		"continues_when_the_executor_is_killed": {
			stop: func(w *testEnv, p *process) {
				w.tokens.stop(0)
				w.sleep(time.Minute)
				p.kill()
				<-p.ended
				p.host.start(nil)
			},
			cleaned: 1, atLeast: takes, atMost: takes + time.Minute,
		},
		"is_ended_by_force": {
			stop: func(w *testEnv, p *process) {
				w.tokens.stop(0)
				w.sleep(30 * time.Second)
				require.True(w.t, p.agent.Stop(key, true))
			},
			cleaned: 1, atLeast: 30 * time.Second, atMost: time.Minute,
		},
		"is_ended_by_force_after_a_kill": {
			stop: func(w *testEnv, p *process) {
				require.True(w.t, p.agent.Stop(key, false))
				w.sleep(30 * time.Second)
				p.kill()
				<-p.ended
				next := p.host.start(nil)
				require.True(w.t, next.agent.Stop(key, true))
			},
			cleaned: 1, atLeast: 30 * time.Second, atMost: time.Minute,
		},
		"is_ended_by_force_while_the_driver_is_away": {
			stop: func(w *testEnv, p *process) {
				p.host.setDown(true)
				require.True(w.t, p.agent.Stop(key, false))
				w.sleep(10 * time.Second)
				require.True(w.t, p.agent.Stop(key, true))
				w.sleep(10 * time.Second)
				require.True(w.t, p.agent.Stop(key, false), "a plain request takes nothing back")
				p.host.setDown(false)
			},
			atLeast: 20 * time.Second, atMost: time.Minute,
		},
		"does_not_begin_after_force": {
			stop:   func(w *testEnv, p *process) { require.True(w.t, p.agent.Stop(key, true)) },
			atMost: time.Minute,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			withTestEnv(t, func(t *testing.T, w *testEnv) {
				w.script = func(run.Key) script { return script{hang: true, cleanup: takes} }
				h := w.newHost(1)
				p := h.start(nil)
				w.submit(0)
				w.sleep(7 * time.Second)
				h.mu.Lock()
				e := h.envs[key]
				h.mu.Unlock()
				asked := time.Now()
				c.stop(w, p)
				w.awaitEnd(time.Hour, 0)
				require.Equal(t, run.StatusStopped, w.outcome(0).Status)
				require.GreaterOrEqual(t, time.Since(asked), c.atLeast)
				require.Less(t, time.Since(asked), c.atMost)
				require.Equal(t, 1, w.startCount(0))
				e.mu.Lock()
				require.Equal(t, c.cleaned, e.cleaned)
				e.mu.Unlock()
				testenv.Await(t, func() (bool, string) { return len(h.keys()) == 0, "environments are left" })
			})
		})
	}
}
