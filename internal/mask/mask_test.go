package mask_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/drover-run/drover/internal/mask"
)

func TestSet_String(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		texts    []string
		in, want string
	}{
		"nothing to hide":        {nil, "hunter2", "hunter2"},
		"one":                    {[]string{"hunter2"}, "a hunter2 b", "a *** b"},
		"twice in a row":         {[]string{"ab"}, "abab", "******"},
		"the longest wins":       {[]string{"abc", "abcdef"}, "abcdef abcde", "*** ***de"},
		"a beginning at the end": {[]string{"hunter2"}, "it is hunt", "it is hunt"},
		"overlapping begins":     {[]string{"aab"}, "aaab", "a***"},
		"over several lines":     {[]string{"one\ntwo", "one", "two"}, "one\ntwo one\n", "*** ***\n"},
		"bytes":                  {[]string{"\xff\x00"}, "a\xff\x00b", "a***b"},
		"empty texts":            {[]string{""}, "ab", "ab"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, mask.NewSet(tt.texts).String(tt.in))
		})
	}
}

func TestStream_holds_back_only_what_may_be_a_secret(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	m := mask.NewSet([]string{"hunter2"}).Stream(func(p []byte) { out.Write(p) })
	m.Write([]byte("line\nhun"))
	require.Equal(t, "line\n", out.String())
	m.Write([]byte("g"))
	require.Equal(t, "line\nhung", out.String())
	m.Write([]byte("hunter"))
	m.Write([]byte("2!"))
	require.Equal(t, "line\nhung***!", out.String())
	m.Write([]byte("h"))
	m.Close()
	require.Equal(t, "line\nhung***!h", out.String())
}

// The masked stream does not depend on how it is split into writes.
func TestStream_does_not_depend_on_the_pieces(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		letters := rapid.SampledFrom([]rune("aab\n"))
		texts := rapid.SliceOfN(rapid.StringOfN(letters, 1, 5, -1), 0, 4).Draw(t, "texts")
		set := mask.NewSet(texts)
		whole := rapid.StringOfN(letters, 0, 60, -1).Draw(t, "whole")
		var out bytes.Buffer
		m := set.Stream(func(p []byte) { out.Write(p) })
		for rest := whole; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			m.Write([]byte(rest[:n]))
			rest = rest[n:]
		}
		m.Close()
		if got, want := out.String(), set.String(whole); got != want {
			t.Fatalf("in pieces %q, whole %q", got, want)
		}
		for _, text := range texts {
			for between := range strings.SplitSeq(out.String(), mask.Replacement) {
				if strings.Contains(between, text) {
					t.Fatalf("%q is left in %q", text, out.String())
				}
			}
		}
	})
}
