package kill

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/test/harness"
)

// TestStop_while_starting stops processes that wait for others at their start.
// They exit without an error.
func TestStop_while_starting(t *testing.T) {
	t.Parallel()
	for part, env := range map[string]func(dir string) []string{
		"executor": func(dir string) []string {
			token := filepath.Join(dir, "token")
			require.NoError(t, os.WriteFile(token, []byte("none"), 0o600))
			return []string{
				"DROVER_EXECUTOR__POOL=shell", "DROVER_EXECUTOR__DRIVER=shell", "DROVER_EXECUTOR__GATEWAY_URL=http://" + harness.FreeAddress(t),
				"DROVER_EXECUTOR__TOKEN_FILE=" + token, "DROVER_EXECUTOR__STATE_DIR=" + filepath.Join(dir, "state"),
			}
		},
		"control": func(string) []string { return nil },
		"gateway": func(string) []string { return []string{"DROVER_GATEWAY__LISTEN=" + harness.FreeAddress(t)} },
	} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			p := harness.Start(t, dir, append(env(dir), "DROVER_TEMPORAL__ADDRESS="+harness.FreeAddress(t),
				"DROVER_BLOBS__URL=mem://", "DROVER_RECORDS__PATH="+filepath.Join(dir, "records.db")), "start", part)
			p.AwaitLog("level=")
			require.True(t, p.Running())
			require.NoError(t, p.Stop())
		})
	}
}

// TestReady submits a run as soon as the readiness check of a new `drover dev`
// succeeds: the pools of its executors exist by then.
func TestReady(t *testing.T) {
	t.Parallel()
	for range 3 {
		dir, address := t.TempDir(), harness.FreeAddress(t)
		p := harness.Start(t, dir, nil, "dev", "--data-dir", filepath.Join(dir, "data"), "--http", address, "--temporal", "127.0.0.1:0",
			"--temporal-ui", "", "--executor", "shell")
		testenv.Await(t, func() (bool, string) {
			answer, err := harness.HTTPClient(t).Get("http://" + address + "/readyz")
			if err != nil {
				return false, err.Error()
			}
			defer func() { _ = answer.Body.Close() }()
			return answer.StatusCode == http.StatusOK, answer.Status
		})
		token, err := os.ReadFile(filepath.Join(dir, "data", "token"))
		require.NoError(t, err)
		client := harness.NewClient(t, "http://"+address, strings.TrimSpace(string(token)))
		status, text, err := client.Do(t.Context(), http.MethodPost, "/api/v1/runs", "application/yaml",
			"name: first\ngroup: /test/ready\ntasks: {a: {pool: shell, steps: [{run: 'true'}]}}\n")
		require.NoError(t, err)
		require.Equal(t, http.StatusCreated, status, text)
		require.NoError(t, p.Stop())
	}
}

// TestDev_address_in_use starts a `drover dev` whose addresses another process has: it
// ends with a line that names the flag.
func TestDev_address_in_use(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	for _, flag := range []string{"--http", "--temporal", "--temporal-ui"} {
		dir := t.TempDir()
		cmd := exec.CommandContext(t.Context(), harness.Drover(t), "dev", "--data-dir", filepath.Join(dir, "data"), "--executor", "none",
			"--http", "127.0.0.1:0", "--temporal", "127.0.0.1:0", "--temporal-ui", "", flag, listener.Addr().String())
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "DROVER_CONTEXT=" + filepath.Join(dir, "context.yaml")}
		out, err := cmd.CombinedOutput()
		require.Error(t, err)
		require.Equal(t, "drover: "+listener.Addr().String()+" is in use by another process: stop it, or choose another address with "+flag+"\n", string(out))
	}
}
