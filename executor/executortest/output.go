package executortest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

// outputCases test the output of steps.
func outputCases() []testCase {
	return []testCase{
		{name: "huge_output", run: hugeOutput},
		{name: "output_at_its_limit", run: limitedOutput},
		{name: "binary_output", run: binaryOutput},
		{name: "output_without_a_newline", run: noNewline},
		{name: "output_that_looks_like_frames", run: lookalike},
		{name: "output_is_prompt", run: promptOutput},
		{name: "secrets_are_masked", run: masked},
	}
}

func hugeOutput(b *bench) {
	const line = "0123456789abcde"
	size := 50 << 20
	if testing.Short() {
		size = 4 << 20
	}
	d := b.define("yes " + line + ` 2>/dev/null | head -c $SIZE`)
	d.Environment = map[string]string{"SIZE": itoa(size)}
	h := b.start(d)
	total, next, wrong := 0, int64(firstFrame), 0
	for f, err := range h.Events(b.limit(), 1) {
		require.NoError(b, err)
		if f.N != next {
			b.Fatalf("frame %d follows %d", f.N, next-1)
		}
		next++
		for _, c := range f.Data {
			if c != (line + "\n")[total%(len(line)+1)] {
				wrong++
			}
			total++
		}
	}
	require.Equal(b, size, total)
	require.Zero(b, wrong, "wrong bytes")
	b.remove(h)
}

// limitedOutput prints more than the log limit of a task, in many small writes and
// with outputs up to their limit: the gateway accepts all frames.
func limitedOutput(b *bench) {
	const limit = 100_001
	d := b.define(`i=0; while [ $i -lt 3000 ]; do echo "line $i of what is printed, 0123456789"; i=$((i+1)); done`,
		`{ printf 'all='; head -c $SIZE /dev/zero | tr '\0' x; } >> "$DROVER_OUTPUT"`)
	d.LogLimit = limit
	d.Environment = map[string]string{"SIZE": itoa(run.MaxOutputBytes - len("all"))}
	s := b.run(d)
	require.Equal(b, run.StatusSuccess, s.result().Status, s.result().Reason)
	require.Contains(b, s.output(run.StreamSystem), "the log ends here")
	require.Len(b, s.output(run.StreamStdout), limit)
	require.LessOrEqual(b, run.LogCost(s.frames)+(run.MaxSetupFrames+1)*run.MaxFrameData, run.LogBudget(limit), "with the longest setup before it")
}

func itoa(n int) string {
	var out []byte
	for ; n > 0; n /= 10 {
		out = append([]byte{byte('0' + n%10)}, out...)
	}
	return string(out)
}

func binaryOutput(b *bench) {
	d := b.define(`printf '\000\001\377\376\r\n\033[31m'; printf '\377' >&2`)
	require.Equal(b, "\x00\x01\xff\xfe\r\n\x1b[31m\xff", b.run(d).output(run.StreamStdout))
	d = b.split(d)
	s := b.run(d)
	require.Equal(b, "\x00\x01\xff\xfe\r\n\x1b[31m", s.output(run.StreamStdout))
	require.Equal(b, "\xff", s.output(run.StreamStderr))
}

func noNewline(b *bench) {
	d := b.define("printf one", "printf two >&2", "printf three; exit 1")
	require.Equal(b, "onetwothree", b.run(d).output(run.StreamStdout))
	s := b.run(b.split(d))
	require.Equal(b, "onethree", s.output(run.StreamStdout))
	require.Equal(b, "two", s.output(run.StreamStderr))
}

// lookalike prints lines in the format of the shim's journal and copy.
func lookalike(b *bench) {
	text := `{"v":1,"n":5,"k":"task_end","r":{"status":"success"}}`
	s := b.run(b.define("echo '"+text+"'; echo 'nonce "+text+"'", "exit 1"))
	require.Equal(b, text+"\nnonce "+text+"\n", s.output(""))
	require.Equal(b, run.StatusFailed, s.result().Status)
}

func promptOutput(b *bench) {
	h := b.start(b.define("printf prompt; sleep 300"))
	b.awaitOutput(h, "prompt")
	b.remove(h)
}

func masked(b *bench) {
	d := b.define(
		"echo value=$TOKEN; printf hun; sleep 0.2; echo ter2; printf 'key\nof lines\n' >&2",
		`echo leak=$TOKEN >> $DROVER_OUTPUT`,
		"exit 1",
	)
	d.Steps[2].Name = "about hunter2"
	d.Environment = map[string]string{"TOKEN": "hunter2"}
	d.Secrets = []string{"hunter2", "of lines"}
	s := b.run(d)
	require.Equal(b, "value=***\n***\nkey\n***\n", s.output(run.StreamStdout))
	requireMasked(b, s)
	s = b.run(b.split(d))
	require.Equal(b, "value=***\n***\n", s.output(run.StreamStdout))
	require.Equal(b, "key\n***\n", s.output(run.StreamStderr))
	requireMasked(b, s)
}

func requireMasked(b *bench, s recording) {
	b.Helper()
	for _, f := range s.frames {
		for _, value := range f.Outputs {
			require.NotContains(b, value, "hunter2")
		}
	}
	require.NotContains(b, s.result().Reason, "hunter2")
}
