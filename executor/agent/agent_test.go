package agent_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

func TestAgent_runs_a_task(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		h := w.newHost(2)
		p := h.start(nil)
		w.submit(0)
		w.awaitEnd(time.Minute, 0)
		require.Equal(t, run.StatusSuccess, w.outcome(0).Status)
		require.Equal(t, 1, w.startCount(0))
		w.requireClean(h, p)
		log := w.api.log(run.Key{Run: testRun, Task: 0, Attempt: 1, Dispatch: 1})
		require.Len(t, log, 1+1+3+2)
		require.Equal(t, "pulling\n", string(log[0].Data))
		require.Equal(t, run.FrameTaskEnd, log[len(log)-1].Kind)
	})
}

// requireClean waits until no environment, journal entry or used slot is left.
func (w *testEnv) requireClean(h *host, p *process) {
	w.t.Helper()
	w.await(2*time.Hour, func() (bool, string) {
		if n := len(h.keys()); n > 0 {
			return false, fmt.Sprintf("environments are left: %v\n%s", h.keys(), h.dump())
		}
		if keys := h.journalKeys(); len(keys) > 0 {
			return false, fmt.Sprintf("journal entries of %s are left\n%s%s", p.agent.ID(), p.explain(keys), h.dump())
		}
		return p.agent.SlotsInUse() == 0, "slots are in use"
	})
}

func TestAgent_holds_its_slots(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		h := w.newHost(3)
		p := h.start(nil)
		tasks := make([]int, 20)
		for i := range tasks {
			tasks[i] = i
			w.submit(i)
		}
		for range 100 {
			w.sleep(100 * time.Millisecond)
			require.LessOrEqual(t, p.agent.SlotsInUse(), 3)
		}
		w.awaitEnd(time.Minute, tasks...)
		w.requireOnce()
		w.requireClean(h, p)
	})
}

func TestAgent_stop(t *testing.T) {
	t.Parallel()
	key := run.Key{Run: testRun, Attempt: 1, Dispatch: 1}
	cases := map[string]struct {
		script script
		stop   func(w *testEnv, p *process)
		began  int
	}{
		"by_heartbeat_while_it_runs": {
			script: script{hang: true},
			stop:   func(w *testEnv, _ *process) { w.tokens.stop(0) },
			began:  1,
		},
		"by_order_while_it_runs": {
			script: script{hang: true},
			stop:   func(w *testEnv, p *process) { require.True(w.t, p.agent.Stop(key, false)) },
			began:  1,
		},
		"by_order_while_it_starts": {
			script: script{delay: time.Hour},
			stop:   func(w *testEnv, p *process) { require.True(w.t, p.agent.Stop(key, false)) },
		},
		"by_heartbeat_while_it_starts": {
			script: script{delay: time.Hour},
			stop:   func(w *testEnv, _ *process) { w.tokens.stop(0) },
		},
		"twice": {
			script: script{hang: true},
			stop: func(w *testEnv, p *process) {
				require.True(w.t, p.agent.Stop(key, false))
				require.True(w.t, p.agent.Stop(key, false))
			},
			began: 1,
		},
		"while_the_driver_is_away": {
			script: script{hang: true},
			stop: func(w *testEnv, p *process) {
				p.host.setDown(true)
				require.True(w.t, p.agent.Stop(key, false))
				w.sleep(time.Minute)
				p.host.setDown(false)
			},
			began: 1,
		},
		"while_no_process_runs": {
			script: script{hang: true},
			stop: func(w *testEnv, p *process) {
				p.kill()
				w.tokens.stop(0)
				<-p.ended
				p.host.start(nil)
			},
			began: 1,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			withTestEnv(t, func(t *testing.T, w *testEnv) {
				w.script = func(run.Key) script { return c.script }
				h := w.newHost(1)
				p := h.start(nil)
				require.False(t, p.agent.Stop(key, false))
				w.submit(0)
				w.sleep(7 * time.Second)
				c.stop(w, p)
				w.awaitEnd(time.Minute, 0)
				require.Equal(t, run.StatusStopped, w.outcome(0).Status)
				require.Equal(t, c.began, w.startCount(0))
				w.requireLog(0)
				testenv.Await(t, func() (bool, string) { return len(h.keys()) == 0, "environments are left" })
			})
		})
	}
}

