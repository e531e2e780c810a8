package agent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor/agent"
	"github.com/drover-run/drover/run"
)

func TestAgent_executor_API_accepts_no_frames(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		w.script = func(run.Key) script { return script{lines: 200, pause: 100 * time.Millisecond} }
		h := w.newHost(1)
		p := h.start(nil)
		w.submit(0)
		w.sleep(2 * time.Second)
		w.api.setFramesDown(true)
		began := time.Now()
		w.awaitEnd(time.Minute, 0)
		require.InDelta(t, 28, time.Since(began).Seconds(), 2, "a result waits for its frames, but not for long")
		require.Equal(t, run.StatusSuccess, w.outcome(0).Status)
		require.Zero(t, p.agent.SlotsInUse())
		require.Len(t, h.keys(), 1, "only the environment has the frames")
		w.sleep(10 * time.Minute)
		require.Len(t, h.keys(), 1)
		w.api.setFramesDown(false)
		w.requireClean(h, p)
		w.requireLog(0)
		require.Len(t, w.api.log(w.api.lastClaim(0)), 203)
	})
}

// endBeforeRestart runs a task whose last frames the gateway gets only from the process that
// follows the one that started it.
func (w *testEnv) endBeforeRestart() {
	w.t.Helper()
	h := w.newHost(1)
	p := h.start(nil)
	w.submit(0)
	w.sleep(time.Second)
	w.api.setFramesDown(true)
	w.awaitEnd(time.Minute, 0)
	p.kill()
	<-p.ended
	p = h.start(nil)
	w.sleep(time.Minute)
	require.Len(w.t, h.keys(), 1, "only the environment has the frames")
	w.api.setFramesDown(false)
	w.requireClean(h, p)
	w.requireLog(0)
}

func TestAgent_executor_API_accepts_no_frames_over_a_restart(t *testing.T) {
	withTestEnv(t, func(_ *testing.T, w *testEnv) { w.endBeforeRestart() })
}

// What only the process that started the environment knew of its end is in the log
// although the next process sends it.
func TestAgent_keeps_notes_of_the_end_over_a_restart(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		w.script = func(run.Key) script { return script{lines: 3, pause: time.Second, notes: "service db had ended"} }
		w.endBeforeRestart()
		log := w.api.log(w.api.lastClaim(0))
		require.Equal(t, "drover: service db had ended\n", string(log[len(log)-1].Output()))
		require.Equal(t, run.StreamSystem, log[len(log)-1].Stream)
	})
}

// A process that finds more about the end than the one that recorded it sends the frame that
// was recorded: the gateway may have it already.
func TestAgent_adds_no_notes_to_a_recorded_end(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		w.script = func(run.Key) script { return script{lines: 3, pause: time.Second, found: "service db had ended"} }
		w.endBeforeRestart()
		log := w.api.log(w.api.lastClaim(0))
		require.Empty(t, log[len(log)-1].Output())
		require.Empty(t, log[len(log)-1].Stream)
	})
}

func TestAgent_executor_API_is_unavailable(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		w.script = func(run.Key) script { return script{lines: 30, pause: time.Second} }
		h := w.newHost(2)
		p := h.start(nil)
		w.submit(0)
		w.sleep(5 * time.Second)
		w.api.setDown(true)
		w.submit(1)
		w.awaitEnd(time.Minute, 0)
		require.Equal(t, run.StatusSuccess, w.outcome(0).Status)
		require.Error(t, p.agent.Health())
		w.sleep(10 * time.Minute)
		require.Zero(t, w.startCount(1))
		w.api.setDown(false)
		w.awaitEnd(time.Minute, 1)
		w.requireOnce()
		w.requireClean(h, p)
		w.requireLog(0)
		w.requireLog(1)
	})
}

func TestAgent_Temporal_is_unavailable(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{5 * time.Second, 5 * time.Minute} {
		t.Run(d.String(), func(t *testing.T) {
			withTestEnv(t, func(t *testing.T, w *testEnv) {
				w.script = func(key run.Key) script { return script{lines: 10 + 100*key.Task, pause: time.Second} }
				h := w.newHost(3)
				p := h.start(nil)
				for task := range 3 {
					w.submit(task)
				}
				w.sleep(4 * time.Second)
				w.tokens.setDown(true)
				w.sleep(d)
				w.tokens.setDown(false)
				w.awaitEnd(10*time.Minute, 0, 1, 2)
				for task := range 3 {
					require.Equal(t, run.StatusSuccess, w.outcome(task).Status)
					require.Equal(t, 1, w.startCount(task))
					require.Equal(t, 1, w.api.lastClaim(task).Dispatch)
					w.requireLog(task)
				}
				w.requireClean(h, p)
			})
		})
	}
}

func TestAgent_huge_output_while_the_executor_API_is_unavailable(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		const lines = 20_000
		w.script = func(run.Key) script { return script{lines: lines, bulk: run.MaxFrameData} }
		w.api.setFramesDown(true)
		h := w.newHost(1)
		p := h.start(nil)
		w.submit(0)
		w.awaitEnd(time.Minute, 0)
		w.sleep(time.Minute)
		w.api.setFramesDown(false)
		w.requireClean(h, p)
		w.requireLog(0)
		require.Len(t, w.api.log(w.api.lastClaim(0)), lines+3)
	})
}

