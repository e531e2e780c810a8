package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"
)

// lockOffset is the position of the locked byte: after the state, which other
// processes must be able to read.
const lockOffset = 1 << 20

// ErrLocked is the error of Lock if another process holds the lock.
var ErrLocked = errors.New("locked")

// Lock takes the lock of a directory and returns the open lock file. If another
// process holds the lock, it fails with ErrLocked at once.
func Lock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, LockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	if err := lock(f, windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY); err != nil {
		_ = f.Close()
		if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
			return nil, ErrLocked
		}
		return nil, fmt.Errorf("lock: %w", err)
	}
	return f, nil
}

// Alive reports whether a shim runs in the directory.
func Alive(dir string) (bool, error) {
	f, err := os.OpenFile(filepath.Join(dir, LockFile), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("open the lock: %w", err)
	}
	defer func() { _ = f.Close() }()
	err = lock(f, windows.LOCKFILE_FAIL_IMMEDIATELY)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("try the lock: %w", err)
	}
	return false, nil
}

// AwaitEnd returns when no shim runs in the directory. It blocks in a system call
// for that time.
func AwaitEnd(dir string) error {
	f, err := os.OpenFile(filepath.Join(dir, LockFile), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open the lock: %w", err)
	}
	defer func() { _ = f.Close() }()
	if err := lock(f, 0); err != nil {
		return fmt.Errorf("wait for the lock: %w", err)
	}
	return nil
}

func lock(f *os.File, flags uint32) error {
	return windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{Offset: lockOffset})
}

// InheritedLock takes over the lock that the driver passed to this process.
func InheritedLock(fd int) *os.File { return os.NewFile(uintptr(fd), LockFile) }
