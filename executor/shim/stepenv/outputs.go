package stepenv

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/drover-run/drover/executor/shim/process"
	"github.com/drover-run/drover/internal/truncate"
	"github.com/drover-run/drover/run"
)

// ReadOutputs parses the output file of a step: lines key=value, and multiline
// values that begin with key<<WORD and end before a line that is only the word. The
// last value of a key counts. budget is how many bytes of keys and values the task
// has left. Steps write the file, so errors have messages for the user.
func ReadOutputs(path string, budget int) (map[string]string, error) {
	f, err := process.OpenRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // no outputs, and no error
	}
	if errors.Is(err, process.ErrNotRegular) {
		err = errors.New("$DROVER_OUTPUT is not a regular file any more")
	}
	if err != nil {
		return nil, fmt.Errorf("put out what can not be read: %w", err)
	}
	defer func() { _ = f.Close() }()
	// Lines may repeat a key, but twice the limit is enough for that.
	text, err := io.ReadAll(io.LimitReader(f, 2*run.MaxOutputBytes+1))
	if err != nil {
		return nil, fmt.Errorf("put out what can not be read: %w", err)
	}
	if len(text) > 2*run.MaxOutputBytes {
		return nil, errTooMuch()
	}
	out, err := parseOutputs(text)
	if err != nil {
		return nil, err
	}
	size := 0
	for key, value := range out {
		size += len(key) + len(value)
	}
	if size > budget {
		return nil, errTooMuch()
	}
	return out, nil
}

func parseOutputs(text []byte) (map[string]string, error) {
	var out map[string]string
	lines := slices.Collect(bytes.Lines(text))
	for i := 0; i < len(lines); i++ {
		entry := strings.ToValidUTF8(string(bytes.TrimRight(lines[i], "\r\n")), "\uFFFD")
		if strings.TrimSpace(entry) == "" {
			continue
		}
		key, value, ok := strings.Cut(entry, "=")
		if name, word, begins := strings.Cut(entry, "<<"); begins && validOutput(name) && word != "" {
			key, ok = name, true
			length := slices.IndexFunc(lines[i+1:], func(line []byte) bool { return string(bytes.TrimRight(line, "\r\n")) == word })
			if length < 0 {
				return nil, fmt.Errorf("put out %s without its end: no line after line %d of $DROVER_OUTPUT is %q", name, i+1, truncate.String(word, maxQuoted, "..."))
			}
			value = severalLines(lines[i+1 : i+1+length])
			i += length + 1
		}
		if !ok || !validOutput(key) {
			return nil, fmt.Errorf("put out a line that is not key=value (line %d of $DROVER_OUTPUT)", i+1)
		}
		if out == nil {
			out = make(map[string]string)
		}
		out[key] = value
	}
	return out, nil
}

// severalLines joins lines to a value without the last line ending.
func severalLines(lines [][]byte) string {
	value := strings.TrimSuffix(string(bytes.Join(lines, nil)), "\n")
	return strings.ToValidUTF8(strings.TrimSuffix(value, "\r"), "\uFFFD")
}

// maxQuoted bounds a text of the task that an error quotes, in bytes.
const maxQuoted = 40

func errTooMuch() error {
	return fmt.Errorf("put out too much: a task may put out %d bytes", run.MaxOutputBytes)
}

// validOutput reports whether key is a name of letters, digits, "_", "-" and
// ".".
func validOutput(key string) bool {
	for i := range len(key) {
		c := key[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
		if !letter && (i == 0 || (c < '0' || c > '9') && c != '-' && c != '.') {
			return false
		}
	}
	return key != ""
}
