package executortest

import (
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

// stepRetry runs a script that fails twice, in an environment that stays.
func stepRetry(b *bench) {
	d := b.define(`echo n >> tried; n=$(wc -l < tried); echo "n$((n))=x" >> "$DROVER_OUTPUT"; echo "n=$((n))" >> "$DROVER_OUTPUT"; test $n -eq 3 || exit 7`, "cat tried")
	d.Steps[0].Name = "it"
	d.Steps[0].Retry = run.Retry{MaxAttempts: 4, Backoff: run.Duration(10 * time.Millisecond), BackoffFactor: 2}
	s := b.run(d)
	r := s.result()
	require.Equal(b, run.StatusSuccess, r.Status, r.Reason)
	require.Equal(b, run.StatusSuccess, r.Steps[0].Status)
	require.Equal(b, 0, *r.Steps[0].ExitCode)
	require.Equal(b, "n\nn\nn\n", s.stepOutput(1), "the attempts share the environment")
	require.Equal(b, strings.Join([]string{
		`drover: step 1 "it" exited with code 7; attempt 2 of 4 begins after 10ms`,
		`drover: step 1 "it" exited with code 7; attempt 3 of 4 begins after 20ms`, "",
	}, "\n"), s.output(run.StreamSystem))
	outputs, starts, ends := map[string]string{}, 0, 0
	for _, f := range s.frames {
		switch f.Kind { //nolint:exhaustive // the others do not matter
		case run.FrameOutputs:
			outputs = f.Outputs
		case run.FrameStepStart:
			starts++
		case run.FrameStepEnd:
			ends++
		}
	}
	require.Equal(b, map[string]string{"n3": "x", "n": "3"}, outputs, "those of the last attempt")
	require.Equal(b, []int{2, 2}, []int{starts, ends}, "a step has one start and one end")
}

// stepRetryLimited runs scripts whose policies do not allow another attempt.
func stepRetryLimited(b *bench) {
	for name, c := range map[string]struct {
		script string
		policy run.Retry
		reason string
		tries  int
	}{
		"exhausted":          {"echo try; exit 3", run.Retry{MaxAttempts: 2}, "step 1 exited with code 3; it was attempted 2 times", 2},
		"another exit code":  {"echo try; exit 3", run.Retry{MaxAttempts: 3, ExitCodes: []int{4, 5}}, "step 1 exited with code 3", 1},
		"the exit code":      {"echo try; exit 4", run.Retry{MaxAttempts: 3, ExitCodes: []int{4, 5}}, "step 1 exited with code 4; it was attempted 3 times", 3},
		"only timeouts":      {"echo try; exit 3", run.Retry{MaxAttempts: 3, On: []run.RetryOn{run.RetryTimeout}}, "step 1 exited with code 3", 1},
		"no retry, one step": {"echo try; exit 3", run.Retry{}, "step 1 exited with code 3", 1},
	} {
		d := b.define(c.script)
		d.Steps[0].Retry = c.policy
		s := b.run(d)
		require.Equal(b, run.StatusFailed, s.result().Status, name)
		require.Equal(b, c.reason, s.result().Reason, name)
		require.Equal(b, strings.Repeat("try\n", c.tries), s.output(run.StreamStdout), name)
	}
}

func stepRetryTimeout(b *bench) {
	d := b.define("echo try; sleep 300")
	d.Steps[0].Retry = run.Retry{MaxAttempts: 2, On: []run.RetryOn{run.RetryTimeout}}
	d.Steps[0].Timeout = 300 * time.Millisecond
	r := b.runPast(d, "try\ntry\n").result()
	require.Equal(b, run.StatusFailed, r.Status)
	require.Equal(b, run.CauseTimeout, r.Cause)
	require.Equal(b, fmt.Sprintf("step 1 timed out after %v; it was attempted 2 times", d.Steps[0].Timeout), r.Reason)
}

// stepRetryEnds stops a task, and lets it time out, while a step waits for its next
// attempt.
func stepRetryEnds(b *bench) {
	d := b.define("exit 3", "echo no")
	d.Steps[0].Retry = run.Retry{MaxAttempts: 5, Backoff: run.Duration(time.Hour)}
	h := b.start(d)
	b.awaitOutput(h, "attempt 2 of 5 begins after 1h0m0s")
	require.NoError(b, h.Stop(b.limit(), time.Minute))
	s := b.follow(h)
	b.remove(h)
	r := s.result()
	require.Equal(b, run.StatusStopped, r.Status)
	require.Equal(b, []run.Status{run.StatusStopped, run.StatusSkipped}, []run.Status{r.Steps[0].Status, r.Steps[1].Status})

	d = b.define("exit 3", "echo no")
	d.Steps[0].Retry = run.Retry{MaxAttempts: 5, Backoff: run.Duration(time.Hour)}
	d.Timeout = 5 * time.Second
	s = b.run(d)
	r = s.result()
	require.Equal(b, run.CauseTimeout, r.Cause, r.Reason)
	require.Equal(b, "the task timed out after 5s in step 1", r.Reason)
	require.NotContains(b, s.output(run.StreamStdout), "no")
}
