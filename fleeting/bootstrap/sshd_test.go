//go:build unix

package bootstrap_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/drover-run/drover/fleeting"
	"github.com/drover-run/drover/fleeting/bootstrap"
	"github.com/drover-run/drover/internal/config"
	"github.com/drover-run/drover/internal/testenv"
)

// worker replaces drover: it records its pid and its arguments.
const worker = `#!/bin/sh
echo "$$" >> "$(dirname "$4")/lives"
echo "serving"
trap 'exit 0' TERM
while :; do sleep 1 & wait $!; done
`

// env is an SSH server on loopback, with the options and the target of a
// bootstrap.
type env struct {
	*testenv.SSHD
	t       *testing.T
	dir     string // base directory of the host
	options bootstrap.Options
	target  bootstrap.Target
	tokens  []string
}

func newEnv(t *testing.T) *env {
	t.Helper()
	w := &env{SSHD: testenv.StartSSHD(t), t: t, dir: filepath.Join(t.TempDir(), "host")}
	w.options = bootstrap.Options{
		Executor: bootstrap.Executor{
			Pool: "linux", Driver: "shell", Slots: 2, Gateway: "https://drover.example", Labels: map[string]string{"disk": "ssd"},
			Relay: bootstrap.Relay{Address: "relay.example:7234", CA: []byte("not read here\n"), ServerName: "relay"}, Namespace: "drover",
		},
		Binaries: &bootstrap.Binaries{Drover: w.file("drover", worker), Shim: w.file("drover-shim", "#!/bin/sh\n")},
		Dir:      w.dir, Interval: 20 * time.Millisecond,
	}
	w.target = bootstrap.Target{
		Connect: fleeting.ConnectInfo{
			ID: "i-1", InternalAddr: w.Address, Connector: fleeting.Connector{Protocol: "ssh", Username: w.User, Key: w.Key},
		},
		Executor: "fleet-i-1",
		Credential: func(context.Context) (string, error) {
			w.tokens = append(w.tokens, "drover_"+rand.Text())
			return w.tokens[len(w.tokens)-1], nil
		},
	}
	t.Cleanup(func() {
		for _, pid := range w.processes() {
			_ = syscall.Kill(pid, syscall.SIGKILL) // unless it has exited
		}
	})
	return w
}

// file writes a program to upload.
func (w *env) file(name, content string) string {
	w.t.Helper()
	path := filepath.Join(w.t.TempDir(), name)
	require.NoError(w.t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func (w *env) start(ctx context.Context) (bootstrap.Result, error) {
	w.t.Helper()
	s, err := bootstrap.NewSSH(w.options)
	require.NoError(w.t, err)
	return s.Start(ctx, w.target)
}

func (w *env) stop() error {
	w.t.Helper()
	s, err := bootstrap.NewSSH(w.options)
	require.NoError(w.t, err)
	return s.Stop(w.t.Context(), w.target)
}

// startError calls Start, and returns the failure of the step.
func (w *env) startError(step bootstrap.Step) *bootstrap.Error {
	w.t.Helper()
	_, err := w.start(w.t.Context())
	var fault *bootstrap.Error
	require.ErrorAs(w.t, err, &fault)
	require.Equal(w.t, step, fault.Step, "%v", err)
	require.Equal(w.t, "i-1", fault.Instance)
	return fault
}

// at returns the path of a file of the executor.
func (w *env) at(name string) string { return filepath.Join(w.dir, "executors", "fleet-i-1", name) }

func (w *env) read(name string) string {
	w.t.Helper()
	text, err := os.ReadFile(w.at(name))
	require.NoError(w.t, err)
	return string(text)
}

// processes returns the pids of the supervisor and the executor.
func (w *env) processes() []int {
	var found []int
	lists, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(w.t, err)
	for _, list := range lists {
		line, err := os.ReadFile(list)
		line = bytes.ReplaceAll(line, []byte{0}, []byte(" "))
		if err == nil && (bytes.HasSuffix(line, []byte(w.at("supervise "))) || bytes.HasSuffix(line, []byte(w.at("config.yaml ")))) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(list)))
			require.NoError(w.t, err)
			found = append(found, pid)
		}
	}
	return found
}

