package logscan_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/drover-run/drover/gateway/logscan"
	"github.com/drover-run/drover/run"
)

// log is a log in chunks.
type log struct {
	begin  int64
	chunks []string
}

func (l *log) Close() error  { return nil }
func (l *log) Offset() int64 { return l.begin }

func (l *log) Next(context.Context) (run.LogChunk, error) {
	if len(l.chunks) == 0 {
		return run.LogChunk{}, io.EOF
	}
	c := run.LogChunk{Offset: l.begin, Data: []byte(l.chunks[0])}
	l.begin += int64(len(l.chunks[0]))
	l.chunks = l.chunks[1:]
	return c, nil
}

// chunked divides a text at random places.
func chunked(t *rapid.T, text string) *log {
	l := &log{}
	for text != "" {
		n := rapid.IntRange(1, len(text)).Draw(t, "chunk")
		l.chunks, text = append(l.chunks, text[:n]), text[n:]
	}
	return l
}

func lines(text string) []string {
	all := strings.SplitAfter(text, "\n")
	if all[len(all)-1] == "" {
		all = all[:len(all)-1]
	}
	return all
}

func TestLines_properties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.SampledFrom([]rune("ab\n")), 0, 200, -1).Draw(t, "text")
		most := rapid.IntRange(1, 50).Draw(t, "most")
		x, every, err := logscan.Lines(context.Background(), chunked(t, text), rapid.Int64Range(1, 5).Draw(t, "every"), most)
		require.NoError(t, err)
		want := lines(text)
		require.EqualValues(t, len(want), x.Lines)
		require.EqualValues(t, len(text), x.Bytes)
		require.LessOrEqual(t, len(x.Offsets), most)
		offset, i := int64(0), 0
		for n, line := range want {
			if int64(n)%every == 0 {
				require.Equal(t, offset, x.Offsets[i])
				i++
			}
			offset += int64(len(line))
		}
		require.Len(t, x.Offsets, i)
	})
}

func TestSearch_properties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.SampledFrom([]rune("abAB\n")), 0, 200, -1).Draw(t, "text")
		needle := rapid.StringOfN(rapid.SampledFrom([]rune("ab")), 1, 3, -1).Draw(t, "needle")
		most := rapid.IntRange(1, 10).Draw(t, "most")
		found, more, err := logscan.Search(context.Background(), chunked(t, text), needle, most)
		require.NoError(t, err)
		var want []logscan.Match
		offset := int64(0)
		for n, line := range lines(text) {
			if strings.Contains(strings.ToLower(line), needle) {
				want = append(want, logscan.Match{Line: int64(n), Offset: offset, Text: strings.TrimSuffix(line, "\n")})
			}
			offset += int64(len(line))
		}
		require.Equal(t, len(want) > most, more, fmt.Sprint(want))
		require.ElementsMatch(t, want[:min(most, len(want))], found)
	})
}

func TestSearch_of_long_and_broken_lines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100<<10)
	found, more, err := logscan.Search(t.Context(), &log{chunks: []string{long, "needle\n", "a\xffNEEDLE\r\n"}}, "needle", 10)
	require.NoError(t, err)
	require.False(t, more)
	require.Len(t, found, 1, "a line is searched up to its bound")
	require.Equal(t, "a\ufffdNEEDLE", found[0].Text)
	require.EqualValues(t, 1, found[0].Line)
}
