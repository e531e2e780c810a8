package cli_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/cli"
	"github.com/drover-run/drover/cli/clitest"
	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/session"
)

// execute runs the command line in this process.
func execute(t *testing.T, server string, change func(*session.Env), args ...string) (code command.ExitCode, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	env := session.Env{Stdout: &out, Stderr: &errs, Location: time.UTC, LookupEnv: func(name string) (string, bool) {
		v, ok := map[string]string{"DROVER_SERVER": server, "DROVER_TOKEN": clitest.Token}[name]
		return v, ok
	}}
	if change != nil {
		change(&env)
	}
	code = command.Execute(t.Context(), cli.New(env), args)
	return code, out.String(), errs.String()
}

func specFile(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "spec.yaml")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

const hello = "name: hello\ngroup: /test/hello\ntasks: {only: {steps: [{run: 'echo hello'}]}}\n"

func TestRun_too_large(t *testing.T) {
	t.Parallel()
	g := clitest.New(t)
	for _, size := range []int{9 << 20, 33 << 20} {
		code, stdout, stderr := execute(t, g.URL, nil, "run", specFile(t, bytes.Repeat([]byte("# x\n"), size/4)))
		require.Equal(t, command.ExitInvalid, code)
		require.Empty(t, stdout)
		require.Contains(t, stderr, "8388608")
	}
}

func TestRun_without_an_answer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		panic(http.ErrAbortHandler)
	}))
	defer server.Close()
	code, _, stderr := execute(t, server.URL, nil, "run", specFile(t, []byte(hello)))
	require.Equal(t, command.ExitNoAccess, code)
	require.Contains(t, stderr, "check whether the run was submitted with drover runs list")
	code, _, stderr = execute(t, server.URL, nil, "run", specFile(t, []byte(hello)), "--idempotency-key", "k")
	require.Equal(t, command.ExitNoAccess, code)
	require.Contains(t, stderr, "submit the run again with the same --idempotency-key")
	_, _, stderr = execute(t, server.URL, nil, "runs", "restart", "run-1")
	require.Contains(t, stderr, "check whether the run was restarted with drover runs get run-1")
	_, _, stderr = execute(t, server.URL, nil, "runs", "restart", "run-1", "--idempotency-key", "k")
	require.Contains(t, stderr, "repeat the restart with the same --idempotency-key")
}

func TestRun_loses_the_gateway(t *testing.T) {
	t.Parallel()
	g := clitest.New(t)
	g.Pause()
	type result struct {
		code   command.ExitCode
		stderr string
	}
	done := make(chan result, 1)
	path := specFile(t, []byte(hello))
	go func() {
		code, _, stderr := execute(t, g.URL, func(e *session.Env) { e.RetryTimeout = 50 * time.Millisecond }, "run", path, "--follow")
		done <- result{code, stderr}
	}()
	require.True(t, g.AwaitRequest("GET /api/v1/events", 1))
	g.SetUnavailable(true)
	r := <-done
	require.Equal(t, command.ExitNoAccess, r.code)
	require.Contains(t, r.stderr, "run run-1 continues: drover runs get run-1 --follow")
}

func TestRun_on_a_terminal(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		vars map[string]string
		args []string
		has  []string
		not  []string
	}{
		{name: "live", has: []string{"\x1b[?25l", "\x1b[32m ✓ only", "only | hello", "finished: success"}, not: []string{"only running on"}},
		{name: "without colours", vars: map[string]string{"NO_COLOR": "1"}, has: []string{"\x1b[?25l", " ✓ only"}, not: []string{"\x1b[32m"}},
		{name: "a locale without Unicode", vars: map[string]string{"LC_ALL": "C"}, has: []string{" + only"}, not: []string{"✓"}},
		{name: "dumb", vars: map[string]string{"TERM": "dumb"}, has: []string{"only running on"}, not: []string{"\x1b"}},
		{name: "plain", args: []string{"--plain"}, has: []string{"only running on"}, not: []string{"\x1b["}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := clitest.New(t)
			code, stdout, stderr := execute(t, g.URL, func(e *session.Env) {
				e.IsTerminal = func() bool { return true }
				lookup := e.LookupEnv
				e.LookupEnv = func(name string) (string, bool) {
					if v, ok := tt.vars[name]; ok {
						return v, true
					}
					return lookup(name)
				}
			}, append([]string{"run", specFile(t, []byte(hello)), "--follow"}, tt.args...)...)
			require.Equal(t, command.ExitOK, code, stderr)
			for _, text := range tt.has {
				require.Contains(t, stdout, text)
			}
			for _, text := range tt.not {
				require.NotContains(t, stdout, text)
			}
		})
	}
}
