package logscan

import "bytes"

const (
	escape = 0x1b
	bell   = 0x07
)

// withoutEscapes removes the escape sequences of terminals from a line, in place: control
// sequences such as colours, strings such as links, and those of two bytes.
func withoutEscapes(line []byte) []byte {
	out := line[:0]
	for len(line) > 0 {
		i := bytes.IndexByte(line, escape)
		if i < 0 {
			return append(out, line...)
		}
		out = append(out, line[:i]...)
		line = line[i+sequence(line[i:]):]
	}
	return out
}

// sequence returns the length of the escape sequence at the start of a text.
func sequence(text []byte) int {
	if len(text) < 2 {
		return len(text)
	}
	switch text[1] {
	case '[': // parameters, and a final byte
		for i := 2; i < len(text); i++ {
			if text[i] < ' ' || text[i] >= '@' {
				return i + 1
			}
		}
		return len(text)
	case ']', 'P', '_', '^': // a string, up to a bell or ESC \
		for i := 2; i < len(text); i++ {
			if text[i] == bell {
				return i + 1
			}
			if text[i] == escape {
				return min(i+2, len(text))
			}
		}
		return len(text)
	}
	return 2
}
