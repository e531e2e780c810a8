package executortest

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/run"
)

// streamCases test the order of what steps write to their two outputs.
func streamCases() []testCase {
	return []testCase{
		{name: "merged_streams_in_order", run: mergedOrder},
		{name: "merged_streams_of_a_traced_shell", run: mergedTrace},
		{name: "merged_streams_of_several_writers", run: mergedWriters},
		{name: "merged_secret_of_two_streams", run: mergedSecret},
		{name: "split_streams_in_order", run: splitOrder},
		{name: "split_streams_of_a_traced_shell", run: splitTrace},
		{name: "split_streams_of_several_writers", run: splitWriters},
		{name: "split_streams_with_whole_lines", run: splitLines},
		{name: "split_output_is_prompt", run: splitPrompt},
		{name: "split_huge_output", run: splitHuge},
		{name: "split_background_process_prints_later", run: splitBackground},
		{name: "split_streams_of_a_stopped_step", run: splitStopped},
	}
}

// split returns the definition under a new key, with split streams.
func (b *bench) split(d run.Definition) run.Definition {
	d.Key = key()
	d.Steps = slices.Clone(d.Steps)
	for i := range d.Steps {
		d.Steps[i].Streams = run.StreamsSplit
	}
	return d
}

// alternating writes lines to both outputs in turn, after and before bursts to one.
const alternating = `i=0; while [ $i -lt 30 ]; do echo n$i; i=$((i+1)); done; echo Error >&2
i=0; while [ $i -lt 300 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done
echo Warning >&2; i=0; while [ $i -lt 30 ]; do echo m$i; i=$((i+1)); done`

// alternatingLines returns the lines of alternating, with the prefixes of their
// streams.
func alternatingLines(stdout, stderr string) (lines []string) {
	for i := range 30 {
		lines = append(lines, fmt.Sprintf("%sn%d", stdout, i))
	}
	lines = append(lines, stderr+"Error")
	for i := range 300 {
		lines = append(lines, fmt.Sprintf("%so%d", stdout, i), fmt.Sprintf("%se%d", stderr, i))
	}
	lines = append(lines, stderr+"Warning")
	for i := range 30 {
		lines = append(lines, fmt.Sprintf("%sm%d", stdout, i))
	}
	return lines
}

// marked returns the lines of the log, each with the stream of all its parts.
func (s recording) marked() (lines []string) {
	begun := ""
	for _, f := range s.frames {
		if f.Kind != run.FrameOutput {
			continue
		}
		for text := range strings.Lines(string(f.Data)) {
			prefix := string(f.Stream) + " "
			if begun == "" || !strings.HasPrefix(begun, prefix) {
				begun += prefix
			}
			begun += text
			if line, complete := strings.CutSuffix(begun, "\n"); complete {
				lines, begun = append(lines, line), ""
			}
		}
	}
	if begun != "" {
		lines = append(lines, begun)
	}
	return lines
}

func mergedOrder(b *bench) {
	s := b.run(b.define(alternating))
	require.Equal(b, alternatingLines("stdout ", "stdout "), s.marked())
	d := b.define(alternating)
	d.Steps[0].Streams = run.StreamsMerged
	require.Equal(b, alternatingLines("stdout ", "stdout "), b.run(d).marked())
}

// traced is run with sh -x, which writes each command to stderr before it runs.
const traced = "echo one; echo two; false || echo three"

func tracedLines(stdout, stderr string) []string {
	return []string{
		stderr + "+ echo one", stdout + "one", stderr + "+ echo two", stdout + "two",
		stderr + "+ false", stderr + "+ echo three", stdout + "three",
	}
}

func mergedTrace(b *bench) {
	d := b.define(traced)
	d.Shell = []string{"/bin/sh", "-x"}
	require.Equal(b, tracedLines("stdout ", "stdout "), b.run(d).marked())
}

// writers are several processes that write to both outputs at once.
const writers = `for name in a b c d; do
  (i=0; while [ $i -lt 100 ]; do echo "$name $i out"; echo "$name $i err" >&2; i=$((i+1)); done) &
done
wait`

// requireWriters checks that no line of the writers is broken or missing, and that
// the lines of each writer are in order: those of each stream or, if together is
// true, of both.
func requireWriters(b *bench, lines []string, together bool, stdout, stderr string) {
	b.Helper()
	require.Len(b, lines, 4*100*2)
	for _, name := range []string{"a", "b", "c", "d"} {
		var both, out, errs, wantBoth, wantOut, wantErrs []string
		for i := range 100 {
			wantOut = append(wantOut, fmt.Sprintf("%s%s %d out", stdout, name, i))
			wantErrs = append(wantErrs, fmt.Sprintf("%s%s %d err", stderr, name, i))
			wantBoth = append(wantBoth, wantOut[i], wantErrs[i])
		}
		for _, line := range lines {
			switch {
			case strings.HasPrefix(line, stdout+name+" ") && strings.HasSuffix(line, " out"):
				out = append(out, line)
			case strings.HasPrefix(line, stderr+name+" "):
				errs = append(errs, line)
			default:
				continue
			}
			both = append(both, line)
		}
		require.Equal(b, wantOut, out)
		require.Equal(b, wantErrs, errs)
		if together {
			require.Equal(b, wantBoth, both)
		}
	}
}

