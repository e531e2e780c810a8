package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/gofrs/flock"
)

// ScratchDir returns a directory of this test process, for programs that it builds and for
// temporary files of the processes that it starts. Its path is short, as those of sockets
// must be. It disappears with the process, however that ends.
func ScratchDir(t testing.TB) string {
	t.Helper()
	dir, err := scratchDir()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// held are the lock of the directory and the pipes of AtExit: they stay open as long as
// this process runs.
var held sync.Map

// scratchDir creates the directory, in which the process holds a lock. It removes the
// directories of earlier processes, whose locks are free.
var scratchDir = sync.OnceValues(func() (string, error) {
	shared, err := makeSharedDir()
	if err != nil {
		return "", err
	}
	all := flock.New(filepath.Join(shared, "scratch.lock"))
	if err := all.Lock(); err != nil {
		return "", fmt.Errorf("lock the shared directory of the tests: %w", err)
	}
	defer func() { _ = all.Close() }()
	removeScratch(shared)
	dir, err := os.MkdirTemp(shared, "run-")
	if err != nil {
		return "", fmt.Errorf("create a directory of the test process: %w", err)
	}
	own := flock.New(filepath.Join(dir, "lock"))
	if err := own.Lock(); err != nil {
		return "", fmt.Errorf("lock the directory of the test process: %w", err)
	}
	held.Store(own, nil)
	return dir, AtExit(`rm -rf -- "$1"`, dir)
})

// removeScratch removes directories whose processes have ended.
func removeScratch(shared string) {
	dirs, _ := filepath.Glob(filepath.Join(shared, "run-*"))
	for _, dir := range dirs {
		lock := flock.New(filepath.Join(dir, "lock"))
		if free, err := lock.TryLock(); err == nil && free {
			_ = os.RemoveAll(dir)
		}
		_ = lock.Close()
	}
}

// AtExit has a shell run a script when this process ends, also if it panics or is killed:
// the kernel then closes the pipe that the shell reads. The arguments are $1 and so on.
func AtExit(script string, args ...string) error {
	in, out, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	defer func() { _ = in.Close() }()
	shell := exec.Command("sh", append([]string{"-c", "trap '' INT TERM HUP; read -r end; " + script, "at-exit"}, args...)...)
	shell.Stdin = in
	if err := shell.Start(); err != nil {
		_ = out.Close()
		return fmt.Errorf("start a shell: %w", err)
	}
	held.Store(out, nil)
	return nil
}
