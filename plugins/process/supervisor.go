//go:build linux

package process

import (
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

// SupervisorCommand is the hidden command of the plugin that runs Supervise.
const SupervisorCommand = "keep-instance"

const exitSupervisor = 125 // the supervisor itself failed

// Supervise runs the command of one instance. Its arguments are the instance's
// directory, the stop timeout of the command, and the command. It outlives the
// plugin. When the command ends, and on SIGTERM, it also ends all processes
// that the command started. It returns an exit code.
func Supervise(args []string, stderr io.Writer) int {
	if len(args) < 3 {
		_, _ = fmt.Fprintln(stderr, "supervisor: usage: directory, stop timeout and command")
		return exitSupervisor
	}
	timeout, err := time.ParseDuration(args[1])
	if err == nil {
		err = supervise(args[0], timeout, args[2:])
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "supervisor:", err)
		return exitSupervisor
	}
	return 0
}

func supervise(dir string, timeout time.Duration, argv []string) error {
	// The handler must be installed before another process can read the pid.
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	signal.Ignore(syscall.SIGHUP, syscall.SIGPIPE)
	lock, err := lockInstance(dir)
	if lock == nil || err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	stopped, err := exists(dir, stopFile)
	if err != nil {
		return err
	}
	if stopped {
		return write(dir, endedFile, ended{At: time.Now(), Why: "stopped before it began"})
	}
	// Orphaned processes of the command become children of this process.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the reaper: %w", err)
	}
	// The kernel ends the command when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command(argv[0], argv[1:]...) //nolint:noctx // ended by signals
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return errors.Join(err, write(dir, endedFile, ended{At: time.Now(), Why: fmt.Sprintf("start the command: %v", err)}))
	}
	pid := cmd.Process.Pid
	exited := make(chan string, 1)
	go reap(pid, exited)
	if err := write(dir, startedFile, started{PID: pid, At: time.Now()}); err != nil {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		return err
	}
	why := await(pid, timeout, stop, exited)
	killRemaining()
	return write(dir, endedFile, ended{At: time.Now(), Why: why})
}

// lockInstance makes this process the instance's supervisor. The lock file does
// not exist if the instance was given up before.
func lockInstance(dir string) (*flock.Flock, error) {
	path := filepath.Join(dir, lockFile)
	lock := flock.New(path)
	if err := lock.Lock(); err != nil { // readers hold the lock only briefly
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	over, err := exists(dir, endedFile)
	if err != nil || over {
		_ = lock.Close()
		return nil, err
	}
	if err := os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("write the pid: %w", err)
	}
	return lock, nil
}

// await waits until the command ends. A signal makes it stop the command.
func await(pid int, timeout time.Duration, stop <-chan os.Signal, exited <-chan string) string {
	select {
	case why := <-exited:
		return why
	case <-stop:
	}
	_ = syscall.Kill(pid, syscall.SIGTERM)
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case why := <-exited:
		return "stopped: " + why
	case <-timer.C:
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	<-exited
	return fmt.Sprintf("stopped, and killed after %s", timeout)
}

// reap reaps all children, and sends the exit status of the command.
func reap(command int, exited chan<- string) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil: // no child is left
			return
		case pid == command && status.Signaled():
			exited <- "killed by " + status.Signal().String()
		case pid == command:
			exited <- fmt.Sprintf("exit status %d", status.ExitStatus())
		}
	}
}

// killRemaining kills the remaining processes of the command, including those that
// appear meanwhile. The children of killed processes become children of this
// process.
func killRemaining() {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		left := children()
		if len(left) == 0 {
			return
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		<-tick.C
	}
}

// children lists the children of this process, of all its threads.
func children() []int {
	var pids []int
	files, _ := filepath.Glob("/proc/self/task/*/children")
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for word := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(word); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
