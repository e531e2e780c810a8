package process

import (
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// Reaper starts processes and waits for them.
type Reaper struct{}

// NewReaper returns a reaper.
func NewReaper() *Reaper { return &Reaper{} }

// Process is the first process of a step.
type Process struct {
	cmd  *exec.Cmd
	Done chan struct{} // closed when it has ended
}

// Start runs a command in a process group of its own.
func (*Reaper) Start(c Command) (*Process, error) {
	cmd := &exec.Cmd{
		Path: c.Path, Args: c.Args, Dir: c.Dir, Env: c.Env, Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr,
		SysProcAttr: &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP},
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{cmd: cmd, Done: make(chan struct{})}
	go func() {
		defer close(p.Done)
		_ = cmd.Wait()
	}()
	return p, nil
}

// Terminate asks the processes of the step to close.
func (*Reaper) Terminate(p *Process) { taskkill(p.cmd.Process.Pid) }

// Kill ends them.
func (*Reaper) Kill(p *Process) {
	taskkill(p.cmd.Process.Pid, "/F")
	_ = p.cmd.Process.Kill()
}

func taskkill(pid int, flags ...string) {
	_ = exec.Command("taskkill", append([]string{"/T", "/PID", strconv.Itoa(pid)}, flags...)...).Run()
}

// Exit returns the exit status.
func (p *Process) Exit() Exit { return Exit{Code: p.cmd.ProcessState.ExitCode()} }

// Sweep does nothing: processes that a step leaves are not found on Windows.
func (*Reaper) Sweep(time.Duration) {}
