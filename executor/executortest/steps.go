package executortest

import (
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

// stepCases test the ends of steps and tasks.
func stepCases() []testCase {
	return []testCase{
		{name: "exit_codes", run: exitCodes},
		{name: "a_failure_ends_the_task", run: failureEnds},
		{name: "when", run: when},
		{name: "step_retry", run: stepRetry},
		{name: "step_retry_limited", run: stepRetryLimited},
		{name: "step_retry_timeout", run: stepRetryTimeout},
		{name: "step_retry_ends_with_the_task", run: stepRetryEnds},
		{name: "skip", run: skip},
		{name: "step_timeout", run: stepTimeout},
		{name: "step_timeout_after_grace", run: stepTimeoutKill},
		{name: "task_timeout", run: taskTimeout},
		{name: "shell_missing", run: shellMissing},
		{name: "shell_arguments", run: shellArguments},
		{name: "outputs", run: outputs},
		{name: "outputs_malformed", run: outputsMalformed},
		{name: "outputs_too_large", run: outputsTooLarge},
		{name: "background_processes", run: background},
		{name: "background_process_prints_later", run: backgroundPrints},
		{name: "many_steps", run: manySteps},
	}
}

func exitCodes(b *bench) {
	for script, want := range map[string]struct {
		code   int
		reason string
	}{
		"exit 3":            {3, `step 1 "it" exited with code 3`},
		"no-such-command-x": {127, `step 1 "it" exited with code 127`},
		"false; echo no":    {1, `step 1 "it" exited with code 1`}, // -e
		"kill -9 $$":        {137, `step 1 "it" was killed by signal 9 (killed)`},
		"kill -TERM $$":     {143, `step 1 "it" was killed by signal 15 (terminated)`},
		"exit 255":          {255, `step 1 "it" exited with code 255`},
	} {
		d := b.define(script)
		d.Steps[0].Name = "it"
		s := b.run(d)
		r := s.result()
		require.Equal(b, run.StatusFailed, r.Status, script)
		require.Equal(b, run.CauseStep, r.Cause, script)
		require.Equal(b, want.code, *r.ExitCode, script)
		require.Equal(b, want.reason, r.Reason, script)
		require.Equal(b, run.StatusFailed, r.Steps[0].Status, script)
		require.Equal(b, want.code, *r.Steps[0].ExitCode, script)
		require.NotContains(b, s.output(run.StreamStdout), "no\n")
	}
}

func failureEnds(b *bench) {
	s := b.run(b.define("echo one", "exit 2", "echo three", "exit 4"))
	r := s.result()
	require.Equal(b, "one\n", s.output(run.StreamStdout))
	require.Equal(b, run.StatusFailed, r.Status)
	require.Equal(b, "step 2 exited with code 2", r.Reason)
	require.Equal(b, 2, *r.ExitCode)
	require.Equal(b, []run.Status{run.StatusSuccess, run.StatusFailed, run.StatusSkipped, run.StatusSkipped}, statuses(r))
	require.Nil(b, r.Steps[2].ExitCode)
}

func statuses(r run.TaskResult) []run.Status {
	var out []run.Status
	for _, s := range r.Steps {
		out = append(out, s.Status)
	}
	return out
}

func when(b *bench) {
	define := func(first string) run.Definition {
		d := b.define(first, "echo success", "echo failure", "echo always", "exit 5")
		d.Steps[2].When, d.Steps[3].When, d.Steps[4].When = run.WhenOnFailure, run.WhenAlways, run.WhenOnFailure
		return d
	}
	s := b.run(define("true"))
	require.Equal(b, "success\nalways\n", s.output(""))
	require.Equal(b, run.StatusSuccess, s.result().Status)
	require.Equal(b, 0, *s.result().ExitCode)
	require.Equal(b, []run.Status{run.StatusSuccess, run.StatusSuccess, run.StatusSkipped, run.StatusSuccess, run.StatusSkipped}, statuses(s.result()))
	require.Equal(b, make([]run.Stage, 5), stages(s.result()))

	s = b.run(define("exit 3"))
	require.Equal(b, "failure\nalways\n", s.output(""))
	require.Equal(b, run.StatusFailed, s.result().Status)
	require.Equal(b, 3, *s.result().ExitCode, "the first failure decides")
	require.Equal(b, "step 1 exited with code 3", s.result().Reason)
	require.Equal(b, []run.Status{run.StatusFailed, run.StatusSkipped, run.StatusSuccess, run.StatusSuccess, run.StatusFailed}, statuses(s.result()))
	require.Equal(b, []run.Stage{"", "", run.StageCleanup, run.StageCleanup, run.StageCleanup}, stages(s.result()))
	requireStages(b, s)
}

// skip skips steps also after a success or a failure.
func skip(b *bench) {
	d := b.define("echo one", "exit 9", "exit 2", "echo failure", "echo never")
	d.Steps[3].When, d.Steps[4].When = run.WhenAlways, run.WhenAlways
	d.Steps[1].Skip, d.Steps[4].Skip = true, true
	s := b.run(d)
	require.Equal(b, "one\nfailure\n", s.output(""))
	require.Equal(b, "step 3 exited with code 2", s.result().Reason)
	require.Equal(b, []run.Status{run.StatusSuccess, run.StatusSkipped, run.StatusFailed, run.StatusSuccess, run.StatusSkipped}, statuses(s.result()))
}

func stepTimeout(b *bench) {
	d := b.define("echo begun; sleep 300", "echo next", "echo cleaning")
	d.Steps[0].Timeout = 300 * time.Millisecond
	d.Steps[2].When = run.WhenAlways
	s := b.run(d)
	r := s.result()
	require.Equal(b, "cleaning\n", s.stepOutput(2))
	require.Empty(b, s.stepOutput(1))
	require.Equal(b, run.StatusFailed, r.Status)
	require.Equal(b, run.CauseTimeout, r.Cause)
	require.True(b, r.TimedOut)
	require.Equal(b, "step 1 timed out after 300ms", r.Reason)
	require.True(b, r.Steps[0].TimedOut)
	require.Equal(b, []run.Status{run.StatusFailed, run.StatusSkipped, run.StatusSuccess}, statuses(r))
}

// runPast runs a task whose first step prints the output and then times out. On a busy host
// the step may time out before it has printed: then it is run again with more time, which
// changes d.
func (b *bench) runPast(d run.Definition, output string) recording {
	b.Helper()
	for {
		s := b.run(d)
		if s.output(run.StreamStdout) == output {
			return s
		}
		require.Less(b, d.Steps[0].Timeout, testenv.Patience(b), "it printed %q", s.output(""))
		d.Key = key()
		d.Steps[0].Timeout *= 4
	}
}

func stepTimeoutKill(b *bench) {
	d := b.define("trap '' TERM; echo ready; while true; do sleep 0.1; done")
	d.Steps[0].Timeout, d.Grace = 200*time.Millisecond, 200*time.Millisecond
	r := b.runPast(d, "ready\n").result()
	require.Equal(b, run.CauseTimeout, r.Cause)
	require.Equal(b, 137, *r.ExitCode)
}

func taskTimeout(b *bench) {
	d := b.define("true", "sleep 300", "echo no")
	d.Steps[2].When = run.WhenOnFailure
	d.Timeout = time.Second
	s := b.run(d)
	r := s.result()
	require.Empty(b, s.output(run.StreamStdout))
	require.Equal(b, run.StatusFailed, r.Status)
	require.Equal(b, run.CauseTimeout, r.Cause)
	require.True(b, r.TimedOut)
	require.Contains(b, r.Reason, "timed out after 1s")
	require.Equal(b, run.StatusSkipped, r.Steps[2].Status, "the time is over for all steps")
	require.GreaterOrEqual(b, r.Ended.Sub(r.Started), d.Timeout)
}

func shellMissing(b *bench) {
	d := b.define("true")
	d.Shell = []string{"/no/such/shell"}
	r := b.run(d).result()
	require.Equal(b, run.StatusFailed, r.Status)
	require.Equal(b, 127, *r.ExitCode)
	require.Contains(b, r.Reason, "/no/such/shell")
}

func shellArguments(b *bench) {
	d := b.define("echo value")
	d.Shell = []string{"sh", "-x"} // by PATH
	s := b.run(d)
	require.Equal(b, "+ echo value\nvalue\n", s.output(run.StreamStdout))
}

func outputs(b *bench) {
	s := b.run(b.define(
		`echo version=1.2 >> $DROVER_OUTPUT; echo 'json={"a": "b=c"}' >> "$DROVER_OUTPUT"`,
		`echo version=1.3 >> $DROVER_OUTPUT; printf empty= >> $DROVER_OUTPUT`,
	))
	require.Equal(b, run.StatusSuccess, s.result().Status, s.result().Reason)
	var got []map[string]string
	for _, f := range s.frames {
		if f.Kind == run.FrameOutputs {
			got = append(got, f.Outputs)
		}
	}
	require.Equal(b, []map[string]string{
		{"version": "1.2", "json": `{"a": "b=c"}`},
		{"version": "1.3", "empty": ""},
	}, got)
}

func outputsMalformed(b *bench) {
	s := b.run(b.define(`echo ok=1 > $DROVER_OUTPUT; echo just words >> $DROVER_OUTPUT`))
	require.Equal(b, run.StatusFailed, s.result().Status)
	require.Contains(b, s.result().Reason, "line 2 of $DROVER_OUTPUT")
}

func outputsTooLarge(b *bench) {
	r := b.run(b.define(`printf k= > $DROVER_OUTPUT; head -c 1048576 /dev/zero | tr '\0' x >> $DROVER_OUTPUT`)).result()
	require.Equal(b, run.StatusFailed, r.Status)
	require.Contains(b, r.Reason, "1048576 bytes")
}

func background(b *bench) {
	s := b.run(b.define( // waits for none of the processes
		"sleep 36000 & (trap '' TERM; sleep 36000) & echo one",
		"echo two; sleep 36000 > /dev/null 2>&1 &",
	))
	require.Equal(b, run.StatusSuccess, s.result().Status, s.result().Reason)
	require.Equal(b, "one\ntwo\n", s.output(run.StreamStdout))
}

func backgroundPrints(b *bench) {
	s := b.run(b.define("(sleep 1; echo late) & echo early", "sleep 2; echo last"))
	require.Equal(b, run.StatusSuccess, s.result().Status, s.result().Reason)
	require.Equal(b, "early\nlate\n", s.stepOutput(0), "the output of a process belongs to the step that started it")
	require.Equal(b, "last\n", s.stepOutput(1))
}

func manySteps(b *bench) {
	scripts := strings.Split(strings.Repeat("true ", run.MaxSteps-1)+"true", " ")
	s := b.run(b.define(scripts...))
	require.Equal(b, run.StatusSuccess, s.result().Status, s.result().Reason)
	require.Len(b, s.result().Steps, run.MaxSteps)
}