func mergedWriters(b *bench) {
	requireWriters(b, b.run(b.define(writers)).marked(), true, "stdout ", "stdout ")
}

// mergedSecret writes a secret to the one pipe in two pieces, by both outputs.
func mergedSecret(b *bench) {
	d := b.define("printf hun; sleep 0.2; echo ter2 >&2")
	d.Secrets = []string{"hunter2"}
	require.Equal(b, "***\n", b.run(d).output(run.StreamStdout))
}

// inOrder reports whether the driver's shims run on Linux, where split streams have
// the order of the writes. Those in containers do.
func inOrder(f executor.Features) bool { return runtime.GOOS == "linux" || f.Images }

func splitOrder(b *bench) {
	got := b.run(b.split(b.define(alternating))).marked()
	want := alternatingLines("stdout ", "stderr ")
	if !inOrder(b.driver.Features()) {
		slices.Sort(got)
		slices.Sort(want)
	}
	require.Equal(b, want, got)
}

func splitTrace(b *bench) {
	d := b.split(b.define(traced))
	d.Shell = []string{"/bin/sh", "-x"}
	got, want := b.run(d).marked(), tracedLines("stdout ", "stderr ")
	if !inOrder(b.driver.Features()) {
		slices.Sort(got)
		slices.Sort(want)
	}
	require.Equal(b, want, got)
}

func splitWriters(b *bench) {
	requireWriters(b, b.run(b.split(b.define(writers))).marked(), inOrder(b.driver.Features()), "stdout ", "stderr ")
}

// splitLines writes lines in pieces, between which the other output gets lines.
func splitLines(b *bench) {
	s := b.run(b.split(b.define(`i=0
while [ $i -lt 100 ]; do
  printf "o$i"; printf "e$i" >&2; printf ' of'; printf ' of' >&2; echo ' stdout'; echo ' stderr' >&2
  i=$((i+1))
done`)))
	var want []string
	for i := range 100 {
		want = append(want, fmt.Sprintf("stdout o%d of stdout", i), fmt.Sprintf("stderr e%d of stderr", i))
	}
	got := s.marked()
	if !inOrder(b.driver.Features()) {
		slices.Sort(got)
		slices.Sort(want)
	}
	require.Equal(b, want, got)
}

// splitPrompt shows the beginning of a line whose end does not come.
func splitPrompt(b *bench) {
	h := b.start(b.split(b.define("printf prompt >&2; sleep 300")))
	b.awaitOutput(h, "prompt")
	b.remove(h)
}

// splitHuge writes much to both outputs, in pieces and lines of all sizes.
func splitHuge(b *bench) {
	const size = 3 << 20
	d := b.split(b.define(
		`(yes out | head -c $SIZE) & (yes err | head -c $SIZE >&2) & wait`,
		`head -c $SIZE /dev/zero | tr '\0' x; echo end >&2`,
	))
	d.Environment = map[string]string{"SIZE": itoa(size)}
	s := b.run(d)
	require.Equal(b, run.StatusSuccess, s.result().Status, s.result().Reason)
	require.Len(b, s.output(""), 3*size+len("end\n"))
	require.Equal(b, strings.Repeat("err\n", size/4)+"end\n", s.output(run.StreamStderr))
	require.Equal(b, strings.Repeat("out\n", size/4)+strings.Repeat("x", size), s.output(run.StreamStdout))
}

func splitBackground(b *bench) {
	s := b.run(b.split(b.define("(sleep 1; echo late; printf later >&2) & echo early", "sleep 2; echo last >&2")))
	require.Equal(b, run.StatusSuccess, s.result().Status, s.result().Reason)
	require.Equal(b, "early\nlate\nlater", s.stepOutput(0), "the output of a process belongs to the step that started it")
	require.Equal(b, "last\n", s.stepOutput(1))
}

// splitStopped loses no output of a step that is stopped, and waits for none.
func splitStopped(b *bench) {
	h := b.start(b.split(b.define(`trap 'printf cleaned >&2; exit 1' TERM; printf 'no end'; echo begun >&2; while true; do sleep 0.1; done`)))
	b.awaitOutput(h, "begun")
	require.NoError(b, h.Stop(b.limit(), grace))
	s := b.follow(h)
	b.remove(h)
	require.Equal(b, run.StatusStopped, s.result().Status)
	require.Equal(b, "no end", s.output(run.StreamStdout))
	errs := s.output(run.StreamStderr) // a shell may say between them that its child was terminated
	require.True(b, strings.HasPrefix(errs, "begun\n") && strings.HasSuffix(errs, "cleaned"), errs)
}
