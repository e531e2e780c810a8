package shim

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"
)

// lockOffset is where the locked byte lies: behind the state, which others
// must be able to read.
const lockOffset = 1 << 20

// ErrLocked is the fault of Lock where someone else holds the lock.
var ErrLocked = errors.New("locked")

// Lock takes the lock of a directory and returns the open lock file. It fails
// with ErrLocked at once where another holds it.
func Lock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, LockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	if err := lock(f, windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY); err != nil {
		_ = f.Close()
		if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
			return nil, ErrLocked
		}
		return nil, fmt.Errorf("locking: %w", err)
	}
	return f, nil
}

// Alive reports whether a shim lives in the directory.
func Alive(dir string) (bool, error) {
	f, err := os.OpenFile(filepath.Join(dir, LockFile), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("opening the lock: %w", err)
	}
	defer func() { _ = f.Close() }()
	err = lock(f, windows.LOCKFILE_FAIL_IMMEDIATELY)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("trying the lock: %w", err)
	}
	return false, nil
}

// AwaitEnd returns when no shim lives in the directory. It blocks in the
// system, however long that takes.
func AwaitEnd(dir string) error {
	f, err := os.OpenFile(filepath.Join(dir, LockFile), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening the lock: %w", err)
	}
	defer func() { _ = f.Close() }()
	if err := lock(f, 0); err != nil {
		return fmt.Errorf("waiting for the lock: %w", err)
	}
	return nil
}

func lock(f *os.File, flags uint32) error {
	return windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{Offset: lockOffset})
}

func inheritedLock(fd int) *os.File { return os.NewFile(uintptr(fd), LockFile) }