// awaitStarts waits until the executor has been started n times in total.
func (w *env) awaitStarts(n int) {
	w.t.Helper()
	testenv.Await(w.t, func() (bool, string) {
		text, err := os.ReadFile(w.at("lives"))
		return err == nil && strings.Count(string(text), "\n") == n && len(w.processes()) == 2,
			fmt.Sprintf("lives:\n%s%v processes, %v", text, w.processes(), err)
	})
}

func TestStart(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	var steps []bootstrap.Step
	w.target.Progress = func(s bootstrap.Step) { steps = append(steps, s) }
	checks := 0
	w.target.Registered = func(context.Context) (bool, error) { checks++; return checks > 2, nil }
	w.options.Ready = "echo ready > " + w.dir + ".ready"

	first, err := w.start(t.Context())
	require.NoError(t, err)
	w.awaitStarts(1)
	require.Equal(t, []bootstrap.Step{
		bootstrap.StepConnect, bootstrap.StepProbe, bootstrap.StepUpload, bootstrap.StepConfigure, bootstrap.StepReady, bootstrap.StepStart, bootstrap.StepRegister,
	}, steps)
	require.Equal(t, bootstrap.Result{
		HostKey: strings.TrimSpace(string(ssh.MarshalAuthorizedKey(w.HostKey))), OS: runtime.GOOS, Arch: runtime.GOARCH, Manager: "process",
		Uploaded: []string{"drover", "drover-shim"}, Started: true,
	}, first)
	require.FileExists(t, w.dir+".ready")
	for name, mode := range map[string]os.FileMode{"token": 0o600, "config.yaml": 0o600, "relay-ca.pem": 0o644} {
		info, err := os.Stat(w.at(name))
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode(), name)
	}
	require.Equal(t, w.tokens[0]+"\n", w.read("token"))
	require.Equal(t, 3, checks)

	// With an unchanged host, Start uploads and restarts nothing.
	w.target.HostKey = first.HostKey
	second, err := w.start(t.Context())
	require.NoError(t, err)
	require.Empty(t, second.Uploaded)
	require.False(t, second.Started)
	w.awaitStarts(1)
	require.Equal(t, w.tokens[1]+"\n", w.read("token"), "the credential is new")

	// A changed configuration needs a restart; a new worker also needs an
	// upload.
	w.options.Executor.Slots = 3
	third, err := w.start(t.Context())
	require.NoError(t, err)
	require.Empty(t, third.Uploaded)
	require.True(t, third.Started)
	w.awaitStarts(2)
	w.options.Binaries = &bootstrap.Binaries{Drover: w.file("drover", worker+"# newer\n"), Shim: w.options.Binaries.Shim}
	fourth, err := w.start(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"drover", "drover-shim"}, fourth.Uploaded, "the shim is in the same directory")
	w.awaitStarts(3)

	require.NoError(t, w.stop())
	require.Empty(t, w.processes())
	require.NoFileExists(t, w.at("token"))
	require.NoFileExists(t, w.at("config.yaml"))
	require.NoError(t, w.stop(), "Stop is idempotent")
}

// Executors can read the written configuration.
func TestStart_writes_a_valid_configuration(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.options.Executor.Privileged, w.options.Executor.RemoveAfter, w.options.Executor.LogLevel = true, 5*time.Minute, "debug"
	_, err := w.start(t.Context())
	require.NoError(t, err)
	cfg, err := config.Load(config.Source{File: w.at("config.yaml")})
	require.NoError(t, err)
	require.NoError(t, cfg.Validate(config.PartExecutor))
	want := config.Default()
	want.Log = config.Log{Level: "debug", Format: "json"}
	want.Temporal.Namespace = "drover"
	want.Executor.ID, want.Executor.Pool, want.Executor.Driver, want.Executor.Slots = "fleet-i-1", "linux", "shell", 2
	want.Executor.Labels, want.Executor.Privileged = map[string]string{"disk": "ssd"}, true
	want.Executor.Temporary, want.Executor.RemoveAfter = true, 5*time.Minute
	want.Executor.StateDir, want.Executor.TokenFile = w.at("state"), w.at("token")
	want.Executor.GatewayURL = "https://drover.example"
	want.Executor.Relay = config.RelayClient{Address: "relay.example:7234", CAFile: w.at("relay-ca.pem"), ServerName: "relay"}
	require.Equal(t, want, cfg)

	w.options.Executor.Relay, w.options.Executor.Temporal = bootstrap.Relay{}, "temporal.example:7233"
	w.options.Executor.Gateway, w.options.Executor.InsecureGateway = "http://10.0.0.1:8080", true
	_, err = w.start(t.Context())
	require.NoError(t, err)
	cfg, err = config.Load(config.Source{File: w.at("config.yaml")})
	require.NoError(t, err)
	require.NoError(t, cfg.Validate(config.PartExecutor))
	require.Equal(t, "temporal.example:7233", cfg.Temporal.Address)
	require.True(t, cfg.Executor.InsecureGateway)
	require.NoError(t, w.stop())
}

