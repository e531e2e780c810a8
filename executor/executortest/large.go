package executortest

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/testenv"
)

const (
	// largeCommits is how many commits LargeRepository has, each with a new file of
	// largeFile bytes in place of an older one.
	largeCommits = 1024
	largeFile    = 1 << 20
	largeFiles   = 10
)

// LargeRepository returns the directory of a bare repository large.git with a history of
// one GiB, of which a depth of 20 commits is about 30 MiB. It is made once and kept in
// the cache directory of the user. Only the soak tests need it: t is skipped otherwise.
func LargeRepository(t testing.TB) string {
	t.Helper()
	testenv.RequireSoak(t)
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	dir := filepath.Join(cache, "drover-test", "large-1")
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	require.NoError(t, os.MkdirAll(filepath.Dir(dir), 0o700))
	made, err := os.MkdirTemp(filepath.Dir(dir), "new-") //nolint:usetesting // it is renamed
	require.NoError(t, err)
	defer func() { _ = os.RemoveAll(made) }()
	git := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir, cmd.Env = made, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		cmd.Stderr = os.Stderr
		return cmd
	}
	require.NoError(t, git("init", "-q", "--bare", "--template=", "-b", "main", "large.git").Run())
	r, w := io.Pipe()
	go func() { w.CloseWithError(writeHistory(w)) }()
	load := git("-C", "large.git", "-c", "core.compression=0", "fast-import", "--quiet")
	load.Stdin = r
	require.NoError(t, load.Run())
	if err := os.Rename(made, dir); err != nil { // another test has made it meanwhile
		require.DirExists(t, dir)
	}
	return dir
}

// writeHistory writes the commits in the form of git fast-import. The content does not
// compress, and is the same in each call.
func writeHistory(to io.Writer) error {
	w := bufio.NewWriterSize(to, largeFile)
	source := rand.NewChaCha8([32]byte{'d'})
	content := make([]byte, largeFile)
	for n := range largeCommits {
		_, _ = source.Read(content)
		fmt.Fprintf(w, "commit refs/heads/main\ncommitter a <a@example.com> %d +0000\ndata <<END\ncommit %d\nEND\n", 1_700_000_000+n, n)
		fmt.Fprintf(w, "M 644 inline file%d\ndata %d\n", n%largeFiles, largeFile)
		if _, err := w.Write(content); err != nil {
			return err
		}
		fmt.Fprintf(w, "\n")
	}
	return w.Flush()
}
