// Package logscan finds lines in logs: where they begin, and which have a text. A client
// that shows a part of a long log needs no other part of it.
package logscan

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/drover-run/drover/internal/truncate"
	"github.com/drover-run/drover/run"
)

const (
	// maxLine bounds how much of a line is searched, in bytes.
	maxLine = 64 << 10
	// maxText bounds the text of a match, in bytes.
	maxText = 1000
	// maxOffsets and maxSections bound a page of an index.
	maxOffsets, maxSections = 100_000, 10_000
)

// Budget bounds the work of one call. A call reads a chunk at least.
type Budget struct {
	Bytes int64
	Until time.Time // zero: no limit
}

func (b Budget) spent(read int64) bool {
	return read >= b.Bytes || !b.Until.IsZero() && time.Now().After(b.Until)
}

// Position is a place in a log from which a scan can continue.
type Position struct {
	Offset int64 // in bytes
	Line   int64 // the line of the byte at Offset, from 0
	Inside bool  // the line begins before Offset
}

// String returns the text that ParsePosition reads.
func (p Position) String() string {
	kind := "line"
	if p.Inside {
		kind = "rest"
	}
	return fmt.Sprintf("%s-%d-%d", kind, p.Line, p.Offset)
}

// ParsePosition parses the text of a position. The text "" is the start of a log.
func ParsePosition(text string) (Position, error) {
	var p Position
	if text == "" {
		return p, nil
	}
	kind, rest, _ := strings.Cut(text, "-")
	p.Inside = kind == "rest"
	if _, err := fmt.Sscanf(rest, "%d-%d", &p.Line, &p.Offset); err != nil || p.String() != text || p.Line < 0 || p.Offset < 0 {
		return Position{}, fmt.Errorf("there is no position %q in a log", text)
	}
	return p, nil
}

// Index says where the lines of a part of a log begin.
type Index struct {
	Lines int64 // up to the end of the part; text after the last line break is a line too
	Bytes int64 // where the part ends
	// Offsets has the offsets of the lines whose numbers are multiples of a number.
	Offsets  []int64
	Sections []Section
	Next     *Position // nil: the part ends with the log
}

// Section begins with the first line of another step.
type Section struct {
	Step   int
	Line   int64
	Offset int64
	Time   time.Time
}

// Lines indexes a log from a position: each line whose number, from 0, is a multiple of
// every. The reader must begin at the position.
func Lines(ctx context.Context, reader run.LogReader, from Position, every int64, budget Budget) (Index, error) {
	x := Index{Lines: from.Line, Bytes: from.Offset}
	if from.Inside {
		x.Lines++
	}
	next, err := scan(ctx, reader, from, budget, func(p piece) bool {
		if !p.Inside {
			if len(x.Offsets) == maxOffsets || len(x.Sections) == maxSections {
				return false
			}
			if p.Line%every == 0 {
				x.Offsets = append(x.Offsets, p.Offset)
			}
			if n := len(x.Sections); n == 0 || x.Sections[n-1].Step != p.step {
				x.Sections = append(x.Sections, Section{Step: p.step, Line: p.Line, Offset: p.Offset, Time: p.time})
			}
			x.Lines++
		}
		x.Bytes = p.end
		return true
	})
	x.Next = next
	return x, err
}

// Match is a line that has the text.
type Match struct {
	Step   int
	Line   int64 // from 0
	Offset int64 // of its first byte
	Text   string
}

// Search returns the first lines from a position that have a text, at most so many, and
// the position from which to search further; nil if the log ends before. It ignores the
// case of ASCII letters, and the escape sequences of terminals. The reader must begin at
// the position.
func Search(ctx context.Context, reader run.LogReader, from Position, text string, most int, budget Budget) ([]Match, *Position, error) {
	s := search{needle: lower(nil, []byte(text)), skip: from.Inside}
	next, err := scan(ctx, reader, from, budget, func(p piece) bool {
		if !p.Inside {
			s.check()
			if len(s.matches) == most {
				return false
			}
			s.line, s.begin, s.step, s.skip = s.line[:0], p.Position, p.step, false
		}
		if !s.skip {
			s.line = append(s.line, p.data[:min(len(p.data), maxLine-len(s.line))]...)
		}
		return true
	})
	if err != nil {
		return nil, nil, err
	}
	if len(s.matches) < most {
		s.check()
	}
	return s.matches, next, nil
}

type search struct {
	needle  []byte
	matches []Match
	line    []byte // up to maxLine
	begin   Position
	step    int  // of the first byte of the line
	skip    bool // the line began before the position
	folded  []byte
}

// check searches the line that was read, once.
func (s *search) check() {
	if s.skip {
		return
	}
	s.skip = true
	if bytes.IndexByte(s.line, escape) >= 0 {
		s.line = withoutEscapes(s.line)
	}
	s.folded = lower(s.folded[:0], s.line)
	if bytes.Contains(s.folded, s.needle) {
		line := strings.ToValidUTF8(string(bytes.TrimRight(s.line, "\r")), string(utf8.RuneError))
		s.matches = append(s.matches, Match{Step: s.step, Line: s.begin.Line, Offset: s.begin.Offset, Text: truncate.String(line, maxText, "…")})
	}
}

// lower appends a text with its ASCII letters in lower case.
func lower(to, text []byte) []byte {
	for _, c := range text {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		to = append(to, c)
	}
	return to
}

// piece is a line, or a part of it, in one chunk.
type piece struct {
	Position
	data []byte // without the line break
	end  int64  // the offset after it and its line break
	step int
	time time.Time
}

// scan calls each for the pieces of a log until it returns false, or the budget is spent.
// It returns the position of the first piece that it leaves out; nil at the end of the
// log. It ends inside a line only if it has read maxLine of it, or not its start.
func scan(ctx context.Context, reader run.LogReader, from Position, budget Budget, each func(piece) bool) (*Position, error) {
	at, begin := from, from.Offset
	if from.Inside {
		begin = from.Offset - maxLine
	}
	for {
		if at != from && budget.spent(at.Offset-from.Offset) && (!at.Inside || at.Offset-begin >= maxLine) {
			return &at, nil
		}
		chunk, err := reader.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		for data := chunk.Data; len(data) > 0; {
			p := piece{Position: at, data: data, end: at.Offset + int64(len(data)), step: chunk.Step, time: chunk.Time}
			i := bytes.IndexByte(data, '\n')
			if i >= 0 {
				p.data, p.end = data[:i], at.Offset+int64(i)+1
			}
			if !each(p) {
				return &at, nil
			}
			data = data[p.end-at.Offset:]
			if !at.Inside {
				begin = at.Offset
			}
			at = Position{Offset: p.end, Line: at.Line, Inside: i < 0}
			if i >= 0 {
				at.Line++
			}
		}
	}
}
