package stepenv

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/drover-run/drover/executor/shim/process"
	"github.com/drover-run/drover/run"
)

// writeSecrets writes the secrets that are files, readable by the user of the steps
// only. The directory must be in memory, also if another component created it:
// secrets never reach a disk.
func (e *Env) writeSecrets() error {
	files, dir := e.Order.Definition.SecretFiles, e.Order.SecretsDir
	if len(files) == 0 {
		return nil
	}
	if dir == "" || !process.InMemory(dir) {
		return errors.New("secrets as files need a directory in memory, and there is none here")
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := e.writeSecret(filepath.Join(dir, name), files[name]); err != nil {
			return fmt.Errorf("write the secret %s as a file: %w", name, process.Plain(err))
		}
	}
	// If another component created the directory, as a cluster does for a shim that is
	// not root, the environment has no other user.
	location, err := process.OpenDir(dir)
	if err != nil {
		return fmt.Errorf("open the directory of the secrets: %w", err)
	}
	defer func() { _ = location.Close() }()
	_ = location.Chmod(0o700)
	return e.User.Own(location)
}

func (e *Env) writeSecret(path, content string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o400)
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	return errors.Join(err, e.User.Own(f), f.Close())
}

// dropSecrets removes those files after the processes of the task have ended.
func (e *Env) dropSecrets() {
	for name := range e.Order.Definition.SecretFiles {
		if dir := e.Order.SecretsDir; dir != "" {
			_ = os.Remove(filepath.Join(dir, name)) // the removal of the environment removes what is left
		}
	}
}

// secretPaths returns the variables of the secrets that are files.
func secretPaths(o run.ShimSpec) map[string]string {
	paths := make(map[string]string, len(o.Definition.SecretFiles))
	for name := range o.Definition.SecretFiles {
		paths[name] = filepath.Join(o.SecretsDir, name)
	}
	return paths
}
