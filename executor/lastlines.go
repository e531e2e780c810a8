package executor

import (
	"bytes"
	"strings"
)

// LastBytes is how much of the last lines of a log is kept.
const LastBytes = 64 << 10

// recordBytes is the size at which Docker and containerd divide a line into several, of
// which a request for the last lines counts each.
const recordBytes = 16 << 10

// LastLines keeps the last lines of a container's log, which is written to it. Ask the
// runtime for Limit+1: the log may begin within a line. Lines that may be cut are
// dropped, as a mask does not recognize a part of a secret.
type LastLines struct {
	Limit int // of lines
	kept  []byte
	cut   bool
}

// Write implements io.Writer.
func (l *LastLines) Write(p []byte) (int, error) {
	if l.kept = append(l.kept, p...); len(l.kept) > 2*LastBytes {
		l.trim()
	}
	return len(p), nil
}

// trim keeps the last bytes and the one before them, which may end a line.
func (l *LastLines) trim() {
	if over := len(l.kept) - LastBytes; over > 0 {
		l.kept, l.cut = append(l.kept[:0], l.kept[over-1:]...), true
	}
}

// Lines returns the last lines without the blank ones at the ends, nil if there are none.
func (l *LastLines) Lines() []string {
	l.trim()
	text := l.kept
	if l.cut {
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	records := 0
	for _, line := range lines {
		records += 1 + len(line)/recordBytes
	}
	if records > l.Limit {
		lines = lines[1:]
	}
	trimmed := strings.TrimSpace(strings.Join(lines[max(0, len(lines)-l.Limit):], "\n"))
	if trimmed == "" {
		return nil
	}
	return strings.Split(trimmed, "\n")
}
