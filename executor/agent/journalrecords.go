package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/run"
)

var errSealed = errors.New("the journal is closed")

// journal reads and writes the records of keys in a Journal.
type journal struct {
	executor.Journal

	seal atomic.Bool // set when the process is over: nothing is written any more
}

// loaded is an entry as it was found.
type loaded struct {
	key   run.Key
	entry entry
	file  *journalFile
}

// load reads all entries.
func (j *journal) load() ([]loaded, error) {
	entries, err := j.Load()
	if err != nil {
		return nil, err
	}
	all := make([]loaded, len(entries))
	for i, p := range entries {
		all[i] = j.open(p)
	}
	return all, nil
}

func (j *journal) open(p executor.JournalEntry) loaded {
	e, _ := parseEntry(p.Content)
	return loaded{key: p.Key, entry: e, file: &journalFile{journal: j, lines: p.Lines}}
}

// parseEntry reads the lines of an entry, and returns how many bytes of it are
// valid.
func parseEntry(content []byte) (entry, int64) {
	var e entry
	size := 0
	for rest := content; len(rest) > 0; {
		line, after, whole := bytes.Cut(rest, []byte("\n"))
		if !whole {
			break // torn: nothing was done on account of it
		}
		var r record
		if err := json.Unmarshal(line, &r); err != nil || r.Version > recordVersion {
			e.Damaged = true
		} else {
			e.apply(r)
		}
		size += len(line) + 1
		rest = after
	}
	if e.Damaged && e.State != stateEnded && e.State != stateClosed {
		e.State = stateLaunched
	}
	return e, int64(size)
}

// create creates the entry of a key. Errors: CodeConflict if there is one.
func (j *journal) create(key run.Key, r record) (*journalFile, error) {
	if j.seal.Load() {
		return nil, errSealed
	}
	r.Version = recordVersion
	line, err := encode(r)
	if err != nil {
		return nil, err
	}
	lines, err := j.Create(key, line)
	if err != nil {
		return nil, err
	}
	return &journalFile{journal: j, lines: lines}, nil
}

// journalFile is the entry of one key. Its methods must not be called at the same
// time.
type journalFile struct {
	journal *journal
	lines   executor.Lines
}

// compact rewrites the entry as one line, if it has grown enough. After an error
// the old lines remain valid.
func (f *journalFile) compact(r record) error {
	if !f.lines.NeedsRewrite() {
		return nil
	}
	if f.journal.seal.Load() {
		return errSealed
	}
	r.Version = recordVersion
	line, err := encode(r)
	if err != nil {
		return err
	}
	return f.lines.Rewrite(line)
}

// append writes a line. After an error the line does not count as written.
func (f *journalFile) append(r record, d executor.Durability) error {
	if f.journal.seal.Load() {
		return errSealed
	}
	line, err := encode(r)
	if err != nil {
		return err
	}
	return f.lines.Append(line, d)
}

// remove removes the entry.
func (f *journalFile) remove() error {
	if f.journal.seal.Load() {
		return errSealed
	}
	return f.lines.Remove()
}

// close leaves the entry to the next process.
func (f *journalFile) close() error {
	return f.lines.Close()
}

func encode(r record) ([]byte, error) {
	line, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode journal record: %w", err)
	}
	return line, nil
}
