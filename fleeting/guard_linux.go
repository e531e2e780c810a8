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
	guardLockFile = "guard.lock" // held by the guard; contains its pid
	logFile       = "log"        // a pipe for the plugin's stderr
	stateFile     = "plugin.json"
)

const (
	guardTimeout = 2 * time.Second
	guardPoll    = 100 * time.Millisecond
	exitGuard    = 125 // the guard itself failed
)

// Guard runs a plugin. Its arguments are the group's directory, the grace
// period, and the plugin with its arguments. It returns an exit code. The guard
// is a process of its own because the kernel's parent-death signal follows the
// thread that created the child, and a host may be replaced. The guard ends the
// plugin once no host has owned the group for the grace period. The kernel ends
// the plugin together with the guard. Only one guard at a time runs in a group.
func Guard(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) < 3 {
		_, _ = fmt.Fprintln(stderr, "plugin guard: usage: directory, grace period and plugin")
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
		return 0, fmt.Errorf("parse the grace period: %w", err)
	}
	lock, err := guardLock(ctx, dir)
	if err != nil {
		return 0, err
	}
	defer func() { _ = lock.Unlock() }()
	// A write to the host must not end the guard if the host has exited.
	signal.Ignore(syscall.SIGPIPE, syscall.SIGHUP)
	// The kernel ends the plugin when this thread ends.
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
	// The guard copies stdout instead of letting the plugin inherit it:
	// children that outlive the plugin must not hold the host's pipe open.
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, fmt.Errorf("make a pipe: %w", err)
	}
	if err := cmd.Start(); err != nil {
		err = fmt.Errorf("start the plugin: %w", err)
		_, _ = fmt.Fprintln(log, err)
		return 0, err
	}
	go relay(stdout, out)
	go func() { orphaned(awaitOrphaned(ctx, filepath.Join(dir, hostLockFile), grace)) }()
	// Not cmd.Wait, which also waits for the readers of the pipes.
	state, err := cmd.Process.Wait()
	if dir := socketDir(cmd.Env, os.Environ()); dir != "" {
		_ = os.RemoveAll(dir)
	}
	if err != nil {
		return 0, fmt.Errorf("wait for the plugin: %w", err)
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return state.ExitCode(), nil
}

// relay copies the plugin's stdout, and continues to read after the host has
// exited.
func relay(to io.Writer, from io.Reader) {
	_, _ = io.Copy(to, from)
	_, _ = io.Copy(io.Discard, from)
}

// guardLock acquires the guard lock of the group and writes the pid of this
// process to it.
func guardLock(ctx context.Context, dir string) (*flock.Flock, error) {
	path := filepath.Join(dir, guardLockFile)
	ctx, cancel := context.WithTimeoutCause(ctx, guardTimeout, errors.New("another plugin runs for this group"))
	defer cancel()
	lock := flock.New(path)
	if _, err := lock.TryLockContext(ctx, guardPoll/5); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if err := os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return nil, fmt.Errorf("write the pid: %w", err)
	}
	return lock, nil
}

var errOrphaned = errors.New("no host drives the group")

// awaitOrphaned returns once no host has held the host lock for the grace
// period.
func awaitOrphaned(ctx context.Context, path string, grace time.Duration) error {
	lock := flock.New(path)
	for ctx.Err() == nil {
		// The kernel releases the lock when the host ends in any way.
		if err := lock.Lock(); err != nil {
			return fmt.Errorf("wait for the end of the host: %w", err)
		}
		_ = lock.Unlock()
		if !staysUnowned(ctx, lock, grace) {
			continue
		}
		// The guard keeps the lock: from now on no host can take the plugin
		// over.
		return errOrphaned
	}
	return ctx.Err()
}

// staysUnowned watches a lock without an owner. It reports whether the lock stayed
// free for the grace period; in that case this process holds the lock.
func staysUnowned(ctx context.Context, lock *flock.Flock, grace time.Duration) bool {
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

// openPipe opens the pipe for reading and writing, so that neither end sees the
// other one close: a plugin that logs survives its host.
func openPipe(path string, flags int) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|flags, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// socketVariable is the variable with the directory for the plugin's socket.
const socketVariable = "PLUGIN_UNIX_SOCKET_DIR"

// socketDir is the directory of the plugin's socket; each process gets its own.
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
