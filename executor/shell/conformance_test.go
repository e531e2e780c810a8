package shell_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/executortest"
	"github.com/drover-run/drover/executor/gitstore"
	"github.com/drover-run/drover/executor/shell"
	"github.com/drover-run/drover/executor/shim/process"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

func open(config string) (executor.Driver, error) {
	var o shell.Options
	if err := json.Unmarshal([]byte(config), &o); err != nil {
		return nil, err
	}
	return shell.New(o)
}

func TestMain(m *testing.M) {
	executortest.Child(open)
	goleak.VerifyTestMain(m)
}

func TestConformance(t *testing.T) {
	t.Parallel()
	repository := executortest.NewRepository(t)
	executortest.Run(t, open, func(t *testing.T) executortest.Harness {
		t.Helper()
		state := t.TempDir()
		memory := memoryDir(t)
		config, err := json.Marshal(shell.Options{
			StateDir: state, ShimPath: testenv.BuildShim(t), SecretsDir: memory,
			GitStores: gitstore.Options{MaxBytes: 1 << 20, IndexFile: filepath.Join(state, "git-stores.json")},
		})
		require.NoError(t, err)
		return executortest.Harness{
			Config: string(config), GitRepository: repository, GitStores: filepath.Join(state, "git"),
			Vanish: func(t testing.TB, key run.Key) {
				t.Helper()
				killed, err := process.Kill(filepath.Join(state, "tasks", key.String()))
				require.NoError(t, err)
				require.True(t, killed)
			},
			Memory: memory,
			Leftovers: func(t testing.TB) []string {
				secrets, err := filepath.Glob(filepath.Join(memory, "*"))
				require.NoError(t, err)
				return append(leftovers(t, state), secrets...)
			},
		}
	})
}

// leftovers returns files in the state directory, and processes whose
// environment or arguments contain its path.
func leftovers(t testing.TB, state string) []string {
	t.Helper()
	var out []string
	for _, dir := range []string{"tasks", "trash"} {
		entries, err := os.ReadDir(filepath.Join(state, dir))
		require.NoError(t, err)
		for _, e := range entries {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	processes, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(t, err)
	for _, p := range processes {
		env, _ := os.ReadFile(filepath.Join(p, "environ"))
		args, _ := os.ReadFile(filepath.Join(p, "cmdline"))
		if bytes.Contains(env, []byte("="+state+"/")) || bytes.Contains(args, []byte(state+"/")) {
			out = append(out, p+" "+strings.ReplaceAll(string(args), "\x00", " "))
		}
	}
	return out
}

// memoryDir returns a directory of the test in memory; "" if the host has none.
func memoryDir(t *testing.T) string {
	t.Helper()
	const memory = "/dev/shm"
	if !process.InMemory(memory) {
		return ""
	}
	dir, err := os.MkdirTemp(memory, "drover-test-*") //nolint:usetesting // in memory
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}
