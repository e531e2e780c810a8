package executor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/drover-run/drover/run"
)

// Journal stores the state of an executor: append-only lines by key. The
// implementation over files belongs to one executor; others may be shared by the
// members of an executor set: see Shared. Methods are safe for concurrent use, and
// each bounds its own time.
type Journal interface {
	// ID names the journal. A journal that replaces a lost one has another id. Only
	// the journal that held a key may say that nothing of it ran.
	ID() string
	// Load returns the entries of the keys that this executor held when its last
	// process ended.
	Load() ([]Page, error)
	// Create creates the entry of a key with a line that is Kept. Errors: CodeConflict
	// if there is one. With CodeUnavailable, CodeTimeout, CodeCanceled or CodeInternal
	// the entry may still be created later, with any other code it will not.
	Create(key run.Key, line []byte) (Lines, error)
	// Check returns nil if the journal can be written.
	Check() error
	// Close releases the journal once nothing writes to it any more.
	Close() error
}

// Page is the journal entry of one key.
type Page struct {
	Key run.Key
	// Content is complete lines, oldest first.
	Content []byte
	Lines   Lines
}

// Lines are the lines of one key. The methods must not be called at the same time.
// After an error nothing counts as written. ErrLost means that another member of
// the set has the key: the state of this member is invalid.
type Lines interface {
	// Append adds a line, which has no newline at its end.
	Append(line []byte, d Durability) error
	// Grown reports whether the entry has grown enough for a rewrite.
	Grown() bool
	// Rewrite replaces all lines by one, with the same durability.
	Rewrite(line []byte) error
	// Remove removes the entry. The lines are not used after a success.
	Remove() error
	// Close writes pending lines and leaves the entry to the next process, or member.
	// The lines are not used after it.
	Close() error
}

// Durability is the kind of failure that a line must survive.
type Durability int

// The durabilities. A journal may provide more than requested.
const (
	// Lazy lines may be lost with the process. The loss costs repeated work only.
	Lazy Durability = iota
	// Kept lines survive the process from the moment that Append returns.
	Kept
	// Synced lines survive the host as well, with all before them.
	Synced
)

// ErrLost is returned by the lines of a key that another member of the set has
// taken over.
var ErrLost = errors.New("another member of the set has the key")

var errSealed = errors.New("the journal is closed")

// journal reads and writes the records of keys in a Journal.
type journal struct {
	Journal

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
	pages, err := j.Load()
	if err != nil {
		return nil, err
	}
	all := make([]loaded, len(pages))
	for i, p := range pages {
		all[i] = j.open(p)
	}
	return all, nil
}

func (j *journal) open(p Page) loaded {
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
	lines   Lines
}

// compact rewrites the entry as one line, if it has grown enough. After an error
// the old lines remain valid.
func (f *journalFile) compact(r record) error {
	if !f.lines.Grown() {
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
func (f *journalFile) append(r record, d Durability) error {
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
