// Package shell runs tasks as processes of the host. Each task has a directory
// of its own and a shim in a session of its own, which outlives the executor.
// Steps run as the executor's user, so the driver is for trusted tasks.
package shell

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"runtime"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/gitstore"
	"github.com/drover-run/drover/executor/shim/journal"
	"github.com/drover-run/drover/executor/shim/process"
	"github.com/drover-run/drover/executor/shim/session"
	"github.com/drover-run/drover/executor/shim/stepenv"
	"github.com/drover-run/drover/internal/keylock"
	"github.com/drover-run/drover/run"
)

// Name is the name of the driver.
const Name = "shell"

// DefaultPath is PATH in tasks unless Options.Environment sets it.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Options configures a Driver.
type Options struct {
	// StateDir is the directory for the driver's state; required. The driver
	// creates the directories tasks and trash in it, accessible only to its
	// user.
	StateDir string
	// ShimPath is the drover-shim binary for this host; required.
	ShimPath string
	// Environment is the base of the tasks' environment; the tasks' own
	// variables override it. The executor's environment is not inherited. PATH,
	// HOME, USER, LOGNAME, SHELL and LANG get defaults if they are missing
	// here. TMPDIR is a directory of the task.
	Environment map[string]string
	// SecretsDir is a directory in memory for the secret files of tasks; the
	// driver creates a directory of its own in it, accessible only to its user.
	// "" means /dev/shm, or else the user's runtime directory. If none is in
	// memory, the driver refuses tasks with secret files.
	SecretsDir string
	// GitStores configures the object stores for checkouts with reuse.
	GitStores gitstore.Options
	// Logger receives messages for operators; nil discards them.
	Logger *slog.Logger
}

// Driver is the shell driver.
type Driver struct {
	tasks    string // one directory for each key
	trash    string // directories being removed
	secrets  secretsRoot
	shim     string
	base     map[string]string
	userName string
	log      *slog.Logger
	watcher  *journal.Watcher
	locks    keylock.Locks[run.Key]
	stores   gitStores
	prepare  *gitstore.Stores // decides about stores

	children children
}

var _ executor.Driver = (*Driver)(nil)

// New returns a driver on its state directory. Errors: CodeNotSupported on
// Windows, CodeInvalid if an option is missing.
func New(o Options) (*Driver, error) {
	if runtime.GOOS == "windows" {
		return nil, run.Errorf(run.CodeNotSupported, "the shell driver does not run on Windows")
	}
	if o.StateDir == "" || o.ShimPath == "" {
		return nil, run.Errorf(run.CodeInvalid, "the shell driver needs a state directory and the path of drover-shim")
	}
	state, err := filepath.Abs(o.StateDir)
	if err != nil {
		return nil, fmt.Errorf("find the state directory: %w", err)
	}
	binary, err := filepath.Abs(o.ShimPath)
	if err != nil {
		return nil, fmt.Errorf("find drover-shim: %w", err)
	}
	d := &Driver{
		tasks: filepath.Join(state, "tasks"), trash: filepath.Join(state, "trash"), shim: binary,
		log: o.Logger, watcher: new(journal.Watcher),
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	d.secrets = findSecretsRoot(o.SecretsDir, state)
	d.base, d.userName = baseEnvironment(o.Environment)
	d.stores = gitStores{dir: filepath.Join(state, "git"), shim: binary, env: stepenv.List(d.base)}
	d.prepare = gitstore.New(d.stores, o.GitStores, d.log)
	for _, dir := range []string{d.tasks, d.trash} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("create the state directory: %w", err)
		}
	}
	d.secrets.removeOrphans(d.tasks)
	return d, nil
}

func baseEnvironment(given map[string]string) (env map[string]string, userName string) {
	env = map[string]string{"PATH": DefaultPath, "HOME": "/", "LANG": "C.UTF-8", "SHELL": "/bin/sh"}
	if u, err := user.Current(); err == nil {
		userName = u.Username
		env["USER"], env["LOGNAME"], env["HOME"] = u.Username, u.Username, u.HomeDir
	}
	maps.Copy(env, given)
	return env, userName
}

// Close releases the driver's resources. Tasks keep running, and the driver may
// be used again.
func (d *Driver) Close() error {
	d.children.reap()
	return d.watcher.Close()
}

// Features implements executor.Driver.
func (d *Driver) Features() executor.Features {
	_, err := process.LookPath("git", d.base["PATH"], "/")
	return executor.Features{
		Name: Name, Copy: true, Archives: true, SecretFiles: d.secrets.dir != "", Exec: session.Supported, Checkouts: err == nil,
	}
}

// Check implements executor.Driver. The shim must be executable and the state
// directory writable.
func (d *Driver) Check(context.Context) error {
	info, err := os.Stat(d.shim)
	switch {
	case err != nil:
		return run.Errorf(run.CodeUnavailable, "drover-shim is missing: %w", err)
	case info.IsDir() || info.Mode()&0o111 == 0:
		return run.Errorf(run.CodeUnavailable, "%s is not executable", d.shim)
	}
	probe, err := os.CreateTemp(d.trash, "check-*")
	if err != nil {
		return run.Errorf(run.CodeUnavailable, "the state directory can not be written: %w", err)
	}
	if err := errors.Join(probe.Close(), os.Remove(probe.Name())); err != nil {
		return run.Errorf(run.CodeUnavailable, "the state directory can not be written: %w", err)
	}
	return nil
}

// List implements executor.Driver.
func (d *Driver) List(context.Context) ([]run.Key, error) {
	entries, err := os.ReadDir(d.tasks)
	if err != nil {
		return nil, run.Errorf(run.CodeUnavailable, "list the tasks: %w", err)
	}
	keys := make([]run.Key, 0, len(entries))
	for _, e := range entries {
		if key, err := run.ParseKey(e.Name()); err == nil {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// Attach implements executor.Driver.
func (d *Driver) Attach(_ context.Context, key run.Key) (executor.Handle, error) {
	h := d.handle(key)
	_, err := os.Stat(h.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, run.Errorf(run.CodeNotFound, "there is no environment of task %s", key)
	case err != nil:
		return nil, run.Errorf(run.CodeUnavailable, "find task %s: %w", key, err)
	}
	return h, nil
}

func (d *Driver) handle(key run.Key) *handle {
	return &handle{driver: d, key: key, dir: filepath.Join(d.tasks, key.String())}
}