func TestAgent_stop_before_the_claim(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		h := w.newHost(1)
		p := h.start(once("delivered", func(*process) { w.tokens.stop(0) }))
		w.submit(0)
		w.awaitEnd(time.Minute, 0)
		require.Equal(t, run.StatusStopped, w.outcome(0).Status)
		require.Zero(t, w.startCount(0))
		w.requireClean(h, p)
	})
}

func TestAgent_start_fails(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		w.script = func(run.Key) script {
			return script{setup: []string{"pulling"}, failure: run.Errorf(run.CodeInvalid, "image pull failed: denied")}
		}
		h := w.newHost(1)
		p := h.start(nil)
		w.submit(0)
		w.awaitEnd(time.Minute, 0)
		out := w.outcome(0)
		require.Equal(t, run.StatusFailed, out.Status)
		require.Equal(t, run.CauseStart, out.Cause)
		require.Equal(t, "image pull failed: denied", out.Reason)
		require.Equal(t, []run.StepResult{{Status: run.StatusSkipped}}, out.Steps)
		w.requireClean(h, p)
		w.requireLog(0)
		log := w.api.log(w.api.lastClaim(0))
		require.Len(t, log, 3)
		require.Equal(t, "could not start: image pull failed: denied\n", string(log[1].Data))
	})
}

func TestAgent_fails_a_task_with_a_missing_input(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		h := w.newHost(1)
		p := h.start(nil)
		w.api.fault = "task a put out nothing"
		w.submit(0)
		w.awaitEnd(time.Minute, 0)
		out := w.outcome(0)
		require.Equal(t, run.StatusFailed, out.Status)
		require.Equal(t, run.CauseInput, out.Cause)
		require.Equal(t, "task a put out nothing", out.Reason)
		require.Zero(t, w.startCount(0))
		w.requireClean(h, p)
		log := w.api.log(w.api.lastClaim(0))
		require.Equal(t, "could not start: task a put out nothing\n", string(log[0].Data))
	})
}

func TestAgent_requeues_while_the_driver_is_unavailable(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		h := w.newHost(1)
		p := h.start(nil)
		w.sleep(time.Second)
		h.setDown(true)
		w.submit(0)
		w.sleep(time.Minute)
		require.Error(t, p.agent.Health())
		require.Zero(t, p.agent.SlotsInUse())
		dispatch := w.api.lastClaim(0).Dispatch
		require.LessOrEqual(t, dispatch, 3, "the executor stops polling")
		h.setDown(false)
		w.awaitEnd(time.Minute, 0)
		require.NoError(t, p.agent.Health())
		require.Equal(t, run.StatusSuccess, w.outcome(0).Status)
		w.requireClean(h, p)
	})
}

func TestAgent_start_fails_after_the_launch(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		w.script = func(run.Key) script {
			return script{lines: 1, pause: time.Second, late: run.Errorf(run.CodeUnavailable, "connection lost")}
		}
		h := w.newHost(1)
		p := h.start(nil)
		w.submit(0)
		w.awaitEnd(time.Minute, 0)
		require.Equal(t, run.StatusSuccess, w.outcome(0).Status)
		require.Equal(t, 1, w.startCount(0))
		w.requireClean(h, p)
		w.requireLog(0)
	})
}

func TestAgent_environment_ends_without_result(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		w.script = func(run.Key) script {
			return script{lines: 2, vanish: executor.Ended(run.CauseOOM, "killed for want of memory")}
		}
		h := w.newHost(1)
		p := h.start(nil)
		w.submit(0)
		w.awaitEnd(time.Minute, 0)
		out := w.outcome(0)
		require.Equal(t, run.StatusFailed, out.Status)
		require.Equal(t, run.CauseOOM, out.Cause)
		require.Equal(t, "killed for want of memory", out.Reason)
		require.Len(t, out.Steps, 1)
		require.Equal(t, run.StatusFailed, out.Steps[0].Status)
		w.requireClean(h, p)
		w.requireLog(0)
	})
}

