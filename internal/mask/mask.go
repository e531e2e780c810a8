// Package mask hides secrets in streams of text.
package mask

import (
	"bytes"
	"slices"
	"strings"
)

// Replacement replaces every secret.
const Replacement = "***"

// Set is a set of texts to mask. The zero value, and nil, mask nothing. A Set is
// immutable and so safe for concurrent use.
type Set struct {
	texts [256][][]byte // by first byte, longest first
	empty bool
}

// NewSet returns the set of the texts and of their encodings in base64 (alone, in
// lines, or as a part of a longer text), in URLs and in JSON. It ignores empty
// texts.
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

// Empty reports whether the set masks nothing.
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

// Stream returns a masker of one stream that passes the masked bytes to emit. The
// slices are valid only during the call of emit.
func (s *Set) Stream(emit func([]byte)) *Stream { return &Stream{set: s, emit: emit} }

// Stream masks one stream, also if a secret is split over several writes: it
// holds back bytes that may be the beginning of a secret until the following bytes
// arrive. It is not safe for concurrent use.
type Stream struct {
	set  *Set
	emit func([]byte)
	held []byte // written and not yet emitted; shorter than the longest text
}

// Write masks the next bytes of the stream.
func (m *Stream) Write(p []byte) {
	if m.set.Empty() {
		m.forward(p)
		return
	}
	if len(m.held) > 0 {
		m.held = append(m.held, p...)
		p = m.held
	}
	rest := m.scan(p, false)
	m.held = append(m.held[:0], rest...)
}

// Close emits the bytes that were held back.
func (m *Stream) Close() {
	m.scan(m.held, true)
	m.held = nil
}

// scan emits p masked, up to a position at which a text may begin that continues
// after p, and returns the rest. If final is true there is no rest.
func (m *Stream) scan(p []byte, final bool) (rest []byte) {
	shown := 0 // p up to here was emitted
	for i := 0; i < len(p); {
		candidates := m.set.texts[p[i]]
		if len(candidates) == 0 {
			i++
			continue
		}
		found, partial := match(candidates, p[i:])
		switch {
		case partial && !final:
			m.forward(p[shown:i])
			return p[i:]
		case found == 0:
			i++
		default:
			m.forward(p[shown:i])
			m.forward([]byte(Replacement))
			i += found
			shown = i
		}
	}
	m.forward(p[shown:])
	return nil
}

func (m *Stream) forward(p []byte) {
	if len(p) > 0 {
		m.emit(p)
	}
}

// match returns the length of the longest text that is a prefix of p, and whether
// p is a prefix of a longer text.
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
