package agent_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

const damageWarning = "failed to read the journal of the environment"

// TestAgent_damaged_environment damages the journal of an environment. That must
// not block its task, or the task's slot, permanently.
func TestAgent_damaged_environment(t *testing.T) {
	t.Parallel()
	long := script{lines: 60, pause: 2 * time.Second, setup: []string{"pulling"}} // ends without a stop
	endless := script{lines: 10_000, pause: 2 * time.Second, setup: []string{"pulling"}}
	cases := map[string]struct {
		script   script
		gap      bool
		restarts bool
	}{
		"unreadable":                             {script: long},
		"unreadable after a restart":             {script: long, restarts: true},
		"unreadable and stopped":                 {script: endless},
		"unreadable and stopped after a restart": {script: endless, restarts: true},
		"a gap":                                  {script: long, gap: true},
		"a gap after a restart":                  {script: long, gap: true, restarts: true},
		"a gap and stopped":                      {script: endless, gap: true},
		"a gap and stopped after a restart":      {script: endless, gap: true, restarts: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			withTestEnv(t, func(t *testing.T, w *testEnv) {
				w.script = func(run.Key) script { return c.script }
				h := w.newHost(1)
				p := h.start(nil)
				w.submit(0)
				w.sleep(10 * time.Second)
				h.find(w.api.lastClaim(0)).damageNext(c.gap)
				warnings := 1
				if c.restarts {
					w.sleep(10 * time.Second)
					p.kill()
					<-p.ended
					warnings += w.log.warnings(damageWarning)
					p = h.start(nil)
				}
				w.sleep(time.Minute)
				require.Equal(t, warnings, w.log.warnings(damageWarning), "one in each process")
				require.Empty(t, w.ends(0), "the environment runs")
				require.Equal(t, 1, p.agent.SlotsInUse())
				if c.script.lines == endless.lines {
					w.tokens.stop(0)
				}
				w.awaitEnd(10*time.Minute, 0)
				w.requireDamaged(h, p)
				require.Equal(t, warnings, w.log.warnings(damageWarning))
			})
		})
	}
}

// TestAgent_damage_within_a_batch damages frames of a batch that an earlier process
// sent, and that may be stored: its bounds never change.
func TestAgent_damage_within_a_batch(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"end", "ended"} {
		t.Run(point, func(t *testing.T) {
			withTestEnv(t, func(t *testing.T, w *testEnv) {
				w.script = func(run.Key) script { return script{lines: 8, setup: []string{"pulling"}} }
				w.api.setFramesDown(true)
				h := w.newHost(1)
				p := h.start(once(point, func(p *process) {
					w.sleep(time.Second)
					p.kill()
				}))
				w.submit(0)
				<-p.ended
				h.find(w.api.lastClaim(0)).damageJournal(damage{from: 5, to: 6})
				p = h.start(nil)
				w.sleep(time.Minute)
				w.api.setFramesDown(false)
				w.awaitEnd(10*time.Minute, 0)
				if point == "end" {
					w.requireDamaged(h, p)
					return
				}
				require.Equal(t, run.StatusSuccess, w.outcome(0).Status, "the result was known before")
				w.requireClean(h, p)
				w.requireLog(0)
				require.Contains(t, w.lines(0), "missing")
			})
		})
	}
}

// requireDamaged checks that a task has failed because of its damaged journal, and
// that nothing is left of it.
func (w *testEnv) requireDamaged(h *host, p *process) {
	w.t.Helper()
	r := w.outcome(0)
	require.Equal(w.t, run.StatusFailed, r.Status)
	require.Equal(w.t, run.CauseVanished, r.Cause)
	require.Contains(w.t, r.Reason, "journal is damaged")
	w.requireClean(h, p)
	w.requireLog(0)
	require.Contains(w.t, w.lines(0), "journal is damaged")
	require.Zero(w.t, p.agent.SlotsInUse())
	require.Equal(w.t, 1, w.startCount(0))
}

// lines returns the log of a task as text.
func (w *testEnv) lines(task int) string {
	var text strings.Builder
	for _, f := range w.api.log(w.api.lastClaim(task)) {
		text.Write(f.Data)
	}
	return text.String()
}
