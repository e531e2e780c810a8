package agent_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

// A task that was launched, and whose steps have not begun, ends if it cannot be started any
// more, or is to be stopped.
func TestAgent_resume_that_fails(t *testing.T) {
	t.Parallel()
	stopped := run.TaskResult{Status: run.StatusStopped, Reason: "stopped before it began"}
	cases := map[string]struct {
		script  script
		stop    bool
		gateway bool // is away
		want    run.TaskResult
	}{
		"for good": {
			script: script{refused: run.Errorf(run.CodeInvalid, "service db ended at once: it needs s3cret")},
			want:   run.TaskResult{Status: run.StatusFailed, Cause: run.CauseStart, Reason: "service db ended at once: it needs ***"},
		},
		"until a stop":                     {script: script{refused: run.Errorf(run.CodeUnavailable, "the registry is unreachable")}, stop: true, want: stopped},
		"until a stop without the gateway": {stop: true, gateway: true, want: stopped},
		"until a stop of a long start":     {script: script{delay: time.Hour}, stop: true, want: stopped},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			withTestEnv(t, func(t *testing.T, w *testEnv) {
				w.api.hidden = []string{"s3cret"}
				c.script.lines = 3
				w.script = func(run.Key) script { return c.script }
				h := w.newHost(1)
				p := h.start(once("launched", (*process).kill))
				w.submit(0)
				<-p.ended
				e := h.find(run.Key{Run: testRun, Attempt: 1, Dispatch: 1})
				w.api.setDown(c.gateway)
				p = h.start(nil)
				if c.stop {
					w.sleep(time.Minute)
					w.tokens.stop(0)
				}
				w.awaitEnd(10*time.Minute, 0)
				h.deliver(e, 1, c.script) // the order of the earlier process arrives late
				w.sleep(time.Minute)
				require.Empty(t, w.began)
				w.api.setDown(false)
				w.requireClean(h, p)
				w.requireLog(0)
				got := w.outcome(0)
				require.Equal(t, c.want, run.TaskResult{Status: got.Status, Cause: got.Cause, Reason: got.Reason})
			})
		})
	}
}