// A call that was interrupted at any point is repeated, and the result is one
// executor.
func TestStart_resumes_after_an_interruption(t *testing.T) {
	t.Parallel()
	for _, step := range []bootstrap.Step{
		bootstrap.StepProbe, bootstrap.StepUpload, bootstrap.StepConfigure, bootstrap.StepReady, bootstrap.StepStart, bootstrap.StepRegister,
	} {
		t.Run(string(step), func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			w.options.Ready = ":"
			registered := false
			w.target.Registered = func(context.Context) (bool, error) { return registered, nil }
			errCut := errors.New("cut off")
			ctx, cut := context.WithCancelCause(t.Context())
			w.target.Progress = func(s bootstrap.Step) {
				if s == step {
					cut(errCut)
				}
			}
			_, err := w.start(ctx)
			var fault *bootstrap.Error
			require.ErrorAs(t, err, &fault)
			require.ErrorIs(t, err, errCut)
			require.Equal(t, step, fault.Step)
			require.True(t, fault.Retryable())

			w.target.Progress, registered = nil, true
			_, err = w.start(t.Context())
			require.NoError(t, err)
			w.awaitStarts(1)
			require.NoError(t, w.stop())
		})
	}
}

// The connection breaks during an upload.
func TestStart_repeats_an_interrupted_upload(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	large := worker + "exit\n" + strings.Repeat("# a line that makes the worker longer than a buffer\n", 1_000_000)
	w.options.Binaries.Drover = w.file("drover", large)
	ended := make(chan error, 1)
	go func() {
		_, err := w.start(t.Context())
		ended <- err
	}()
	temps := filepath.Join(w.dir, "bin", "*", ".new-*")
	testenv.Await(t, func() (bool, string) {
		found, err := filepath.Glob(temps)
		require.NoError(t, err)
		return len(found) > 0 || len(ended) > 0, "no upload has begun"
	})
	w.Kill()
	if err := <-ended; err != nil { // otherwise the upload was faster
		var fault *bootstrap.Error
		require.ErrorAs(t, err, &fault)
		require.Equal(t, bootstrap.ReasonLost, fault.Reason)
		require.True(t, fault.Retryable())
	}
	w.Start()
	_, err := w.start(t.Context())
	require.NoError(t, err)
	w.awaitStarts(1)
	left, err := filepath.Glob(temps)
	require.NoError(t, err)
	require.Empty(t, left, "the interrupted upload is removed")
	require.NoError(t, w.stop())
}

// An executor that was removed is not restarted.
func TestStart_does_not_restart_a_removed_executor(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.options.Binaries.Drover = w.file("drover", "#!/bin/sh\nsleep 0.2\nexit 4\n")
	_, err := w.start(t.Context())
	require.NoError(t, err)
	testenv.Await(t, func() (bool, string) { return len(w.processes()) == 0, fmt.Sprint(w.processes()) })
}

// A killed executor is restarted by its supervisor, and a killed supervisor by
// the next call, which does not start a second executor.
func TestStart_after_kills(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	_, err := w.start(t.Context())
	require.NoError(t, err)
	w.awaitStarts(1)
	pid, err := strconv.Atoi(strings.TrimSpace(w.read("lives")))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	w.awaitStarts(2)
	for _, other := range w.processes() {
		if !strings.Contains(w.read("lives"), strconv.Itoa(other)+"\n") {
			require.NoError(t, syscall.Kill(other, syscall.SIGKILL))
		}
	}
	r, err := w.start(t.Context())
	require.NoError(t, err)
	require.True(t, r.Started)
	w.awaitStarts(3)
	require.NoError(t, w.stop())
	require.Empty(t, w.processes())
}