func TestAgent_run_was_terminated(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		w.script = func(run.Key) script { return script{hang: true} }
		h := w.newHost(1)
		p := h.start(nil)
		w.submit(0)
		w.sleep(3 * time.Second)
		// The workflow is gone, and its token with it; the records are updated later.
		w.tokens.forget(0)
		w.sleep(5 * time.Minute)
		require.Len(t, h.keys(), 1, "an invalid token stops nothing")
		w.api.closeClaim(w.api.lastClaim(0))
		w.requireClean(h, p)
	})
}

func TestAgent_damaged_journal(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		damage func(content string) string
		status run.Status
	}{
		"torn_last_line":  {func(s string) string { return s + `{"t":"2026-01-02T03:04:05Z","sta` }, run.StatusSuccess},
		"garbage_at_end":  {func(s string) string { return s + "garbage\n" }, run.StatusSuccess},
		"garbage_inside":  {func(s string) string { return strings.Replace(s, `"starting"`, `"star`, 1) }, run.StatusSuccess},
		"garbage_all":     {func(string) string { return "\x00\x00\x00\n" }, run.StatusSuccess},
		"a_newer_version": {func(s string) string { return strings.Replace(s, `"v":1`, `"v":99`, 1) }, run.StatusSuccess},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			withTestEnv(t, func(t *testing.T, w *testEnv) {
				w.script = func(run.Key) script { return script{lines: 10, pause: time.Second} }
				h := w.newHost(1)
				p := h.start(nil)
				w.submit(0)
				w.sleep(3 * time.Second)
				p.kill()
				<-p.ended
				require.Len(t, h.journalKeys(), 1)
				path := filepath.Join(h.dir, "journal", h.journalKeys()[0]+".jsonl")
				content, err := os.ReadFile(path)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(path, []byte(c.damage(string(content))), 0o600))
				w.api.tolerant = true
				p = h.start(nil)
				w.awaitEnd(10*time.Minute, 0)
				require.Equal(t, c.status, w.outcome(0).Status)
				require.Equal(t, 1, w.startCount(0))
				w.requireClean(h, p)
			})
		})
	}
}

func TestAgent_journal_lost(t *testing.T) {
	t.Parallel()
	for _, lost := range []string{"journal_only", "environment_too"} {
		t.Run(lost, func(t *testing.T) {
			withTestEnv(t, func(t *testing.T, w *testEnv) {
				w.script = func(run.Key) script { return script{lines: 100, pause: time.Second} }
				h := w.newHost(1)
				p := h.start(nil)
				w.submit(0)
				w.sleep(3 * time.Second)
				p.kill()
				<-p.ended
				require.NoError(t, os.RemoveAll(filepath.Join(h.dir, "journal")))
				w.api.tolerant = true
				want := run.StatusSuccess
				if lost == "environment_too" {
					h.drop(w.api.lastClaim(0))
					want = run.StatusFailed
				}
				p = h.start(nil)
				w.awaitEnd(10*time.Minute, 0)
				require.Equal(t, want, w.outcome(0).Status)
				require.Equal(t, 1, w.startCount(0))
				w.requireClean(h, p)
			})
		})
	}
}

func TestAgent_journal_is_not_writable(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		h := w.newHost(1)
		p := h.start(nil)
		w.sleep(time.Second)
		journal := filepath.Join(h.dir, "journal")
		require.NoError(t, os.Rename(journal, journal+"-away"))
		w.submit(0)
		w.sleep(time.Minute)
		require.Error(t, p.agent.Health())
		require.Zero(t, w.startCount(0))
		require.NoError(t, os.Rename(journal+"-away", journal))
		w.awaitEnd(time.Minute, 0)
		w.requireClean(h, p)
	})
}

func TestAgent_sweeps_orphans(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		h := w.newHost(1)
		keys := make([]run.Key, 3)
		for i := range keys {
			keys[i] = run.Key{Run: testRun, Task: i, Attempt: 1, Dispatch: 1}
		}
		p := h.start(nil)
		id := p.agent.ID()
		p.kill()
		<-p.ended
		w.api.put(keys[0], claim{executor: id, closed: true})
		w.api.put(keys[1], claim{executor: id}) // open: it may be adopted
		for _, key := range keys {
			h.put(key)
		}
		p = h.start(nil)
		w.sleep(10 * time.Minute)
		require.Equal(t, []run.Key{keys[1]}, h.keys())
		require.NoError(t, p.agent.Health())
	})
}

func TestNew_state_dir(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func(id string) (*agent.Agent, error) {
		w := &testEnv{t: t}
		p := &process{w: w}
		return agent.New(agent.Deps{Driver: &procDriver{process: p}, API: procAPI{p}, Tokens: procTokens{p}},
			agent.Options{ID: id, Pool: "pool", StateDir: dir})
	}
	first, err := open("")
	require.NoError(t, err)
	_, err = open("")
	require.Equal(t, run.CodeConflict, run.CodeOf(err), "the state dir is locked: %v", err)
	require.NoError(t, first.Close())
	second, err := open("")
	require.NoError(t, err)
	require.Equal(t, first.ID(), second.ID())
	require.NoError(t, second.Close())
	require.NoError(t, second.Close())
	_, err = open("another")
	require.Equal(t, run.CodeConflict, run.CodeOf(err))
	third, err := open(first.ID())
	require.NoError(t, err)
	require.NoError(t, third.Close())
}

func TestNew_options(t *testing.T) {
	t.Parallel()
	_, err := agent.New(agent.Deps{}, agent.Options{})
	require.Equal(t, run.CodeInvalid, run.CodeOf(err), fmt.Sprint(err))
}
