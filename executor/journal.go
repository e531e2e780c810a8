package executor

import (
	"errors"

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
	Load() ([]JournalEntry, error)
	// Create creates the entry of a key with a line that is Kept. Errors: CodeConflict
	// if there is one. With CodeUnavailable, CodeTimeout, CodeCanceled or CodeInternal
	// the entry may still be created later, with any other code it will not.
	Create(key run.Key, line []byte) (Lines, error)
	// Check returns nil if the journal can be written.
	Check() error
	// Close releases the journal once nothing writes to it any more.
	Close() error
}

// JournalEntry is the journal entry of one key.
type JournalEntry struct {
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
	// NeedsRewrite reports whether the entry has grown enough for a rewrite.
	NeedsRewrite() bool
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
