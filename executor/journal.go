package executor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/drover-run/drover/run"
)

// Journal keeps the memory of an executor: lines by key, that are only ever
// added to. It has an implementation over files, which is of one executor, and
// others may be shared by the members of an executor set: see Shared. Methods
// are safe for concurrent use, and each bounds its own time.
type Journal interface {
	// ID names the journal: one that was lost and begun anew has another. Only
	// the journal that had a key may say that nothing of it ran.
	ID() string
	// Load returns the keys that this executor held when its last process
	// ended.
	Load() ([]Page, error)
	// Create begins the page of a key with a line that is Kept. Errors:
	// CodeConflict where there is one. With CodeUnavailable, CodeTimeout,
	// CodeCanceled or CodeInternal a page may come into being yet, with any
	// other it will not.
	Create(key run.Key, line []byte) (Lines, error)
	// Check returns nil if the journal can be written.
	Check() error
	// Close gives the journal back when nobody writes to it any more.
	Close() error
}

// Page is what a journal has of one key.
type Page struct {
	Key run.Key
	// Content is whole lines, oldest first.
	Content []byte
	Lines   Lines
}

// Lines are the lines of one key. The methods must not be called at the same
// time. After an error nothing counts as written. ErrLost means that another
// member of the set has the key: what this one knows of it is void.
type Lines interface {
	// Append adds a line, which has no newline at its end.
	Append(line []byte, d Durability) error
	// Grown reports whether there is so much that a rewrite pays.
	Grown() bool
	// Rewrite puts one line in the place of all, as durable as they were.
	Rewrite(line []byte) error
	// Remove removes the page. Once it did, the lines are not used any more.
	Remove() error
	// Close writes what is left to write and leaves the page to the next
	// process, or member. The lines are not used any more after it.
	Close() error
}

// Durability says what a line must survive.
type Durability int

// The durabilities. A journal may give more than it is asked for.
const (
	// Lazy lines may be lost with the process: that costs work that is done
	// again, and nothing else.
	Lazy Durability = iota
	// Kept lines survive the process from the moment that Append returns.
	Kept
	// Synced lines survive the host as well, with all before them.
	Synced
)

// ErrLost is what the lines of a key return that another member of the set has
// taken over.
var ErrLost = errors.New("another member of the set has the key")

var errSealed = errors.New("the journal is closed")

// journal reads and writes the records of keys in a Journal.
type journal struct {
	Journal

	seal atomic.Bool // a process that is dead, or over, writes nothing
}

// loaded is one page as it was found.
type loaded struct {
	key   run.Key
	entry entry
	file  *journalFile
}

// load reads all pages.
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

// parseEntry reads the lines of a page, and returns how many bytes of it hold.
func parseEntry(content []byte) (entry, int64) {
	var e entry
	size := 0
	for rest := content; len(rest) > 0; {
		line, after, whole := bytes.Cut(rest, []byte("\n"))
		if !whole {
			break // torn: it was never acted upon
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

// create begins the page of a key. Errors: CodeConflict where there is one.
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

// journalFile is the page of one key. Its methods must not be called at the
// same time.
type journalFile struct {
	journal *journal
	lines   Lines
}

// compact writes the page anew as one line, if it has grown enough. After an
// error the old one holds.
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

// append writes a line. After an error it did not happen.
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

// remove removes the page.
func (f *journalFile) remove() error {
	if f.journal.seal.Load() {
		return errSealed
	}
	return f.lines.Remove()
}

// close leaves the page to the next process.
func (f *journalFile) close() error {
	return f.lines.Close()
}

func encode(r record) ([]byte, error) {
	line, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encoding journal record: %w", err)
	}
	return line, nil
}
