//go:build unix

package shell

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// lockFD is the file descriptor of the shim's lock, after stdin, stdout and
// stderr.
const lockFD = 3

// spawn starts the shim in a session of its own. Apart from being its parent,
// this process has no connection to it.
func spawn(path string, args []string, dir string, stdin, lock *os.File) (_ *os.Process, err error) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, null.Close()) }()
	log, err := os.OpenFile(filepath.Join(dir, logFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	argv := append(append([]string{path}, args...), "--lock-fd", strconv.Itoa(lockFD))
	return os.StartProcess(path, argv, &os.ProcAttr{
		Dir:   dir,
		Env:   []string{"GOMAXPROCS=1"}, // the shim mostly waits
		Files: []*os.File{stdin, null, log, lock},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
}

// reaped reaps a child if it has ended, and reports whether it has.
func reaped(p *os.Process) bool {
	pid, err := syscall.Wait4(p.Pid, nil, syscall.WNOHANG, nil)
	if pid == 0 && err == nil || errors.Is(err, syscall.EINTR) {
		return false
	}
	_ = p.Release()
	return true
}
