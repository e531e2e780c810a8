package statedir

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"

	"github.com/drover-run/drover/internal/dirlock"
	"github.com/drover-run/drover/internal/durable"
	"github.com/drover-run/drover/run"
)

// Names in a state dir. The journal's id is stored in the journal's directory, so
// both are removed together.
const (
	idName        = "id"
	journalName   = "journal"
	journalIDName = "id"
)

// Bounds of ids, so that heartbeat details stay within 512 bytes. maxHostPart
// bounds the part of a generated id that comes from the host name.
const (
	maxID       = 100
	maxHostPart = 40
)

// Identity holds the ids of an executor. It lasts as long as the state dir. An executor
// whose journal is elsewhere has an Identity with two ids and no state dir.
type Identity struct {
	ID        string
	JournalID string

	dir  string
	lock *flock.Flock
}

// Open creates the state dir if it does not exist, locks it, and reads or
// creates the ids. Errors: CodeConflict if another process holds the state dir, it
// belongs to another id than the requested one, or it is a copy; CodeInvalid if the
// requested id is malformed.
func Open(dir, requested, host string) (*Identity, error) {
	if requested != "" && !ValidID(requested) {
		return nil, run.Errorf(run.CodeInvalid, "%q is not an executor id: it consists of 1 to %d of a-z, A-Z, 0-9, '.', '_' and '-'", requested, maxID)
	}
	if err := durable.MkdirAll(filepath.Join(dir, journalName), 0o700); err != nil {
		return nil, fmt.Errorf("create state dir: %w", err)
	}
	lock, err := dirlock.Take(dir)
	if errors.Is(err, dirlock.ErrHeld) {
		return nil, run.Errorf(run.CodeConflict, "state dir %s is held by another process", dir)
	}
	if err != nil {
		return nil, err
	}
	who := &Identity{dir: dir, lock: lock}
	if err := who.read(dir, requested, host); err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	return who, nil
}

func (i *Identity) read(dir, requested, host string) error {
	fresh := requested
	if fresh == "" {
		fresh = FreshID(host)
	}
	var err error
	if i.ID, err = readOrMake(filepath.Join(dir, idName), fresh); err != nil {
		return err
	}
	if requested != "" && requested != i.ID {
		return run.Errorf(run.CodeConflict, "state dir %s belongs to executor %s, not to %s", dir, i.ID, requested)
	}
	if err := checkFingerprint(dir); err != nil {
		return err
	}
	i.JournalID, err = readOrMake(filepath.Join(dir, journalName, journalIDName), strings.ToLower(rand.Text()))
	return err
}

// Journal returns the journal in the state dir.
func (i *Identity) Journal() *Journal {
	return NewJournal(filepath.Join(i.dir, journalName), i.JournalID)
}

// Close releases the state dir. It does nothing for an identity without one.
func (i *Identity) Close() error {
	if i.lock == nil {
		return nil
	}
	return i.lock.Unlock()
}

// readOrMake returns the line in the file. If the file does not exist, it is
// created with fresh.
func readOrMake(path, fresh string) (string, error) {
	b, err := os.ReadFile(path)
	if err == nil {
		if line := strings.TrimSpace(string(b)); line != "" {
			return line, nil
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	if err := durable.WriteFile(path, []byte(fresh+"\n")); err != nil {
		return "", fmt.Errorf("write %s: %w", path, err)
	}
	return fresh, nil
}

// FreshID generates a unique executor id from the name of the host, or pod, that it
// runs on.
func FreshID(host string) string {
	return hostPart(host) + "-" + strings.ToLower(rand.Text()[:8])
}

// ValidID reports whether an id is valid in queue names and heartbeat details.
func ValidID(id string) bool {
	for i := range len(id) {
		c := id[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return id != "" && len(id) <= maxID
}

// hostPart converts a host name to the first part of an id.
func hostPart(host string) string {
	host, _, _ = strings.Cut(strings.ToLower(host), ".")
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, host)
	clean = strings.Trim(clean[:min(len(clean), maxHostPart)], "-")
	if clean == "" {
		return "executor"
	}
	return clean
}
