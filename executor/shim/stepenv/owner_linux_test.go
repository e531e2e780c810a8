package stepenv_test

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/executor/shim/process"
	"github.com/drover-run/drover/executor/shim/stepenv"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

// swapping exchanges two names continuously, until the returned function is called,
// as a step does that attacks the shim through a symbolic link.
func swapping(t *testing.T, one, other string) (stop func()) {
	t.Helper()
	done := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, one, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE)
			}
		}
	})
	return func() {
		close(done)
		group.Wait()
	}
}

// attempts is the number of tries of a race; without the fix a few hundred suffice.
const attempts = 20_000

func requireRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		testenv.HostLacks(t, "root, to give files to another user")
	}
}

func TestMakeDir_changes_the_owner_of_its_own_directories_only(t *testing.T) {
	t.Parallel()
	requireRoot(t)
	dir := t.TempDir()
	location, link, victim := filepath.Join(dir, "place"), filepath.Join(dir, "link"), filepath.Join(dir, "victim")
	require.NoError(t, os.Mkdir(location, 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(victim, "inner"), 0o755))
	require.NoError(t, os.Symlink(victim, link))
	held, err := os.Open(location)
	require.NoError(t, err)
	defer func() { require.NoError(t, held.Close()) }()
	owner := process.Account{Other: true, UID: 12345, GID: 12345}

	stop := swapping(t, location, link)
	defer stop()
	for range attempts {
		_ = stepenv.MakeDir(filepath.Join(location, "inner"), owner) // fails if it detects the exchange
		_ = unix.Unlinkat(int(held.Fd()), "inner", unix.AT_REMOVEDIR)
		info, err := os.Stat(filepath.Join(victim, "inner"))
		require.NoError(t, err)
		require.Zero(t, info.Sys().(*syscall.Stat_t).Uid, "the directory of another was given to the user of the steps")
	}
}

func TestMakeDir_changes_the_owner_of_all_created_directories(t *testing.T) {
	t.Parallel()
	requireRoot(t)
	dir := t.TempDir()
	require.NoError(t, stepenv.MakeDir(filepath.Join(dir, "a", "b"), process.Account{Other: true, UID: 12345, GID: 12345}))
	for _, name := range []string{"a", "a/b"} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.EqualValues(t, 12345, info.Sys().(*syscall.Stat_t).Uid)
	}
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Zero(t, info.Sys().(*syscall.Stat_t).Uid, "it was there before")
}

func TestReadOutputs_follows_no_symlink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	secret := rand.Text()
	outputs, link, victim := filepath.Join(dir, "out"), filepath.Join(dir, "link"), filepath.Join(dir, "victim")
	require.NoError(t, os.WriteFile(outputs, []byte("key=mine\n"), 0o600))
	require.NoError(t, os.WriteFile(victim, []byte("key="+secret+"\n"), 0o600))
	require.NoError(t, os.Symlink(victim, link))
	stop := swapping(t, outputs, link)
	defer stop()
	for range attempts {
		values, err := stepenv.ReadOutputs(outputs, run.MaxOutputBytes)
		if err == nil {
			require.NotEqual(t, secret, values["key"], "the shim followed a link of the step")
		}
	}
}

func TestReadOutputs_of_special_files(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	require.NoError(t, os.WriteFile(target, []byte("key=value\n"), 0o600))
	for name, put := range map[string]func(path string) error{
		"a link":      func(path string) error { return os.Symlink(target, path) },
		"a pipe":      func(path string) error { return unix.Mkfifo(path, 0o600) },
		"a directory": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, put(path))
		_, err := stepenv.ReadOutputs(path, run.MaxOutputBytes)
		require.ErrorContains(t, err, "not a regular file", name)
	}
	values, err := stepenv.ReadOutputs(filepath.Join(dir, "absent"), run.MaxOutputBytes)
	require.NoError(t, err)
	require.Empty(t, values)
}
