//go:build unix

package bootstrap_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/drover-run/drover/fleeting"
	"github.com/drover-run/drover/fleeting/bootstrap"
	"github.com/drover-run/drover/internal/testenv"
)

func TestStart_wrong_host_key(t *testing.T) {
	t.Parallel()
	other := testenv.StartSSHD(t)
	line := func(address string, key ssh.PublicKey) string { return knownhosts.Line([]string{address}, key) + "\n" }
	for name, set := range map[string]func(w *env){
		"remembered": func(w *env) { w.target.HostKey = string(ssh.MarshalAuthorizedKey(other.HostKey)) },
		"listed": func(w *env) {
			w.options.HostKeys = bootstrap.HostKeys{Policy: bootstrap.KnownHosts, File: w.file("known_hosts", line(w.Address, other.HostKey))}
		},
		"not listed": func(w *env) {
			w.options.HostKeys = bootstrap.HostKeys{Policy: bootstrap.KnownHosts, File: w.file("known_hosts", line("h.example", w.HostKey))}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			set(w)
			fault := w.startError(bootstrap.StepConnect)
			require.Equal(t, bootstrap.ReasonHostKey, fault.Reason)
			require.Equal(t, w.Address, fault.Host)
			require.False(t, fault.Retryable())
			require.ErrorContains(t, fault, ssh.FingerprintSHA256(w.HostKey))
			require.Empty(t, w.tokens, "no credential was created for it")
			require.NoDirExists(t, w.dir)
			log, err := os.ReadFile(w.Log)
			require.NoError(t, err)
			require.NotContains(t, string(log), "Accepted", "no authentication was attempted")
		})
	}
}

func TestStart_known_hosts(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	for _, line := range []string{knownhosts.Line([]string{w.Address}, w.HostKey), knownhosts.Line([]string{knownhosts.HashHostname(knownhosts.Normalize(w.Address))}, w.HostKey)} {
		w.options.HostKeys = bootstrap.HostKeys{Policy: bootstrap.KnownHosts, File: w.file("known_hosts", line+"\n")}
		_, err := w.start(t.Context())
		require.NoError(t, err)
	}
	require.NoError(t, w.stop())
}

// The key of a host is stored before any credential is sent to the host.
func TestStart_stores_the_host_key(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	kept := ""
	w.target.StoreHostKey = func(_ context.Context, key string) error { kept = key; return errors.New("the disk is full") }
	fault := w.startError(bootstrap.StepConnect)
	require.Equal(t, bootstrap.ReasonLocal, fault.Reason)
	require.True(t, fault.Retryable())
	require.Equal(t, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(w.HostKey))), kept)
	log, err := os.ReadFile(w.Log)
	require.NoError(t, err)
	require.NotContains(t, string(log), "Accepted")

	w.options.HostKeys.Policy = bootstrap.Insecure
	w.target.HostKey, w.target.StoreHostKey = string(ssh.MarshalAuthorizedKey(testenv.StartSSHD(t).HostKey)), nil
	_, err = w.start(t.Context())
	require.NoError(t, err)
	require.NoError(t, w.stop())
}

func TestStart_wrong_credentials(t *testing.T) {
	t.Parallel()
	other := testenv.StartSSHD(t)
	for name, set := range map[string]func(c *fleeting.ConnectInfo){
		"password": func(c *fleeting.ConnectInfo) { c.Key, c.Password = nil, rand.Text() },
		"key":      func(c *fleeting.ConnectInfo) { c.Key = other.Key },
		"both":     func(c *fleeting.ConnectInfo) { c.Key, c.Password = other.Key, rand.Text() },
		"neither":  func(c *fleeting.ConnectInfo) { c.Key = nil },
		"no key":   func(c *fleeting.ConnectInfo) { c.Key = []byte("no key") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			set(&w.target.Connect)
			fault := w.startError(bootstrap.StepConnect)
			require.Equal(t, bootstrap.ReasonAuth, fault.Reason, "%v", fault)
			require.False(t, fault.Retryable())
			if password := w.target.Connect.Password; password != "" {
				require.NotContains(t, fault.Error(), password)
			}
		})
	}
}

// A wrong password does not matter if the key is right.
func TestStart_key_or_password(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.target.Connect.Password = rand.Text()
	_, err := w.start(t.Context())
	require.NoError(t, err)
	require.NoError(t, w.stop())
}

