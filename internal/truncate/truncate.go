// Package truncate shortens strings to a number of bytes, at the boundaries of
// characters.
package truncate

import "unicode/utf8"

// String returns s if it has at most limit bytes. Otherwise it returns the
// longest beginning of s that leaves room for mark, and mark: together at most
// limit bytes. It cuts no UTF-8 character, and leaves bytes that are no valid
// UTF-8 as they are. It omits a mark that is longer than limit.
func String(s string, limit int, mark string) string {
	limit = max(limit, 0)
	if len(s) <= limit {
		return s
	}
	if len(mark) > limit {
		mark = ""
	}
	room := limit - len(mark)
	end := room
	for end > 0 && room-end < utf8.UTFMax-1 && !utf8.RuneStart(s[end]) {
		end--
	}
	if !utf8.RuneStart(s[end]) {
		end = room // no character is that long: these bytes are no valid UTF-8
	}
	return s[:end] + mark
}

// Tail returns the longest end of s that has at most limit bytes and does not
// begin within a UTF-8 character.
func Tail(s string, limit int) string {
	limit = max(limit, 0)
	if len(s) <= limit {
		return s
	}
	first := len(s) - limit
	begin := first
	for begin < len(s) && begin-first < utf8.UTFMax-1 && !utf8.RuneStart(s[begin]) {
		begin++
	}
	if begin < len(s) && !utf8.RuneStart(s[begin]) {
		begin = first // no character is that long: these bytes are no valid UTF-8
	}
	return s[begin:]
}
