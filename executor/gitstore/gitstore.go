// Package gitstore keeps object stores of git repositories on the host of an executor, so
// that checkout steps with reuse fetch only what is new. It decides which stores a task
// may use, and removes the least recently used ones; a Backend has the files.
//
// A store belongs to one repository and one tenant, the group root of its runs. Only the executor writes to it, with
// the credentials of the task that is about to start. If these do not reach the
// repository, the task gets no store: it must not read what others have fetched.
package gitstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drover-run/drover/executor/shim/checkout"
	"github.com/drover-run/drover/internal/durable"
	"github.com/drover-run/drover/run"
)

// updateTimeout bounds an update. A checkout without a store begins then.
const updateTimeout = 30 * time.Minute

// nameLength is how many characters of a digest name a store.
const nameLength = 32

// Backend has the files of the stores of an executor. Its methods may be called
// concurrently, also for one store.
type Backend interface {
	// Update fetches what a request needs into the store, which is created if it is
	// missing. The backend sets the directory in the request.
	Update(ctx context.Context, name string, r checkout.StoreRequest) (checkout.StoreResult, error)
	// List returns the names of the stores that exist.
	List(ctx context.Context) ([]string, error)
	// Remove removes a store; it is no error if the store does not exist. Errors:
	// CodeConflict if it is in use.
	Remove(ctx context.Context, name string) error
}

// Options configures the stores of an executor.
type Options struct {
	// MaxBytes bounds all stores together; 0 means that there are none.
	MaxBytes int64
	// IndexFile is the file with the sizes of the stores; required with MaxBytes. A file
	// that is lost or damaged costs only the order in which stores are removed.
	IndexFile string
}

// Stores are the stores of an executor. They may be used concurrently.
type Stores struct {
	backend Backend
	options Options
	log     *slog.Logger

	mu    sync.Mutex
	known map[string]known // by name; nil until the backend has listed them
}

// known is what is known about a store.
type known struct {
	Bytes int64     `json:"bytes"`
	Used  time.Time `json:"used"`
}

// New returns the stores of a backend.
func New(backend Backend, options Options, log *slog.Logger) *Stores {
	return &Stores{backend: backend, options: options, log: log}
}

// Prepare updates the stores that the checkouts of a task use, and returns their names by
// repository. A store that cannot be updated is left out: log gets the reason. The stores
// of privileged tasks are left out too, since these can write to all files of the host.
func (s *Stores) Prepare(ctx context.Context, d *run.Definition, log func(string)) map[string]string {
	names := make(map[string]string)
	failed := make(map[string]bool)
	for i := range d.Steps {
		c := d.Steps[i].Checkout
		if c == nil || !c.Reuse || d.Privileged || s.options.MaxBytes == 0 {
			continue
		}
		if !overWeb(c.Repository) {
			continue // a store has no keys for ssh
		}
		name := Name(d.RunGroup, c.Repository)
		begun := time.Now()
		result, err := s.update(ctx, name, checkout.StoreRequest{Checkout: *c, MaxBytes: s.options.MaxBytes, Secret: d.Secret(c.Credentials)})
		if err != nil {
			failed[c.Repository] = true
			log(fmt.Sprintf("the object store of %s is not used: %s", c.Repository, err))
			continue
		}
		names[c.Repository] = name
		log(fmt.Sprintf("updated the object store of %s in %s; it has %.1f MB", c.Repository, time.Since(begun).Round(time.Millisecond), float64(result.Bytes)/1e6))
		if result.Bytes > s.options.MaxBytes {
			log("it is larger than executor.checkout_store_size: the next task fetches everything again")
		}
	}
	for repository := range failed {
		delete(names, repository)
	}
	return names
}

func (s *Stores) update(ctx context.Context, name string, r checkout.StoreRequest) (checkout.StoreResult, error) {
	if err := s.load(ctx); err != nil {
		return checkout.StoreResult{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, updateTimeout, run.Errorf(run.CodeTimeout, "the update took more than %s", updateTimeout))
	defer cancel()
	result, err := s.backend.Update(ctx, name, r)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return result, err
	}
	s.used(ctx, name, result.Bytes)
	return result, nil
}

// load finds the stores that an earlier process left.
func (s *Stores) load(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known != nil {
		return nil
	}
	names, err := s.backend.List(ctx)
	if err != nil {
		return err //nolint:wrapcheck // of the driver
	}
	var before map[string]known
	text, err := os.ReadFile(s.options.IndexFile)
	if err == nil {
		err = json.Unmarshal(text, &before)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.WarnContext(ctx, "failed to read the sizes of the object stores", "error", err)
	}
	s.known = make(map[string]known)
	for _, name := range names {
		s.known[name] = before[name]
	}
	return nil
}

// used records the use of a store, and removes the least recently used others while all
// of them are too large.
func (s *Stores) used(ctx context.Context, name string, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[name] = known{Bytes: size, Used: time.Now()}
	var total int64
	for _, k := range s.known {
		total += k.Bytes
	}
	byUse := slices.SortedFunc(maps.Keys(s.known), func(a, b string) int { return s.known[a].Used.Compare(s.known[b].Used) })
	for _, other := range byUse {
		if total <= s.options.MaxBytes || other == name {
			break
		}
		switch err := s.backend.Remove(ctx, other); {
		case err == nil:
			total -= s.known[other].Bytes
			delete(s.known, other)
		case run.CodeOf(err) != run.CodeConflict:
			s.log.WarnContext(ctx, "failed to remove an object store", "store", other, "error", err)
		}
	}
	if err := s.save(); err != nil {
		s.log.WarnContext(ctx, "failed to record the sizes of the object stores", "error", err)
	}
}

func (s *Stores) save() error {
	text, err := json.Marshal(s.known)
	if err != nil {
		return fmt.Errorf("encode the sizes: %w", err)
	}
	return durable.WriteFile(s.options.IndexFile, text) //nolint:wrapcheck // it names the file
}

// Name returns the name of the store of a repository for the runs of a group. Those with
// the same group root share it.
func Name(group, repository string) string {
	sum := sha256.Sum256([]byte(run.GroupRoot(group) + "\n" + repository))
	return hex.EncodeToString(sum[:])[:nameLength]
}

func overWeb(repository string) bool {
	for _, scheme := range []string{"https://", "http://", "file://"} {
		if strings.HasPrefix(repository, scheme) {
			return true
		}
	}
	return false
}
