package logscan_test

import (
	"context"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/drover-run/drover/gateway/logscan"
	"github.com/drover-run/drover/run"
)

var all = logscan.Budget{Bytes: math.MaxInt64}

// log is a log in chunks, each of a step.
type log struct {
	chunks []string
	steps  []int
}

func (l *log) add(step int, text string) {
	l.chunks, l.steps = append(l.chunks, text), append(l.steps, step)
}

// from returns a reader of the log from an offset.
func (l *log) from(offset int64) *reader {
	r := &reader{log: *l, offset: offset}
	for skip := offset; skip > 0; {
		n := min(skip, int64(len(r.chunks[0])))
		r.chunks = append([]string{r.chunks[0][n:]}, r.chunks[1:]...)
		if skip -= n; r.chunks[0] == "" {
			r.chunks, r.steps = r.chunks[1:], r.steps[1:]
		}
	}
	return r
}

type reader struct {
	log
	offset int64
}

func (r *reader) Close() error  { return nil }
func (r *reader) Offset() int64 { return r.offset }

func (r *reader) Services() []string { return nil }

func (r *reader) Next(context.Context) (run.LogChunk, error) {
	if len(r.chunks) == 0 {
		return run.LogChunk{}, io.EOF
	}
	c := run.LogChunk{Offset: r.offset, Data: []byte(r.chunks[0]), Step: r.steps[0], Time: time.Unix(r.offset, 0)}
	r.offset += int64(len(r.chunks[0]))
	r.chunks, r.steps = r.chunks[1:], r.steps[1:]
	return c, nil
}

// chunked divides a text at random places.
func chunked(t *rapid.T, text string) *log {
	l := &log{}
	for text != "" {
		n := rapid.IntRange(1, len(text)).Draw(t, "chunk")
		l.add(rapid.IntRange(0, 1).Draw(t, "step"), text[:n])
		text = text[n:]
	}
	return l
}

// stepAt returns the step of the byte at an offset.
func (l *log) stepAt(offset int64) int {
	for i, chunk := range l.chunks {
		if offset < int64(len(chunk)) {
			return l.steps[i]
		}
		offset -= int64(len(chunk))
	}
	return 0
}

func lines(text string) []string {
	all := strings.SplitAfter(text, "\n")
	if all[len(all)-1] == "" {
		all = all[:len(all)-1]
	}
	return all
}

// again parses the text of a position.
func again(t require.TestingT, p *logscan.Position) logscan.Position {
	parsed, err := logscan.ParsePosition(p.String())
	require.NoError(t, err)
	require.Equal(t, *p, parsed)
	return parsed
}

// The pages of an index are those of one that has no bound.
func TestLines_properties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.SampledFrom([]rune("ab\n")), 0, 200, -1).Draw(t, "text")
		l, every := chunked(t, text), rapid.Int64Range(1, 5).Draw(t, "every")
		budget := logscan.Budget{Bytes: rapid.Int64Range(1, 300).Draw(t, "budget")}
		var offsets []int64
		var steps []int
		var x logscan.Index
		for at := (logscan.Position{}); ; {
			var err error
			x, err = logscan.Lines(t.Context(), l.from(at.Offset), at, every, budget)
			require.NoError(t, err)
			offsets = append(offsets, x.Offsets...)
			for _, s := range x.Sections {
				for int64(len(steps)) < s.Line {
					steps = append(steps, steps[len(steps)-1])
				}
				steps = append(steps, s.Step)
			}
			if x.Next == nil {
				break
			}
			require.Equal(t, x.Bytes, x.Next.Offset)
			require.Equal(t, x.Lines, x.Next.Line)
			at = again(t, x.Next)
		}
		want := lines(text)
		require.EqualValues(t, len(want), x.Lines)
		require.EqualValues(t, len(text), x.Bytes)
		var wantOffsets []int64
		offset := int64(0)
		for n, line := range want {
			if int64(n)%every == 0 {
				wantOffsets = append(wantOffsets, offset)
			}
			if n < len(steps) {
				require.Equal(t, l.from(offset).steps[0], steps[n], "the step of line %d", n)
			}
			offset += int64(len(line))
		}
		require.Equal(t, wantOffsets, offsets)
	})
}

