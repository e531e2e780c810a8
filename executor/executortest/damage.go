package executortest

import (
	"archive/tar"
	"bytes"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/shim/journal"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

// damageCases damage the journal of an environment. Its task must not run forever:
// it fails with that reason once the environment has ended.
func damageCases() []testCase {
	copies := func(f executor.Features) bool { return f.Copy }
	return []testCase{
		{name: "damaged_journal_of_a_running_task", needs: copies, run: damagedWhileRunning},
		{name: "damaged_journal_of_an_ended_task", needs: copies, run: damagedAfterTheEnd},
	}
}

// damages returns the kinds of damage. Each keeps at least the first two lines.
func damages() map[string]func(journal []byte) []byte {
	const kept, cut, most = 2, 60, 9 << 20
	boundary := func(journal []byte, line int) int {
		return len(bytes.Join(slices.Collect(bytes.Lines(journal))[:line], nil))
	}
	return map[string]func(journal []byte) []byte{
		"garbage": func(j []byte) []byte {
			copy(j[boundary(j, kept)+cut:], make([]byte, cut))
			return j
		},
		"a lost line": func(j []byte) []byte {
			return slices.Delete(j, boundary(j, kept), boundary(j, kept+1))
		},
		"lost bytes": func(j []byte) []byte {
			at := boundary(j, kept) + cut
			return slices.Delete(j, at, at+cut)
		},
		"a line that is too long": func(j []byte) []byte {
			return slices.Insert(j, boundary(j, kept), append(bytes.Repeat([]byte("x"), most), '\n')...)
		},
		"a lost end": func(j []byte) []byte { return j[:boundary(j, kept+1)] },
	}
}

const printsDirectory = `dirname "$DROVER_OUTPUT"; echo one`

func damagedWhileRunning(b *bench) {
	for kind, change := range damages() {
		d := b.define(printsDirectory, "echo two; echo three", "echo four; trap 'exit 0' TERM; while true; do sleep 0.1; done")
		h := b.start(d)
		s := b.awaitOutput(h, "four")
		b.damage(h, s, change)
		h, err := b.reopen().Attach(b.limit(), d.Key)
		require.NoError(b, err)
		if kind != "a lost end" { // the end may just not be written yet
			s = read(b.limit(), h, 1, nil)
			require.ErrorIs(b, s.err, executor.ErrDamaged, kind)
			require.Equal(b, run.CodeInternal, run.CodeOf(s.err), "%s: the environment runs: %v", kind, s.err)
			require.NotEmpty(b, s.frames, "%s: frames before the damage", kind)
		}
		require.NoError(b, h.Stop(b.limit(), grace))
		b.requireDamaged(kind, h)
		b.remove(h)
	}
}

func damagedAfterTheEnd(b *bench) {
	for kind, change := range damages() {
		d := b.define(printsDirectory, "echo two; echo three", "echo four")
		h := b.start(d)
		b.damage(h, b.follow(h), change)
		h, err := b.reopen().Attach(b.limit(), d.Key)
		require.NoError(b, err)
		b.requireDamaged(kind, h)
		b.remove(h)
	}
}

// requireDamaged reads until the environment has ended: with the damage or, if the
// driver has another copy of the journal, with all frames.
func (b *bench) requireDamaged(kind string, h executor.Handle) {
	b.Helper()
	var s recording
	testenv.Await(b, func() (bool, string) {
		s = read(b.limit(), h, 1, nil)
		return s.err == nil || run.CodeOf(s.err) == run.CodeNotFound, kind + ": " + errorText(s.err)
	})
	if s.err == nil {
		b.requireWhole(s, firstFrame)
		return
	}
	require.ErrorIs(b, s.err, executor.ErrDamaged, kind)
	require.Contains(b, s.err.Error(), "journal is damaged", kind)
	require.NotEmpty(b, s.frames, "%s: frames before the damage", kind)
	for i, f := range s.frames {
		require.EqualValues(b, firstFrame+i, f.N, kind)
	}
}

func errorText(err error) string {
	if err == nil {
		return "no error"
	}
	return err.Error()
}

// damage changes the journal of an environment whose first step has printed its
// directory.
func (b *bench) damage(h executor.Handle, s recording, change func([]byte) []byte) {
	b.Helper()
	dir, _, _ := strings.Cut(s.output(run.StreamStdout), "\n")
	content, err := h.CopyFrom(b.limit(), path.Join(dir, journal.File))
	require.NoError(b, err)
	from := tar.NewReader(content)
	_, err = from.Next()
	require.NoError(b, err)
	text, err := io.ReadAll(from)
	require.NoError(b, err)
	require.NoError(b, content.Close())
	name := tar.Header{Typeflag: tar.TypeReg, Name: journal.File, Mode: 0o600}
	require.NoError(b, h.CopyTo(b.limit(), dir, bytes.NewReader(archive(b, []tar.Header{name}, string(change(text))))))
}
