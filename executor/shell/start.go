package shell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/shim/journal"
	"github.com/drover-run/drover/executor/shim/process"
	"github.com/drover-run/drover/internal/retry"
	"github.com/drover-run/drover/run"
)

const (
	logFile = "shim.log"
	workDir = "work"
	tempDir = "tmp"

	// lockTimeout is how long a lock may be held in a directory without a
	// journal: by a process that checks whether it is held, or by a shim that
	// is about to begin.
	lockTimeout = 5 * time.Second
	lockPoll    = time.Millisecond
)

// Start implements executor.Driver. The steps of a key run at most once because
// the shim begins its journal by exclusive create. The shim inherits the lock
// of the directory, so the lock is held from before the shim starts until it
// ends.
func (d *Driver) Start(ctx context.Context, task executor.Task) (executor.Handle, error) {
	if err := d.check(task.Definition); err != nil {
		return nil, err
	}
	key := task.Definition.Key
	unlock, err := d.locks.Lock(ctx, key)
	if err != nil {
		return nil, canceled(ctx)
	}
	defer unlock()

	h := d.handle(key)
	if _, err := os.Stat(h.dir); task.Resume && errors.Is(err, fs.ErrNotExist) {
		return nil, run.Errorf(run.CodeNotFound, "there is no environment of task %s", key)
	}
	for _, dir := range []string{h.dir, filepath.Join(h.dir, workDir), filepath.Join(h.dir, tempDir)} {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, d.giveUp(ctx, h, task, run.Errorf(run.CodeUnavailable, "create the task's directory: %w", err))
		}
	}
	if len(task.Definition.SecretFiles) > 0 {
		if err := d.secrets.create(key); err != nil {
			return nil, d.giveUp(ctx, h, task, err)
		}
	}
	lock, err := h.lock(ctx)
	if err != nil {
		return nil, d.giveUp(ctx, h, task, err)
	}
	if lock == nil {
		return h, nil // the task has begun before
	}
	defer func() { _ = lock.Close() }() // the shim has inherited the lock
	if ctx.Err() != nil {
		return nil, d.giveUp(ctx, h, task, canceled(ctx))
	}
	if task.Log != nil {
		host, _ := os.Hostname()
		task.Log(fmt.Sprintf("running on %s (%s/%s) as %s", host, runtime.GOOS, runtime.GOARCH, d.userName))
	}
	stores := d.prepareStores(ctx, task)
	if ctx.Err() != nil {
		return nil, d.giveUp(ctx, h, task, canceled(ctx))
	}
	first, err := task.Launch()
	if err != nil {
		return nil, d.giveUp(ctx, h, task, run.Errorf(run.CodeOf(err), "record the launch: %w", err))
	}
	if err := d.launch(h, task.Definition, first, stores, lock); err != nil {
		return nil, err
	}
	return h, nil
}

// check refuses what the driver does not support.
func (d *Driver) check(def run.Definition) error {
	refuse := func(feature string) error {
		return run.Errorf(run.CodeInvalid, "the shell driver can not run a task with %s", feature)
	}
	switch {
	case def.Image != "":
		return refuse("an image")
	case len(def.HelperImages()) > 0:
		return refuse("steps that have images of their own")
	case len(def.Services) > 0:
		return refuse("services")
	case def.ServiceNetwork == run.ServiceNetworkOwn:
		return refuse("a network of its services")
	case def.User != "":
		return refuse("a user: steps run as the executor's")
	case def.Privileged:
		return refuse("privileges")
	case def.Platform != "" && def.Platform != runtime.GOOS+"/"+runtime.GOARCH:
		return refuse("platform " + def.Platform + ": this host is " + runtime.GOOS + "/" + runtime.GOARCH)
	case def.Resources != (run.Resources{}):
		return refuse("limits of resources")
	case len(def.Volumes) > 0:
		return refuse("volumes")
	case len(def.Devices) > 0:
		return refuse("devices: steps have those of the host")
	case len(def.ExtraHosts) > 0:
		return refuse("extra hosts")
	case len(def.SecretFiles) > 0 && d.secrets.dir == "":
		return refuse("secrets as files: no directory in memory was found on this host (see executor.secrets_dir)")
	case len(def.Steps) == 0:
		return refuse("no steps")
	}
	return nil
}

// giveUp removes what was created for a task that cannot have begun.
func (d *Driver) giveUp(ctx context.Context, h *handle, task executor.Task, cause error) error {
	if task.Resume || task.Keep {
		return cause
	}
	if err := d.discard(h); err != nil {
		d.log.WarnContext(ctx, "failed to remove a failed environment", "key", h.key.String(), "error", err)
	}
	return cause
}

// lock locks the directory of a task that has not begun. It returns nil if the
// task has begun.
func (h *handle) lock(ctx context.Context) (*os.File, error) {
	for deadline := time.Now().Add(lockTimeout); ; {
		lock, err := process.Lock(h.dir)
		switch {
		case err == nil && journal.Exists(h.dir):
			_ = lock.Close()
			return nil, nil // as documented
		case err == nil:
			return lock, nil
		case !errors.Is(err, process.ErrLocked):
			return nil, run.Errorf(run.CodeUnavailable, "lock the task's directory: %w", err)
		case journal.Exists(h.dir):
			return nil, nil // as documented
		case time.Now().After(deadline):
			return nil, run.Errorf(run.CodeUnavailable, "the directory of task %s is locked, and no task has begun in it", h.key)
		}
		if retry.Sleep(ctx, lockPoll) != nil {
			return nil, canceled(ctx)
		}
	}
}

// launch passes the definition and the lock to a new shim.
func (d *Driver) launch(h *handle, definition run.Definition, first int64, stores map[string]string, lock *os.File) error {
	base := maps.Clone(d.base)
	base["TMPDIR"] = filepath.Join(h.dir, tempDir)
	definition.Auth = nil
	order := run.ShimSpec{
		Version: run.RequiredSpecVersion(&definition), FirstFrame: first, Definition: definition,
		WorkingDir: filepath.Join(h.dir, workDir), BaseEnvironment: base, GitStores: stores,
	}
	if len(definition.SecretFiles) > 0 {
		order.SecretsDir = d.secrets.taskDir(h.key)
	}
	text, err := json.Marshal(order)
	if err != nil {
		return fmt.Errorf("encode the order: %w", err)
	}
	stdin, err := orderFile(h.dir, text)
	if err != nil {
		return run.Errorf(run.CodeUnavailable, "write the order: %w", err)
	}
	defer func() { _ = stdin.Close() }()
	p, err := spawn(d.shim, []string{"run", "--dir", h.dir, "--order", "-", "--host"}, h.dir, stdin, lock)
	if err != nil {
		return run.Errorf(run.CodeUnavailable, "start drover-shim: %w", err)
	}
	d.children.add(h.key, p)
	return nil
}
