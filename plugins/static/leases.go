package static

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"
)

// lease says who has a host. One that was given back keeps its record, for the
// sake of its turn.
type lease struct {
	Address   string    `json:"address"`
	Group     string    `json:"group,omitempty"` // "": nobody has it
	ID        string    `json:"id,omitempty"`
	Since     time.Time `json:"since,omitzero"`
	Returning bool      `json:"returning,omitempty"` // to be cleaned up
	Returned  time.Time `json:"returned,omitzero"`
}

// leases are a directory that groups share: a file for each host, and a lock
// for all. Whoever reads or writes holds it.
type leases struct{ dir string }

const (
	lockFile = "lock"
	hostsDir = "hosts"
)

// hold locks the leases.
func (l leases) hold() (release func(), err error) {
	if err := os.MkdirAll(filepath.Join(l.dir, hostsDir), 0o700); err != nil {
		return nil, fmt.Errorf("making the state dir: %w", err)
	}
	lock := flock.New(filepath.Join(l.dir, lockFile))
	if err := lock.Lock(); err != nil {
		return nil, fmt.Errorf("locking the state dir: %w", err)
	}
	return func() { _ = lock.Close() }, nil
}

func (l leases) path(address string) string {
	sum := sha256.Sum256([]byte(address))
	return filepath.Join(l.dir, hostsDir, hex.EncodeToString(sum[:8])+".json")
}

// all reads every lease, those of other groups too, by address.
func (l leases) all() (map[string]lease, error) {
	paths, err := filepath.Glob(filepath.Join(l.dir, hostsDir, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("listing leases: %w", err)
	}
	all := map[string]lease{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var found lease
		if err == nil {
			err = json.Unmarshal(text, &found)
		}
		if err != nil {
			return nil, fmt.Errorf("reading a lease: %w", err)
		}
		all[found.Address] = found
	}
	return all, nil
}

func (l leases) write(v lease) error {
	text, err := json.Marshal(v)
	if err == nil {
		err = renameio.WriteFile(l.path(v.Address), text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("writing a lease: %w", err)
	}
	return nil
}
