//go:build unix

package testenv

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/drover-run/drover/internal/freeport"
)

// SSHD is a real OpenSSH server on loopback, for the user of the tests.
type SSHD struct {
	Address string
	User    string
	Key     []byte        // private key of the user, in PEM
	HostKey ssh.PublicKey // of the server
	Log     string        // what it logs

	t       testing.TB
	command []string
	cmd     *exec.Cmd
	done    chan struct{}
}

// StartSSHD starts an SSH server with keys of its own. If no server is installed,
// the test is skipped, or fails if DROVER_REQUIRE names sshd.
func StartSSHD(t testing.TB) *SSHD {
	t.Helper()
	Use(t, "sshd")
	program, err := findSSHD()
	if err != nil {
		Missing(t, "sshd", err.Error(), "install openssh-server; it need not run")
	}
	dir := t.TempDir()
	account, err := user.Current()
	if err != nil {
		t.Fatalf("look up the user: %v", err)
	}
	port, err := freeport.On(t.Context(), "127.0.0.1")
	if err != nil {
		t.Fatalf("find a port for sshd: %v", err)
	}
	s := &SSHD{t: t, Address: fmt.Sprintf("127.0.0.1:%d", port), User: account.Username, Log: filepath.Join(dir, "sshd.log")}
	hostKey, host := newSSHKey(t)
	key, allowed := newSSHKey(t)
	s.Key, s.HostKey = key, host
	writeFile(t, filepath.Join(dir, "host_key"), hostKey)
	writeFile(t, filepath.Join(dir, "authorized_keys"), ssh.MarshalAuthorizedKey(allowed))
	config := fmt.Sprintf(`ListenAddress %s
HostKey %s/host_key
AuthorizedKeysFile %s/authorized_keys
PidFile none
StrictModes no
UsePAM no
PermitRootLogin yes
PasswordAuthentication yes
MaxStartups 100
LogLevel VERBOSE
Subsystem sftp internal-sftp
`, s.Address, dir, dir)
	writeFile(t, filepath.Join(dir, "sshd_config"), []byte(config))
	s.command = []string{program, "-D", "-f", filepath.Join(dir, "sshd_config"), "-E", s.Log}
	t.Cleanup(s.Kill)
	s.Start()
	return s
}

// findSSHD returns the path of the server, which may be outside the PATH of users.
// As root, it also creates the directory that the server requires.
func findSSHD() (string, error) {
	program, err := exec.LookPath("sshd")
	if err != nil {
		program, err = exec.LookPath("/usr/sbin/sshd")
	}
	if err == nil && os.Geteuid() == 0 {
		err = os.MkdirAll("/run/sshd", 0o755)
	}
	return program, err
}

// Start starts the server again, after Kill.
func (s *SSHD) Start() {
	s.t.Helper()
	s.cmd = exec.Command(s.command[0], s.command[1:]...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatalf("start sshd: %v", err)
	}
	done, cmd := make(chan struct{}), s.cmd
	s.done = done
	go func() {
		defer close(done)
		_ = cmd.Wait()
	}()
	Await(s.t, func() (bool, string) {
		ctx, cancel := context.WithTimeout(s.t.Context(), time.Second)
		defer cancel()
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.Address)
		if err != nil {
			log, _ := os.ReadFile(s.Log)
			return false, fmt.Sprintf("sshd does not answer: %v\n%s", err, log)
		}
		_ = c.Close()
		return true, ""
	})
}

// Kill kills the server and the processes of its connections.
func (s *SSHD) Kill() {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	for _, child := range childrenOf(s.cmd.Process.Pid) {
		_ = syscall.Kill(child, syscall.SIGKILL) // the process may have ended
	}
	_ = s.cmd.Process.Kill()
	<-s.done
}

// childrenOf returns the ids of the running descendants of a process.
func childrenOf(pid int) []int {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	var children []int
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue
		}
		for field := range strings.FieldsSeq(string(text)) {
			var child int
			if _, err := fmt.Sscan(field, &child); err == nil {
				children = append(append(children, child), childrenOf(child)...)
			}
		}
	}
	return children
}

func newSSHKey(t testing.TB) (private []byte, public ssh.PublicKey) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatalf("create a key: %v", err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatalf("encode a key: %v", err)
	}
	if public, err = ssh.NewPublicKey(key.Public()); err != nil {
		t.Fatalf("encode a key: %v", err)
	}
	return pem.EncodeToMemory(block), public
}

func writeFile(t testing.TB, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatalf("prepare sshd: %v", err)
	}
}
