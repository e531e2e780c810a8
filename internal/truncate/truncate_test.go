package truncate_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/truncate"
)

func TestString(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		s     string
		limit int
		mark  string
		want  string
	}{
		"empty":                           {"", 0, "", ""},
		"short":                           {"abc", 3, "...", "abc"},
		"long":                            {"abcdef", 5, "...", "ab..."},
		"long without a mark":             {"abcdef", 5, "", "abcde"},
		"at a boundary":                   {"aéb", 3, "", "aé"},
		"within a character of two bytes": {"aéb", 2, "", "a"},
		"within one of four bytes":        {"😀😀", 7, "", "😀"},
		"no room for a character":         {"😀😀", 3, "", ""},
		"within a character, with a mark": {"éééé", 7, "…", "éé…"},
		"no room beside the mark":         {"abcdef", 3, "…", "…"},
		"no room for the mark":            {"abcdef", 2, "…", "ab"},
		"no room":                         {"abc", 0, "…", ""},
		"negative":                        {"abc", -1, "", ""},
		"only continuation bytes":         {strings.Repeat("\x80", 9), 8, "", strings.Repeat("\x80", 8)},
		"invalid bytes stay":              {"a\xff\xffbc", 4, "", "a\xff\xffb"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, truncate.String(tt.s, tt.limit, tt.mark))
		})
	}
}

func TestTail(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		s     string
		limit int
		want  string
	}{
		"empty":                   {"", 0, ""},
		"short":                   {"abc", 3, "abc"},
		"long":                    {"abcdef", 2, "ef"},
		"at a boundary":           {"aéb", 3, "éb"},
		"within a character":      {"aéb", 2, "b"},
		"no room for a character": {"a😀", 3, ""},
		"no room":                 {"abc", 0, ""},
		"negative":                {"abc", -1, ""},
		"only continuation bytes": {strings.Repeat("\x80", 9), 8, strings.Repeat("\x80", 8)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, truncate.Tail(tt.s, tt.limit))
		})
	}
}

func FuzzString(f *testing.F) {
	f.Add("abcdef", 3, "...")
	f.Add("éééé", 7, "…")
	f.Add("", -1, "…")
	f.Add("😀😀", 3, "")
	f.Add("a\xffb\x80\x80\x80\x80\x80", 4, "")
	f.Fuzz(func(t *testing.T, s string, limit int, mark string) {
		got := truncate.String(s, limit, mark)
		limit = max(limit, 0)
		if len(s) <= limit {
			require.Equal(t, s, got)
			return
		}
		require.LessOrEqual(t, len(got), limit)
		if len(mark) > limit {
			mark = ""
		}
		kept, marked := strings.CutSuffix(got, mark)
		require.True(t, marked)
		require.True(t, strings.HasPrefix(s, kept))
		if !utf8.ValidString(s) {
			return
		}
		require.True(t, utf8.ValidString(kept), "cut within a character: %q", kept)
		_, size := utf8.DecodeRuneInString(s[len(kept):])
		require.Greater(t, len(kept)+size+len(mark), limit, "the next character has room")
	})
}

func FuzzTail(f *testing.F) {
	f.Add("abcdef", 3)
	f.Add("éééé", 3)
	f.Add("a\xffb\x80\x80\x80\x80\x80", 4)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		got := truncate.Tail(s, limit)
		limit = max(limit, 0)
		require.True(t, strings.HasSuffix(s, got))
		if len(s) <= limit {
			require.Equal(t, s, got)
			return
		}
		require.LessOrEqual(t, len(got), limit)
		if !utf8.ValidString(s) {
			return
		}
		require.True(t, utf8.ValidString(got), "begins within a character: %q", got)
		_, size := utf8.DecodeLastRuneInString(s[:len(s)-len(got)])
		require.Greater(t, len(got)+size, limit, "the previous character has room")
	})
}
