//go:build unix

package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// ErrLocked is the error of Lock if another process holds the lock.
var ErrLocked = errors.New("locked")

// Lock takes the lock of a directory and returns the open lock file, which may be
// passed to a shim: the lock lasts as long as any process has the file open. If
// another process holds the lock, it fails with ErrLocked at once.
func Lock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, LockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	if err := lockFile(f); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// lockFile takes the exclusive lock. A process that only checks whether a shim runs
// holds the lock shared for a moment, and must not be taken for a shim.
func lockFile(f *os.File) error {
	for {
		err := flock(f, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return fmt.Errorf("lock: %w", err)
		}
		if err := flock(f, unix.LOCK_SH|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
			return ErrLocked // held by a shim: a shared lock is not possible either
		} else if err != nil {
			return fmt.Errorf("try the lock: %w", err)
		}
		if err := flock(f, unix.LOCK_UN); err != nil {
			return fmt.Errorf("release the lock: %w", err)
		}
		runtime.Gosched()
	}
}

// Alive reports whether a shim runs in the directory.
func Alive(dir string) (bool, error) {
	f, err := os.Open(filepath.Join(dir, LockFile)) // for reading: a close after writing wakes followers
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("open the lock: %w", err)
	}
	defer func() { _ = f.Close() }()
	// Shared: two concurrent checks must not see each other.
	err = flock(f, unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
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
	f, err := os.Open(filepath.Join(dir, LockFile)) // for reading: a close after writing wakes followers
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open the lock: %w", err)
	}
	defer func() { _ = f.Close() }()
	if err := flock(f, unix.LOCK_SH); err != nil {
		return fmt.Errorf("wait for the lock: %w", err)
	}
	return nil
}

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// InheritedLock takes over the lock that the driver passed to this process.
func InheritedLock(fd int) *os.File {
	unix.CloseOnExec(fd) // the steps must not keep it
	return os.NewFile(uintptr(fd), LockFile)
}
