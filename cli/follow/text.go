package follow

import (
	"strings"
	"unicode"
	"unicode/utf8"

	eastasian "golang.org/x/text/width"
)

// Visible returns what a terminal would show of a line: it removes control
// sequences, which could change the terminal's state, applies carriage returns,
// and replaces tabs by spaces.
func Visible(s string) string {
	s = strings.TrimRight(s, "\r\n")
	if i := strings.LastIndexByte(s, '\r'); i >= 0 {
		s = s[i+1:]
	}
	if !strings.ContainsFunc(s, special) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == 0x1b || r == 0x9b:
			size = sequence(s)
		case r == '\t':
			b.WriteString("    ")
		case r == '\n':
			b.WriteByte(' ')
		case r == utf8.RuneError:
			b.WriteRune(unicode.ReplacementChar)
		case !special(r):
			b.WriteRune(r)
		}
		s = s[size:]
	}
	return b.String()
}

// special reports whether a terminal may interpret r instead of showing it. Marks
// that change the direction of text count: they can disguise it.
func special(r rune) bool {
	return r == utf8.RuneError || unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
}

// sequence returns the length of the control sequence that s begins with.
func sequence(s string) int {
	_, i := utf8.DecodeRuneInString(s)
	if s[0] == 0x1b {
		if i >= len(s) {
			return i
		}
		switch s[i] {
		case '[': // up to a byte from @ to ~
			i++
		case ']', 'P', 'X', '^', '_': // up to a bell or ESC \
			for i++; i < len(s); i++ {
				if s[i] == 0x07 {
					return i + 1
				}
				if s[i] == 0x1b {
					return min(i+2, len(s))
				}
			}
			return i
		default:
			return i + 1
		}
	}
	for i < len(s) {
		c := s[i]
		if c < 0x20 || c > 0x7e {
			return i // incomplete
		}
		i++
		if c >= 0x40 {
			return i
		}
	}
	return i
}

// width returns the columns of a line in a terminal; control sequences of colours
// have none.
func width(s string) int {
	n := 0
	for i := 0; i < len(s); {
		if s[i] == 0x1b {
			i += sequence(s[i:])
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		n += runeWidth(r)
		i += size
	}
	return n
}

func runeWidth(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	}
	switch eastasian.LookupRune(r).Kind() { //nolint:exhaustive // all others are narrow
	case eastasian.EastAsianWide, eastasian.EastAsianFullwidth:
		return 2
	}
	return 1
}

// fit truncates a line without control sequences to columns, and appends mark if
// it did.
func fit(s string, columns int, mark string) string {
	if columns <= 0 {
		return ""
	}
	if width(s) <= columns {
		return s
	}
	room := columns - width(mark)
	if room < 0 {
		return ""
	}
	n := 0
	for i, r := range s {
		if n += runeWidth(r); n > room {
			return s[:i] + mark
		}
	}
	return s
}

// pad fills a line up with spaces to columns.
func pad(s string, columns int) string {
	return s + strings.Repeat(" ", max(0, columns-width(s)))
}
