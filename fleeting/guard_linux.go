package fleeting

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"
)

// Files of a group's directory.
const (
	hostLockFile  = "lock"       // held by the host
	guardLockFile = "guard.lock" // held by the guard, whose pid is in it
	logFile       = "log"        // a pipe with what the plugin writes to stderr
	stateFile     = "plugin.json"
)

const (
	guardPatience = 2 * time.Second
	guardPoll     = 100 * time.Millisecond
	exitGuard     = 125 // the guard could not do its work
)

// Guard runs a plugin: its arguments are the group's directory, the grace, and
// the plugin with its arguments. It stands between host and plugin because the
// kernel ends a child only with the thread that made it, which says nothing of
// a host that may be replaced: the guard ends the plugin once nobody has owned
// the group for the grace, and the kernel ends it with the guard. Only one
// guard works in a group at a time. The result is an exit code.
func Guard(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) < 3 {
		_, _ = fmt.Fprintln(stderr, "plugin guard: needs a directory, a grace and a plugin")
		return exitGuard
	}
	code, err := guard(ctx, args[0], args[1], args[2:], stdout)
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "plugin guard:", err)
		return exitGuard
	}
	return code
}

func guard(ctx context.Context, dir, graceText string, argv []string, stdout io.Writer) (int, error) {
	grace, err := time.ParseDuration(graceText)
	if err != nil {
		return 0, fmt.Errorf("reading the grace: %w", err)
	}
	lock, err := guardLock(ctx, dir)
	if err != nil {
		return 0, err
	}
	defer func() { _ = lock.Unlock() }()
	// The host may be gone when something is written to it.
	signal.Ignore(syscall.SIGPIPE, syscall.SIGHUP)
	// The kernel ends the plugin with this very thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	ctx, orphaned := context.WithCancelCause(ctx)
	defer orphaned(nil)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log, err := openPipe(filepath.Join(dir, logFile), 0)
	if err != nil {
		return 0, err
	}
	defer func() { _ = log.Close() }()
	cmd.Stderr = log
	// Copied rather than inherited: children that outlive the plugin must not keep the host's pipe open.
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, fmt.Errorf("making a pipe: %w", err)
	}
	if err := cmd.Start(); err != nil {
		err = fmt.Errorf("starting the plugin: %w", err)
		_, _ = fmt.Fprintln(log, err)
		return 0, err
	}
	go relay(stdout, out)
	go func() { orphaned(awaitOrphaned(ctx, filepath.Join(dir, hostLockFile), grace)) }()
	// Not cmd.Wait, which waits for readers too.
	state, err := cmd.Process.Wait()
	if dir := socketDir(cmd.Env, os.Environ()); dir != "" {
		_ = os.RemoveAll(dir)
	}
	if err != nil {
		return 0, fmt.Errorf("waiting for the plugin: %w", err)
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return state.ExitCode(), nil
}

// relay hands on what the plugin writes to stdout, and goes on reading after
// the host has gone.
func relay(to io.Writer, from io.Reader) {
	_, _ = io.Copy(to, from)
	_, _ = io.Copy(io.Discard, from)
}

// guardLock makes this process the group's guard and writes its pid down.
func guardLock(ctx context.Context, dir string) (*flock.Flock, error) {
	path := filepath.Join(dir, guardLockFile)
	ctx, cancel := context.WithTimeoutCause(ctx, guardPatience, errors.New("another plugin runs for this group"))
	defer cancel()
	lock := flock.New(path)
	if _, err := lock.TryLockContext(ctx, guardPoll/5); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	if err := os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return nil, fmt.Errorf("writing the pid: %w", err)
	}
	return lock, nil
}

var errOrphaned = errors.New("nobody drives the group")

// awaitOrphaned returns once nobody has held the host's lock for the grace.
func awaitOrphaned(ctx context.Context, path string, grace time.Duration) error {
	lock := flock.New(path)
	for ctx.Err() == nil {
		// Granted by the kernel when the host ends, however it does.
		if err := lock.Lock(); err != nil {
			return fmt.Errorf("waiting for the host's end: %w", err)
		}
		_ = lock.Unlock()
		if !unowned(ctx, lock, grace) {
			continue
		}
		// The lock is kept: nobody takes the plugin over from now on.
		return errOrphaned
	}
	return ctx.Err()
}

// unowned watches a lock that nobody holds, and reports that it stayed so for
// the grace; the lock is held then.
func unowned(ctx context.Context, lock *flock.Flock, grace time.Duration) bool {
	deadline := time.Now().Add(grace)
	tick := time.NewTicker(guardPoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
		free, err := lock.TryLock()
		if err != nil || !free {
			return false
		}
		if time.Now().After(deadline) {
			return true
		}
		_ = lock.Unlock()
	}
}

// openPipe opens the pipe for reading and writing, so that neither end ever
// sees the other go: a plugin that logs survives its host.
func openPipe(path string, flags int) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|flags, 0)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// socketVariable tells a plugin where to make its socket.
const socketVariable = "PLUGIN_UNIX_SOCKET_DIR"

// socketDir is the directory, made for one process, that the plugin's socket is in.
func socketDir(environments ...[]string) string {
	for _, env := range environments {
		for _, v := range env {
			if dir, ok := strings.CutPrefix(v, socketVariable+"="); ok && strings.HasPrefix(filepath.Base(dir), socketDirPrefix) {
				return dir
			}
		}
	}
	return ""
}

const socketDirPrefix = "drover-plugin-"
