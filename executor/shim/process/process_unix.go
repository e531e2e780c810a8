//go:build unix

package process

import (
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// Reaper starts processes and waits for them and, if this process is the first of
// its container or a subreaper, for orphans. It replaces os/exec, whose waiting
// would race with it.
type Reaper struct {
	mu      sync.Mutex
	running map[int]*Process
	groups  []int // that outlived their first process, if orphans are not adopted
	reaped  chan struct{}
}

// NewReaper starts to wait for children, for the rest of the process.
func NewReaper() *Reaper {
	r := &Reaper{running: make(map[int]*Process), reaped: make(chan struct{}, 1)}
	adoptOrphans()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGCHLD)
	go func() {
		for range signals {
			r.reap()
		}
	}()
	return r
}

// Process is the first process of a group of its own.
type Process struct {
	pid    int
	Done   chan struct{} // closed when it has ended
	status syscall.WaitStatus
}

// Start runs a command in a process group of its own.
func (r *Reaper) Start(c Command) (*Process, error) {
	attr := &syscall.ProcAttr{
		Dir:   c.Dir,
		Env:   c.Env,
		Files: []uintptr{c.Stdin.Fd(), c.Stdout.Fd(), c.Stderr.Fd()},
		Sys:   &syscall.SysProcAttr{Setpgid: !c.Session, Setsid: c.Session, Setctty: c.Terminal, Credential: c.User.credential()},
	}
	r.mu.Lock() // until the process is registered: it may end at once
	defer r.mu.Unlock()
	pid, err := syscall.ForkExec(c.Path, c.Args, attr)
	if err != nil {
		return nil, &os.PathError{Op: "fork/exec", Path: c.Path, Err: err}
	}
	exposeToOOM(pid)
	p := &Process{pid: pid, Done: make(chan struct{})}
	r.running[pid] = p
	return p, nil
}

// reap collects ended processes, and reports whether a child is left.
func (r *Reaper) reap() (left bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return false // ECHILD
		case pid == 0:
			return true
		}
		if p := r.running[pid]; p != nil && (status.Exited() || status.Signaled()) {
			delete(r.running, pid)
			p.status = status
			if !adoptsOrphans && syscall.Kill(-pid, 0) == nil {
				r.groups = append(r.groups, pid)
			}
			close(p.Done)
		}
		select {
		case r.reaped <- struct{}{}:
		default:
		}
	}
}

// Terminate asks the group of the process to end. It has an effect only until the
// process was reaped: later its number may belong to another process.
func (r *Reaper) Terminate(p *Process) { r.signal(p, syscall.SIGTERM) }

// Kill kills the group of the process, also only until the process was reaped.
func (r *Reaper) Kill(p *Process) { r.signal(p, syscall.SIGKILL) }

func (r *Reaper) signal(p *Process, s syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running[p.pid] == p {
		_ = syscall.Kill(-p.pid, s)
	}
}

// Exit returns the exit status by the convention of shells: 128 plus the number of
// the signal that killed the process.
func (p *Process) Exit() Exit {
	if p.status.Signaled() {
		s := p.status.Signal()
		return Exit{Code: 128 + int(s), Signal: s.String(), Killed: s == syscall.SIGKILL}
	}
	return Exit{Code: p.status.ExitStatus()}
}

// Sweep ends all processes that the steps have left: SIGTERM, and SIGKILL after the
// grace. It costs one system call if none is left.
func (r *Reaper) Sweep(grace time.Duration) {
	for _, step := range []struct {
		signal  syscall.Signal
		timeout time.Duration
	}{{syscall.SIGTERM, grace}, {syscall.SIGKILL, killTimeout}} {
		if r.gone() {
			return
		}
		timer := time.NewTimer(step.timeout)
		r.signalLeft(step.signal)
		for waiting := true; waiting && !r.gone(); {
			look := time.NewTimer(reapPoll)
			select {
			case <-r.reaped:
			case <-look.C: // a process forked meanwhile, or a group without a child of ours
				if step.signal == syscall.SIGKILL {
					r.signalLeft(step.signal)
				}
			case <-timer.C:
				waiting = false
			}
			look.Stop()
		}
		timer.Stop()
	}
}

// gone reports whether no process of the steps is left.
func (r *Reaper) gone() bool {
	if r.reap() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, group := range r.groups {
		if err := syscall.Kill(-group, 0); err == nil || errors.Is(err, syscall.EPERM) {
			return false
		}
	}
	r.groups = nil
	return true
}

func (r *Reaper) signalLeft(s syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, group := range r.groups {
		_ = syscall.Kill(-group, s)
	}
	for _, pid := range descendants() {
		_ = syscall.Kill(pid, s)
	}
}

const (
	// killTimeout bounds the wait for killed processes: one that survives SIGKILL
	// hangs in the kernel.
	killTimeout = 2 * time.Second
	// reapPoll is the poll interval for processes that are not children.
	reapPoll = 20 * time.Millisecond
)
