// Package mask hides secrets in streams of text.
package mask

import (
	"bytes"
	"slices"
	"strings"
)

// Replacement stands where a secret was.
const Replacement = "***"

// Set is a set of texts to hide. The zero value, and nil, hide nothing. It
// never changes, so it is safe for concurrent use.
type Set struct {
	texts [256][][]byte // by first byte, longest first
	empty bool
}

// NewSet returns the set of the texts, and of what they are in base64 (alone,
// in lines, or within something longer), in URLs and in JSON. Empty ones are
// left out.
func NewSet(texts []string) *Set {
	s := &Set{empty: true}
	sorted := slices.Clone(texts)
	for _, text := range texts {
		sorted = append(sorted, forms(text)...)
	}
	slices.Sort(sorted)
	for _, text := range slices.Compact(sorted) {
		if text == "" {
			continue
		}
		s.empty = false
		s.texts[text[0]] = append(s.texts[text[0]], []byte(text))
	}
	for _, list := range s.texts {
		slices.SortStableFunc(list, func(a, b []byte) int { return len(b) - len(a) })
	}
	return s
}

// Empty reports whether the set hides nothing.
func (s *Set) Empty() bool { return s == nil || s.empty }

// String returns text with every text of the set replaced.
func (s *Set) String(text string) string {
	if s.Empty() || text == "" {
		return text
	}
	var out strings.Builder
	m := s.Stream(func(p []byte) { out.Write(p) })
	m.Write([]byte(text))
	m.Close()
	return out.String()
}

// Stream returns a masker of one stream that hands what may be shown to emit.
// The slices handed to emit are valid during the call only.
func (s *Set) Stream(emit func([]byte)) *Stream { return &Stream{set: s, emit: emit} }

// Stream masks one stream, also where a secret comes in pieces: bytes that may
// be the beginning of a secret are held back until more is known of them. It
// is not safe for concurrent use.
type Stream struct {
	set  *Set
	emit func([]byte)
	held []byte // what came and was not handed out; shorter than the longest text
}

// Write takes the next piece of the stream.
func (m *Stream) Write(p []byte) {
	if m.set.Empty() {
		m.hand(p)
		return
	}
	if len(m.held) > 0 {
		m.held = append(m.held, p...)
		p = m.held
	}
	rest := m.scan(p, false)
	m.held = append(m.held[:0], rest...)
}

// Close hands out what was held back.
func (m *Stream) Close() {
	m.scan(m.held, true)
	m.held = nil
}

// scan hands out p masked, up to where a text may begin that p does not tell
// whole, and returns the rest.
func (m *Stream) scan(p []byte, final bool) (rest []byte) {
	shown := 0 // p up to here was handed out
	for i := 0; i < len(p); {
		candidates := m.set.texts[p[i]]
		if len(candidates) == 0 {
			i++
			continue
		}
		found, partial := match(candidates, p[i:])
		switch {
		case partial && !final:
			m.hand(p[shown:i])
			return p[i:]
		case found == 0:
			i++
		default:
			m.hand(p[shown:i])
			m.hand([]byte(Replacement))
			i += found
			shown = i
		}
	}
	m.hand(p[shown:])
	return nil
}

func (m *Stream) hand(p []byte) {
	if len(p) > 0 {
		m.emit(p)
	}
}

// match returns the length of the longest text that p begins with, and whether
// p is the beginning of a longer one.
func match(texts [][]byte, p []byte) (found int, partial bool) {
	for _, text := range texts {
		switch {
		case len(text) > len(p):
			partial = partial || bytes.HasPrefix(text, p)
		case bytes.HasPrefix(p, text):
			return len(text), partial
		}
	}
	return 0, partial
}
