// Package reload reads files again when they change: certificates, keys and
// credentials that are replaced while a process runs.
package reload

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Interval is the minimum time between two checks of a file. A change takes effect
// within it.
const Interval = time.Second

// unsettled is how long a file may change again without a new modification time:
// file systems count time in steps of up to two seconds.
const unsettled = 2 * time.Second

// Value is what files contain. It is checked when it is used, so it needs no
// goroutine and no watches, which do not notice all changes: Kubernetes replaces a
// symbolic link to the directory of a secret.
//
// Files that cannot be read, or that are not valid, do not change the value: the
// next files of a pair may follow, or the rest of a file that is being written.
// The fault is logged once.
type Value[T any] struct {
	logger *slog.Logger
	paths  []string
	parse  func(files [][]byte) (T, error)

	current atomic.Pointer[T]
	// The next check, as the time since opened, which adjustments of the clock do not
	// change.
	next   atomic.Int64
	opened time.Time

	mu     sync.Mutex
	stamps []os.FileInfo // of the files that were read last; nil: read them again
	sum    [sha256.Size]byte
	fault  string // that was logged last
}

// Open reads files. Their contents are passed to parse, in the order of the paths.
func Open[T any](logger *slog.Logger, parse func(files [][]byte) (T, error), paths ...string) (*Value[T], error) {
	v := &Value[T]{logger: logger, paths: paths, parse: parse, opened: time.Now()}
	v.postpone()
	if _, err := v.read(); err != nil {
		return nil, err
	}
	return v, nil
}

// Current returns the value of the files. It checks them for changes at most once
// per Interval.
func (v *Value[T]) Current() T {
	if int64(time.Since(v.opened)) >= v.next.Load() && v.mu.TryLock() { // other callers use the previous value meanwhile
		defer v.mu.Unlock()
		v.check()
	}
	return *v.current.Load()
}

// Refresh returns the value of the files, after a check for changes.
func (v *Value[T]) Refresh() T {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.check()
	return *v.current.Load()
}

func (v *Value[T]) postpone() { v.next.Store(int64(time.Since(v.opened) + Interval)) }

func (v *Value[T]) check() {
	v.postpone()
	changed, err := v.read()
	ctx := context.Background()
	switch {
	case err != nil && err.Error() != v.fault:
		v.fault = err.Error()
		v.logger.WarnContext(ctx, "failed to read a changed file; its previous content stays in use", "path", v.path(), "error", err)
	case err == nil && changed:
		v.logger.InfoContext(ctx, "read a changed file", "path", v.path())
		fallthrough
	case err == nil:
		v.fault = ""
	}
}

func (v *Value[T]) path() string { return strings.Join(v.paths, ", ") }

// read reads the files if they may have changed, and reports whether the value is
// another.
func (v *Value[T]) read() (changed bool, err error) {
	stamps := make([]os.FileInfo, len(v.paths))
	same, settled := len(v.stamps) > 0, true
	for i, path := range v.paths {
		// Stamps are taken before the contents: a change in between is noticed next time.
		if stamps[i], err = os.Stat(path); err != nil {
			return false, err
		}
		same = same && sameFile(stamps[i], v.stamps[i])
		settled = settled && time.Since(stamps[i].ModTime()) > unsettled
	}
	if same {
		return false, nil
	}
	files, hash := make([][]byte, len(v.paths)), sha256.New()
	for i, path := range v.paths {
		if files[i], err = os.ReadFile(path); err != nil {
			return false, err
		}
		_, _ = fmt.Fprintf(hash, "%d ", len(files[i]))
		_, _ = hash.Write(files[i])
	}
	var sum [sha256.Size]byte
	hash.Sum(sum[:0])
	if v.current.Load() == nil || sum != v.sum {
		value, err := v.parse(files)
		if err != nil {
			return false, fmt.Errorf("read %s: %w", v.path(), err)
		}
		v.current.Store(&value)
		v.sum, changed = sum, true
	}
	if v.stamps = nil; settled {
		v.stamps = stamps
	}
	return changed, nil
}

func sameFile(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
