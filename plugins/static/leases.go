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

// lease records the owner of a host. A released host keeps its record, which
// orders the free hosts by the time of their release.
type lease struct {
	Address    string    `json:"address"`
	Group      string    `json:"group,omitempty"` // "": the host is free
	ID         string    `json:"id,omitempty"`
	Since      time.Time `json:"since,omitzero"`
	Cleaning   bool      `json:"returning,omitempty"` // the cleanup runs
	ReleasedAt time.Time `json:"returned,omitzero"`
}

// leases is a directory that groups share: one file per host, and one lock.
// Every reader and writer holds the lock.
type leases struct{ dir string }

const (
	lockFile = "lock"
	hostsDir = "hosts"
)

// acquire locks the leases.
func (l leases) acquire() (release func(), err error) {
	if err := os.MkdirAll(filepath.Join(l.dir, hostsDir), 0o700); err != nil {
		return nil, fmt.Errorf("make the state dir: %w", err)
	}
	lock := flock.New(filepath.Join(l.dir, lockFile))
	if err := lock.Lock(); err != nil {
		return nil, fmt.Errorf("lock the state dir: %w", err)
	}
	return func() { _ = lock.Close() }, nil
}

func (l leases) path(address string) string {
	sum := sha256.Sum256([]byte(address))
	return filepath.Join(l.dir, hostsDir, hex.EncodeToString(sum[:8])+".json")
}

// all reads every lease, including those of other groups, by address.
func (l leases) all() (map[string]lease, error) {
	paths, err := filepath.Glob(filepath.Join(l.dir, hostsDir, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("list leases: %w", err)
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
			return nil, fmt.Errorf("read a lease: %w", err)
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
		return fmt.Errorf("write a lease: %w", err)
	}
	return nil
}
