package shim

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// reaper starts processes and waits for them.
type reaper struct{}

func newReaper() *reaper { return &reaper{} }

// process is the first process of a step.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// start runs a command in a process group of its own.
func (*reaper) start(c command) (*process, error) {
	cmd := &exec.Cmd{
		Path: c.path, Args: c.args, Dir: c.dir, Env: c.env, Stdin: c.stdin, Stdout: c.stdout, Stderr: c.stderr,
		SysProcAttr: &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP},
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		_ = cmd.Wait()
	}()
	return p, nil
}

// terminate asks the processes of the step to close.
func (*reaper) terminate(p *process) { taskkill(p.cmd.Process.Pid) }

// kill ends them.
func (*reaper) kill(p *process) {
	taskkill(p.cmd.Process.Pid, "/F")
	_ = p.cmd.Process.Kill()
}

func taskkill(pid int, flags ...string) {
	_ = exec.Command("taskkill", append([]string{"/T", "/PID", strconv.Itoa(pid)}, flags...)...).Run()
}

func (p *process) exit() exit { return exit{code: p.cmd.ProcessState.ExitCode()} }

// sweep does nothing: processes that a step leaves are not found on Windows.
func (*reaper) sweep(time.Duration) {}

// account is the user of the steps: always the user of this process.
type account struct {
	other      bool
	name, home string
}

func (account) own(*os.File) error { return nil }

func (account) makeIn(above, name string) error {
	err := os.Mkdir(filepath.Join(above, name), 0o755)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

func openDir(path string) (*os.File, error) { return os.Open(path) }

func openRegular(path string) (*os.File, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errNotRegular
	}
	return os.Open(path)
}

func lookUpAccount(text string) (account, error) {
	if text != "" {
		return account{}, errors.New("steps can not run as another user on Windows")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = `C:\`
	}
	return account{home: home}, nil
}

func executable(path string) (string, bool) {
	found, err := exec.LookPath(path)
	return found, err == nil
}

// scriptSuffix returns the extension of a script, by which the shells of Windows
// detect its type.
func scriptSuffix(shell []string) string {
	switch strings.TrimSuffix(strings.ToLower(filepath.Base(shell[0])), ".exe") {
	case "cmd":
		return ".cmd"
	case "powershell", "pwsh":
		return ".ps1"
	}
	return ".sh"
}