func TestSearch_properties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.SampledFrom([]rune("abAB\n")), 0, 200, -1).Draw(t, "text")
		needle := rapid.StringOfN(rapid.SampledFrom([]rune("abB")), 1, 3, -1).Draw(t, "needle")
		most := rapid.IntRange(1, 10).Draw(t, "most")
		l, budget := chunked(t, text), logscan.Budget{Bytes: rapid.Int64Range(1, 300).Draw(t, "budget")}
		var found []logscan.Match
		for at := (logscan.Position{}); ; {
			page, next, err := logscan.Search(t.Context(), l.from(at.Offset), at, needle, most, budget)
			require.NoError(t, err)
			require.LessOrEqual(t, len(page), most)
			found = append(found, page...)
			if next == nil {
				break
			}
			require.Greater(t, next.Offset, at.Offset)
			at = again(t, next)
		}
		var want []logscan.Match
		offset := int64(0)
		for n, line := range lines(text) {
			if strings.Contains(strings.ToLower(line), strings.ToLower(needle)) {
				want = append(want, logscan.Match{Step: l.stepAt(offset), Line: int64(n), Offset: offset, Text: strings.TrimSuffix(line, "\n")})
			}
			offset += int64(len(line))
		}
		require.Equal(t, want, found)
	})
}

func TestSearch_of_long_and_broken_lines(t *testing.T) {
	t.Parallel()
	l := &log{}
	l.add(0, strings.Repeat("x", 100<<10))
	l.add(0, "needle\n")
	l.add(0, "a\xffNEEDLE"+strings.Repeat("é", 1000)+"\r\n")
	found, next, err := logscan.Search(t.Context(), l.from(0), logscan.Position{}, "needle", 10, all)
	require.NoError(t, err)
	require.Nil(t, next)
	require.Len(t, found, 1, "a line is searched up to its bound")
	require.True(t, strings.HasPrefix(found[0].Text, "a\ufffdNEEDLEé"))
	require.LessOrEqual(t, len(found[0].Text), 1000)
	require.EqualValues(t, 1, found[0].Line)
}

func TestSearch_ignores_escape_sequences(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"\x1b[31mer\x1b[1;4mror\x1b[0m: no\n":        "error: no",
		"\x1b]8;;http://error: x\x1b\\error: no\x07": "error: no\x07",
		"\x1b]0;title\x07error: no\x1b":              "error: no",
		"\x1bMerror: no\x1b[":                        "error: no",
		"\x1b[31\nerror: no":                         "error: no",
	} {
		l := &log{}
		l.add(0, text)
		found, _, err := logscan.Search(t.Context(), l.from(0), logscan.Position{}, "error: no", 10, all)
		require.NoError(t, err)
		require.Len(t, found, 1, "%q", text)
		require.Equal(t, want, found[0].Text)
	}
}

// A line without an end is read in several calls, each bounded.
func TestScan_of_endless_line(t *testing.T) {
	t.Parallel()
	l := &log{}
	l.add(0, "needle")
	for range 100 {
		l.add(0, strings.Repeat("x", 10<<10))
	}
	l.add(1, "\nneedle\n")
	budget := logscan.Budget{Bytes: 20 << 10}
	var found []int64
	calls := 0
	for at := (logscan.Position{}); ; calls++ {
		page, next, err := logscan.Search(t.Context(), l.from(at.Offset), at, "needle", 10, budget)
		require.NoError(t, err)
		for _, m := range page {
			found = append(found, m.Line)
		}
		if next == nil {
			break
		}
		require.LessOrEqual(t, next.Offset-at.Offset, int64(80<<10))
		at = again(t, next)
	}
	require.Equal(t, []int64{0, 1}, found)
	require.Greater(t, calls, 10)

	x, err := logscan.Lines(t.Context(), l.from(0), logscan.Position{}, 1, budget)
	require.NoError(t, err)
	require.EqualValues(t, 1, x.Lines)
	require.True(t, x.Next.Inside)
	x, err = logscan.Lines(t.Context(), l.from(x.Next.Offset), *x.Next, 1, all)
	require.NoError(t, err)
	require.EqualValues(t, 2, x.Lines)
	require.Equal(t, []logscan.Section{{Step: 1, Line: 1, Offset: 6 + 100*10<<10 + 1, Time: x.Sections[0].Time}}, x.Sections)
}

func TestScan_ends_in_time(t *testing.T) {
	t.Parallel()
	l := &log{}
	l.add(0, "one\n")
	l.add(0, "two\n")
	x, err := logscan.Lines(t.Context(), l.from(0), logscan.Position{}, 1, logscan.Budget{Bytes: math.MaxInt64, Until: time.Now()})
	require.NoError(t, err)
	require.Equal(t, &logscan.Position{Offset: 4, Line: 1}, x.Next, "a chunk is read at least")
}

func TestParsePosition_rejects(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"line", "line-1", "line-1-2-3", "line--1-2", "line-1--2", "other-1-2", "line-1-2 ", "line-01-2", "line-99999999999999999999-1", "rest"} {
		_, err := logscan.ParsePosition(text)
		require.Error(t, err, text)
	}
}