func TestStart_ready_command(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.options.Ready = "echo 'the disk is not there'; echo 'nor is the network' >&2; exit 7"
	fault := w.startError(bootstrap.StepReady)
	require.Equal(t, bootstrap.ReasonCommand, fault.Reason)
	require.Equal(t, 7, fault.ExitCode)
	require.False(t, fault.Retryable())
	require.Contains(t, fault.Output, "the disk is not there")
	require.ErrorContains(t, fault, "bootstrap i-1 at "+w.Address+": ready: exit code 7: the ready command failed; the last lines were:\n")
	require.Empty(t, w.processes(), "no executor runs on a host that is not ready")

	w.options.Ready, w.options.ReadyTimeout = "sleep 60", 50*time.Millisecond
	fault = w.startError(bootstrap.StepReady)
	require.Equal(t, bootstrap.ReasonTimeout, fault.Reason)
	require.ErrorContains(t, fault, "the ready command took longer than 50ms")

	w.options.Ready, w.options.ReadyTimeout = "kill -9 $$", 0
	fault = w.startError(bootstrap.StepReady)
	require.Equal(t, bootstrap.ReasonCommand, fault.Reason)
	require.ErrorContains(t, fault, "ended by signal KILL")
}

func TestStart_unreachable(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.Kill()
	w.target.Connect.Timeout = 100 * time.Millisecond
	fault := w.startError(bootstrap.StepConnect)
	require.Equal(t, bootstrap.ReasonUnreachable, fault.Reason)
	require.True(t, fault.Retryable())
	require.ErrorIs(t, fault, syscall.ECONNREFUSED)

	// Start retries until the machine answers.
	w.target.Connect.Timeout = time.Minute
	began, ended := make(chan struct{}), make(chan error, 1)
	w.target.Progress = func(s bootstrap.Step) {
		if s == bootstrap.StepConnect {
			close(began)
		}
	}
	go func() {
		_, err := w.start(t.Context())
		ended <- err
	}()
	<-began
	w.Start()
	require.NoError(t, <-ended)
	w.target.Progress = nil
	require.NoError(t, w.stop())
}

func TestStart_permanent_failures(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		set    func(w *env)
		step   bootstrap.Step
		reason bootstrap.Reason
		text   string
	}{
		"expired": {func(w *env) { w.target.Connect.Expires = time.Now().Add(-time.Second) }, bootstrap.StepConnect, bootstrap.ReasonExpired, "connect info expired"},
		"winrm":   {func(w *env) { w.target.Connect.Protocol = "winrm" }, bootstrap.StepConnect, bootstrap.ReasonUnsupported, "only ssh is supported, not winrm"},
		"nowhere": {func(w *env) { w.target.Connect.InternalAddr = "" }, bootstrap.StepConnect, bootstrap.ReasonUnsupported, "returned no address"},
		"os":      {func(w *env) { w.target.Connect.OS = "plan9" }, bootstrap.StepProbe, bootstrap.ReasonUnsupported, "the plugin reports plan9"},
		"no worker": {
			func(w *env) { w.options.Binaries = &bootstrap.Binaries{Dir: t.TempDir()} }, bootstrap.StepUpload, bootstrap.ReasonUnsupported, "no worker for " + runtime.GOOS,
		},
		"directory": {func(w *env) { w.options.Dir = "/tmp/a b" }, bootstrap.StepProbe, bootstrap.ReasonUnsupported, "plain absolute path"},
		"credential": {func(w *env) {
			w.target.Credential = func(context.Context) (string, error) { return "", errors.New("no key") }
		}, bootstrap.StepConfigure, bootstrap.ReasonLocal, "create the credential: no key"},
		"disk": {func(w *env) {
			require.NoError(w.t, os.MkdirAll(w.dir, 0o700))
			require.NoError(w.t, os.WriteFile(filepath.Join(w.dir, "bin"), nil, 0o600))
		}, bootstrap.StepUpload, bootstrap.ReasonCommand, "mkdir"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			tt.set(w)
			fault := w.startError(tt.step)
			require.Equal(t, tt.reason, fault.Reason)
			require.ErrorContains(t, fault, tt.text)
		})
	}
}

// The error contains the output of an executor that does not register.
func TestStart_not_registered(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.options.RegisterTimeout = time.Second
	w.options.Binaries.Drover = w.file("drover", "#!/bin/sh\necho 'the gateway does not know the token'\nexit 1\n")
	w.target.Registered = func(context.Context) (bool, error) {
		_, err := os.Stat(w.at("executor.log"))
		return false, err
	}
	fault := w.startError(bootstrap.StepRegister)
	require.Equal(t, bootstrap.ReasonTimeout, fault.Reason)
	require.True(t, fault.Retryable())
	require.ErrorContains(t, fault, "the executor did not register within 1s")
	require.ErrorContains(t, fault, "the gateway does not know the token")
	require.NoError(t, w.stop())
}

// Other users of the host cannot read secrets.
func TestStart_shows_no_secret(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	var seen strings.Builder
	stop := testenv.Watch(t, 2*time.Millisecond, func() {
		lists, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, list := range lists {
			if line, err := os.ReadFile(list); err == nil && bytes.Contains(line, []byte("drover_")) {
				seen.Write(line)
			}
		}
	})
	_, err := w.start(t.Context())
	stop()
	require.NoError(t, err)
	require.NotContains(t, seen.String(), w.tokens[0])
	require.NoError(t, w.stop())
}