func TestAgent_environment_vanishes_while_no_process_runs(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		h := w.newHost(1)
		p := h.start(nil)
		w.submit(0)
		w.sleep(1500 * time.Millisecond)
		p.kill()
		<-p.ended
		h.drop(w.api.lastClaim(0))
		p = h.start(nil)
		w.awaitEnd(time.Minute, 0)
		require.Equal(t, run.CauseVanished, w.outcome(0).Cause)
		require.Equal(t, 1, w.startCount(0))
		w.requireClean(h, p)
	})
}

func TestAgent_removed(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		w.script = func(run.Key) script { return script{hang: true} }
		h := w.newHost(2)
		p := h.start(nil)
		w.submit(0)
		w.submit(1)
		w.sleep(3 * time.Second)
		require.Len(t, h.keys(), 2)
		w.api.remove(p.agent.ID())
		<-p.ended
		require.Equal(t, run.CodeForbidden, run.CodeOf(p.err))
		require.Empty(t, h.keys())
		require.Empty(t, h.journalKeys())
	})
}

func TestAgent_removed_while_it_was_away(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		w.script = func(run.Key) script { return script{hang: true} }
		h := w.newHost(1)
		p := h.start(nil)
		w.submit(0)
		w.sleep(3 * time.Second)
		p.kill()
		<-p.ended
		w.api.remove(p.agent.ID())
		p = h.start(nil)
		<-p.ended
		require.Equal(t, run.CodeForbidden, run.CodeOf(p.err))
		require.Empty(t, h.keys())
		require.Empty(t, h.journalKeys())
	})
}

func TestAgent_shutdown(t *testing.T) {
	t.Parallel()
	t.Run("leaves_running_tasks", func(t *testing.T) {
		withTestEnv(t, func(t *testing.T, w *testEnv) {
			h := w.newHost(1)
			p := h.start(nil)
			w.submit(0)
			w.sleep(1500 * time.Millisecond)
			p.cancel()
			<-p.ended
			require.NoError(t, p.err)
			require.Len(t, h.keys(), 1)
			w.sleep(5 * time.Second)
			p = h.start(nil)
			w.awaitEnd(time.Minute, 0)
			require.Equal(t, 1, w.startCount(0))
			require.Equal(t, 1, w.api.lastClaim(0).Dispatch)
			w.requireClean(h, p)
			w.requireLog(0)
		})
	})
	t.Run("finishes_running_tasks", func(t *testing.T) {
		withTestEnv(t, func(t *testing.T, w *testEnv) {
			h := w.newHost(1)
			h.drainFinish = true
			p := h.start(nil)
			w.submit(0)
			w.sleep(1500 * time.Millisecond)
			w.submit(1)
			p.cancel()
			<-p.ended
			require.NoError(t, p.err)
			w.awaitEnd(time.Second, 0)
			require.Empty(t, h.keys())
			require.Empty(t, h.journalKeys())
			require.Zero(t, w.startCount(1))
		})
	})
	t.Run("gives_back_what_has_not_begun", func(t *testing.T) {
		withTestEnv(t, func(t *testing.T, w *testEnv) {
			var slow atomic.Bool
			slow.Store(true)
			w.script = func(run.Key) script {
				if slow.Load() {
					return script{delay: time.Hour}
				}
				return script{lines: 1}
			}
			h, other := w.newHost(1), w.newHost(1)
			p := h.start(nil)
			w.submit(0)
			w.sleep(time.Second)
			slow.Store(false)
			p.cancel()
			<-p.ended
			q := other.start(nil)
			w.awaitEnd(5*time.Second, 0)
			require.Equal(t, 1, w.startCount(0))
			w.requireClean(other, q)
			w.requireClean(h, h.start(nil))
		})
	})
}
