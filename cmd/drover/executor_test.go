package main

import (
	"context"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/session"
	"github.com/drover-run/drover/gateway"
	"github.com/drover-run/drover/internal/freeport"
	"github.com/drover-run/drover/internal/roles"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/internal/tokens"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/runtest"
)

// TestStart_executor_with_a_wrong_token gives an executor an unknown token, then one of a
// tenant, then one that is valid.
func TestStart_executor_with_a_wrong_token(t *testing.T) {
	t.Parallel()
	known, err := tokens.NewList([]tokens.Token{
		{Name: "acme-ci", Hash: tokens.Hash("acme-ci"), Roles: roles.Bindings{{Role: roles.Submitter, Groups: []string{"/acme/**"}}}},
		{Name: "linux", Hash: tokens.Hash("linux"), Scopes: []tokens.Scope{tokens.Executor}},
	})
	require.NoError(t, err)
	g, err := gateway.New(gateway.Deps{
		Runs: &runtest.Service{}, Auth: known, Logger: slog.New(slog.DiscardHandler),
		ExecutorAPI: &runtest.ExecutorAPI{
			RegisterFunc:    func(context.Context, run.Executor) (run.DesiredState, error) { return run.DesiredState{}, nil },
			RenewFunc:       func(context.Context, run.Renewal) (run.DesiredState, error) { return run.DesiredState{}, nil },
			ClaimStatesFunc: func(context.Context, string, []run.Key) (map[run.Key]run.ClaimState, error) { return nil, nil },
		},
	}, gateway.Options{})
	require.NoError(t, err)
	server := httptest.NewServer(g.Handler())
	t.Cleanup(server.Close)

	dir := t.TempDir()
	port, err := freeport.On(t.Context(), "127.0.0.1")
	require.NoError(t, err)
	telemetry := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	token := writeTo(t, dir, "token", "other\n")
	config := writeTo(t, dir, "drover.yaml", settingsFile(t, map[string]any{
		"telemetry.listen": telemetry, "temporal.address": "127.0.0.1:1", "executor.pool": "linux", "executor.driver": "shell",
		"executor.state_dir": filepath.Join(dir, "state"), "executor.shim_path": testenv.BuildShim(t), "executor.gateway_url": server.URL,
		"executor.token_file": token,
	}))
	out, err := os.Create(filepath.Join(dir, "out"))
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan command.ExitCode, 1)
	go func() {
		env := session.Env{Stdout: out, Stderr: out, LookupEnv: func(string) (string, bool) { return "", false }}
		ended <- command.Execute(ctx, rootCommand(env), []string{"start", "executor", "--config", config})
	}()
	awaitHealth := func(want string) {
		testenv.Await(t, func() (bool, string) {
			_, _, stderr := execute(t, "health", "--url", "http://"+telemetry+"/readyz")
			return strings.Contains(stderr, want), stderr
		})
		text, err := os.ReadFile(out.Name())
		require.NoError(t, err)
		require.Regexp(t, `level=ERROR msg="failed to register executor" .*`+want+`.*a token with the scope executor`, string(text))
	}
	awaitHealth("the bearer token is not known")
	writeTo(t, dir, "token", "acme-ci\n")
	awaitHealth("token acme-ci has roles in groups")
	writeTo(t, dir, "token", "linux\n")
	testenv.Await(t, func() (bool, string) {
		text, err := os.ReadFile(out.Name())
		require.NoError(t, err)
		return strings.Contains(string(text), "ready: executor "), string(text)
	})
	stop()
	require.Zero(t, testenv.Receive(t, ended))
	require.NoError(t, out.Close())
}
