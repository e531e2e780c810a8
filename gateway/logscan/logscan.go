// Package logscan finds lines in logs: where they begin, and which have a text. A client
// that shows a part of a long log needs no other part of it.
package logscan

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/drover-run/drover/run"
)

// maxLine bounds the text of a match, and how much of a line is searched, in bytes.
const maxLine = 64 << 10

// Index says where the lines of a log begin.
type Index struct {
	Lines int64 // text after the last line break is a line too
	Bytes int64 // where the log ends
	// Offsets has the offsets of the lines 0, every, 2*every and so on.
	Offsets []int64
}

// Lines indexes a log to its end: each line whose number, from 0, is a multiple of every.
// If there were more than most offsets, it doubles every, and returns what it became.
func Lines(ctx context.Context, reader run.LogReader, every int64, most int) (Index, int64, error) {
	x := Index{Bytes: reader.Offset()}
	atStart := true
	for {
		chunk, err := reader.Next(ctx)
		if errors.Is(err, io.EOF) {
			return x, every, nil
		}
		if err != nil {
			return x, every, err
		}
		data := chunk.Data
		for len(data) > 0 {
			if atStart {
				if x.Lines%every == 0 {
					x.Offsets = append(x.Offsets, chunk.Offset+int64(len(chunk.Data)-len(data)))
				}
				x.Lines++
				if len(x.Offsets) > most {
					x.Offsets, every = halve(x.Offsets), every*2
				}
			}
			end := bytes.IndexByte(data, '\n')
			if atStart = end >= 0; !atStart {
				break
			}
			data = data[end+1:]
		}
		x.Bytes = chunk.Offset + int64(len(chunk.Data))
	}
}

// halve keeps every second offset, the first included.
func halve(offsets []int64) []int64 {
	kept := offsets[:0]
	for i := 0; i < len(offsets); i += 2 {
		kept = append(kept, offsets[i])
	}
	return kept
}

// Match is a line that has the text.
type Match struct {
	Line   int64 // from 0
	Offset int64 // of its first byte
	Text   string
}

// Search returns the first lines that have a text, at most so many, and whether there
// are more. It ignores the case of ASCII letters.
func Search(ctx context.Context, reader run.LogReader, text string, most int) (matches []Match, more bool, err error) {
	needle := strings.ToLower(text)
	var line []byte
	var number, begin int64
	check := func() bool {
		if bytes.Contains(bytes.ToLower(line), []byte(needle)) {
			if len(matches) == most {
				return false
			}
			matches = append(matches, Match{Line: number, Offset: begin, Text: strings.ToValidUTF8(string(bytes.TrimRight(line, "\r")), string(utf8.RuneError))})
		}
		return true
	}
	begin = reader.Offset()
	for {
		chunk, err := reader.Next(ctx)
		if errors.Is(err, io.EOF) {
			return matches, !check(), nil
		}
		if err != nil {
			return nil, false, err
		}
		data := chunk.Data
		for len(data) > 0 {
			end := bytes.IndexByte(data, '\n')
			part := data
			if end >= 0 {
				part = data[:end]
			}
			line = append(line, part[:min(len(part), maxLine-len(line))]...)
			if end < 0 {
				break
			}
			if !check() {
				return matches, true, nil
			}
			data = data[end+1:]
			line, number, begin = line[:0], number+1, chunk.Offset+int64(len(chunk.Data)-len(data))
		}
	}
}
