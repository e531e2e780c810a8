//go:build !noembedded

package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/session"
	"github.com/drover-run/drover/internal/testenv"
)

// startTemporal runs an embedded Temporal server until the test ends, and returns its
// address.
func startTemporal(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	env := session.Env{Stdout: in, Stderr: io.Discard, LookupEnv: func(string) (string, bool) { return "", false }}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		command.Execute(ctx, rootCommand(env), []string{"start", "temporal", "--data-dir", t.TempDir(), "--temporal", "127.0.0.1:0", "--temporal-ui", ""})
		_ = in.Close()
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	var namespace, address string
	_, err := fmt.Fscanf(out, "ready: temporal serves namespace %s at %s\n", &namespace, &address)
	require.NoError(t, err)
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return address
}

// TestStart_listeners starts each process while one of its addresses is in use: it ends
// with the reason, and has not announced itself before.
func TestStart_listeners(t *testing.T) {
	t.Parallel()
	temporal, shim := startTemporal(t), testenv.BuildShim(t)
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, taken.Close()) })
	inUse := taken.Addr().String()
	for name, tc := range map[string]struct {
		args     []string
		settings map[string]any // besides the usual ones
	}{
		"gateway":                {args: []string{"start", "gateway", "--listen", inUse}},
		"relay of the gateway":   {args: []string{"start", "gateway"}, settings: map[string]any{"gateway.relay": true, "relay.listen": inUse}},
		"control":                {args: []string{"start", "control"}, settings: map[string]any{"telemetry.listen": inUse}},
		"fleet worker":           {args: []string{"start", "fleet-worker"}, settings: map[string]any{"telemetry.listen": inUse}},
		"relay":                  {args: []string{"start", "relay", "--listen", inUse}},
		"telemetry of the relay": {args: []string{"start", "relay"}, settings: map[string]any{"telemetry.listen": inUse}},
		"executor":               {args: []string{"start", "executor"}, settings: map[string]any{"telemetry.listen": inUse}},
		"temporal":               {args: []string{"start", "temporal", "--temporal", inUse}},
		"web UI of temporal":     {args: []string{"start", "temporal", "--temporal-ui", inUse}},
		"dev":                    {args: []string{"dev", "--http", inUse}},
		"telemetry of dev":       {args: []string{"dev"}, settings: map[string]any{"telemetry.listen": inUse}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			settings := map[string]any{
				"records.path": filepath.Join(dir, "records.db"), "blobs.url": "file://" + filepath.Join(dir, "blobs"), "temporal.address": temporal,
				"gateway.listen": "127.0.0.1:0", "relay.listen": "127.0.0.1:0", "relay.token_file": writeTo(t, dir, "tokens.yaml", "[]\n"),
				"relay.key_file": filepath.Join(dir, "relay.keys"), "fleet.state_dir": filepath.Join(dir, "fleets"),
				"executor.pool": "linux", "executor.driver": "shell", "executor.state_dir": filepath.Join(dir, "executor"), "executor.shim_path": shim,
				"executor.gateway_url": "http://" + inUse, "executor.token": "t",
				"dev.data_dir": filepath.Join(dir, "dev"), "dev.http": "127.0.0.1:0", "dev.temporal": "127.0.0.1:0", "dev.temporal_ui": "", "dev.executors": []string{"none"},
			}
			_, _, stderr := execute(t, "keys", "create", "relay", "--file", filepath.Join(dir, "relay.keys"))
			require.Empty(t, stderr)
			maps.Copy(settings, tc.settings)
			code, stdout, stderr := execute(t, append(tc.args, "--config", writeTo(t, dir, "drover.yaml", settingsFile(t, settings)))...)
			require.NotZero(t, code)
			require.NotContains(t, stdout, "ready: ")
			require.Regexp(t, `(?s)`+regexp.QuoteMeta(inUse)+`.* in use`, stderr)
		})
	}
}
