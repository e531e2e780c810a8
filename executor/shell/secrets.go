package shell

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/drover-run/drover/executor/shim/process"
	"github.com/drover-run/drover/run"
)

// secretsRoot is the directory for secret files. It is in memory, belongs to
// this driver, and has one subdirectory for each task. Its name is derived from
// the state directory, so that the next process finds it.
type secretsRoot struct{ dir string } // "" if no directory is in memory

// createTries is how often create recreates the driver's own directory after
// another process found it empty and removed it.
const createTries = 3

// findSecretsRoot returns the place in the given directory, or else in a
// standard one, if the directory is in memory.
func findSecretsRoot(given, state string) secretsRoot {
	candidates := []string{"/dev/shm", filepath.Join("/run/user", strconv.Itoa(os.Getuid()))}
	if given != "" {
		candidates = []string{given}
	}
	sum := sha256.Sum256([]byte(state))
	const short = 8
	name := fmt.Sprintf("drover-%d-%s", os.Getuid(), hex.EncodeToString(sum[:short]))
	for _, dir := range candidates {
		if process.InMemory(dir) {
			return secretsRoot{dir: filepath.Join(dir, name)}
		}
	}
	return secretsRoot{}
}

// taskDir returns the directory of a task.
func (p secretsRoot) taskDir(key run.Key) string { return filepath.Join(p.dir, key.String()) }

// create creates the directory of a task. Other users may write to the parent of
// the driver's own directory, so it refuses a directory of another owner or
// mode.
func (p secretsRoot) create(key run.Key) error {
	var err error
	for range createTries {
		if err = os.Mkdir(p.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return run.Errorf(run.CodeUnavailable, "create the directory of secrets: %w", err)
		}
		info, statErr := os.Lstat(p.dir)
		if statErr == nil && (!info.IsDir() || info.Mode().Perm() != 0o700 || !isOwn(info)) {
			return run.Errorf(run.CodeInvalid, "%s, where secrets as files would lie, is not the executor's own", p.dir)
		}
		err = os.Mkdir(p.taskDir(key), 0o700)
		if err == nil || errors.Is(err, fs.ErrExist) {
			return nil
		}
	}
	return run.Errorf(run.CodeUnavailable, "create the directory of the task's secrets: %w", err)
}

// remove removes the secrets of a task, and the driver's own directory after
// the last of them.
func (p secretsRoot) remove(key run.Key) error {
	if p.dir == "" {
		return nil
	}
	if err := os.RemoveAll(p.taskDir(key)); err != nil {
		return fmt.Errorf("remove the task's secrets: %w", err)
	}
	_ = os.Remove(p.dir) // fails if secrets of other tasks exist
	return nil
}

// removeOrphans removes the secrets of tasks whose directories do not exist, for example
// after a user deleted the state directory.
func (p secretsRoot) removeOrphans(tasks string) {
	if p.dir == "" {
		return
	}
	entries, _ := os.ReadDir(p.dir) // usually empty
	for _, e := range entries {
		key, err := run.ParseKey(e.Name())
		if err != nil {
			continue
		}
		if _, err := os.Lstat(filepath.Join(tasks, e.Name())); errors.Is(err, fs.ErrNotExist) {
			_ = p.remove(key) // the next process retries
		}
	}
}
