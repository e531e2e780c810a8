package follow

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestVisible(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"plain":                               "plain",
		"":                                    "",
		"\x1b[31mred\x1b[0m":                  "red",
		"a\x1b]0;title\x07b":                  "ab",
		"a\x1b]8;;http://x\x1b\\link\x1b]8;;": "alink",
		"a\x1bPq#0\x1b\\b":                    "ab",
		"\x1b[2J\x1b[1;1Hgone":                "gone",
		"\x1bcreset":                          "reset",
		"tab\there":                           "tab    here",
		"10%\r50%\r100%":                      "100%",
		"100%\r":                              "100%",
		"bell\x07 null\x00":                   "bell null",
		"\u009b31mred":                        "red",
		"bad \xff byte":                       "bad \uFFFD byte",
		"evil \u202etxt.exe":                  "evil txt.exe",
		"broken off \x1b[3":                   "broken off ",
		"broken off \x1b":                     "broken off ",
		"日本語 \x1b[1mé":                        "日本語 é",
	}
	for in, want := range tests {
		require.Equal(t, want, Visible(in), "%q", in)
	}
}

func FuzzVisible(f *testing.F) {
	f.Add("a\x1b[31mb\x1b]0;x\x07")
	f.Add("\x1bP\x1b")
	f.Fuzz(func(t *testing.T, s string) {
		got := Visible(s)
		if strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0x9b }) || !utf8.ValidString(got) {
			t.Errorf("%q became %q", s, got)
		}
		if w := width(fit(got, 10, "…")); w > 10 {
			t.Errorf("%q is %d wide", got, w)
		}
	})
}

func TestWidth_and_fit(t *testing.T) {
	t.Parallel()
	require.Equal(t, 3, width("abc"))
	require.Equal(t, 6, width("日本語"))
	require.Equal(t, 1, width("e\u0301"))
	require.Equal(t, 3, width("\x1b[31mred\x1b[0m"))
	require.Equal(t, "abc", fit("abc", 3, "…"))
	require.Equal(t, "ab…", fit("abcd", 3, "…"))
	require.Equal(t, "日…", fit("日本語", 4, "…"))
	require.Empty(t, fit("abc", 0, "…"))
	require.Equal(t, "a   ", pad("a", 4))
}
