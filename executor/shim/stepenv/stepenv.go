// Package stepenv prepares what the steps of a task run with in one container or on a
// host: their user, variables, working directory, script files, files with secrets, and
// the file for their outputs. The shim of the task uses it, and the shim of each helper
// container.
package stepenv

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/drover-run/drover/executor/shim/process"
	"github.com/drover-run/drover/run"
)

// filesDir is the directory in that of the shim for the files of steps that have a user
// of their own.
const filesDir = "steps"

// Env is what the steps of a task run with. It is not safe for concurrent use.
type Env struct {
	Order run.ShimSpec
	// User is the user of the steps.
	User process.Account
	// Files is the directory of the scripts and of the outputs.
	Files string
}

// New finds the user of the steps, and creates the directory for their files and the
// secrets that are files. dir is the directory of the shim. Errors have messages for
// the user of the task.
func New(dir string, order run.ShimSpec) (*Env, error) {
	e := &Env{Order: order, Files: dir}
	name := order.User
	if order.Definition.User != "" {
		name = order.Definition.User
	}
	var err error
	if home := order.BaseEnvironment["HOME"]; name == "" && home != "" {
		e.User = process.Account{Home: home} // all that the user database would contain
	} else if e.User, err = process.LookUpAccount(name); err != nil {
		return nil, err
	}
	if err := e.writeSecrets(); err != nil {
		return nil, err
	}
	if !e.User.Other {
		return e, nil
	}
	e.Files = filepath.Join(dir, filesDir)
	if err := os.MkdirAll(e.Files, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // the user of the steps must get through
		return nil, err
	}
	files, err := process.OpenDir(e.Files)
	if err != nil {
		return nil, err
	}
	defer func() { _ = files.Close() }()
	return e, e.User.Own(files)
}

// Close removes the secrets that are files. The processes of the steps must have ended.
func (e *Env) Close() {
	if e != nil {
		e.dropSecrets()
	}
}

// Prepare writes the script of a step for its attempt-th time. It returns the command
// that runs the script, and the path of the file for its outputs. The command has no
// streams, except for the stdin of a checkout, which the caller closes.
func (e *Env) Prepare(step run.StepDef, n, attempt int) (c process.Command, outputs string, err error) {
	shell := e.Order.Definition.Shell
	if c.Dir, err = e.WorkingDir(step); err != nil {
		return c, "", err
	}
	if step.Checkout != nil {
		return e.prepareCheckout(c, step)
	}
	name := "step-" + strconv.Itoa(n)
	if attempt > 1 { // processes of the earlier attempts may still use its files
		name += "-attempt-" + strconv.Itoa(attempt)
	}
	script := filepath.Join(e.Files, name+process.ScriptSuffix(shell))
	outputs = filepath.Join(e.Files, name+".out")
	for path, content := range map[string]string{script: step.Script, outputs: ""} {
		if err := e.writeFile(path, content); err != nil {
			return c, "", err
		}
	}
	env := e.Variables(step, outputs)
	c.Args = append(append(c.Args, shell...), script)
	c.Env, c.User = List(env), e.User
	c.Path, err = process.LookPath(c.Args[0], env["PATH"], c.Dir)
	return c, outputs, err
}

// writeFile writes a file that belongs to the user of the steps, who alone may read
// it.
func (e *Env) writeFile(path, content string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700) //nolint:gosec // a script
	if err != nil {
		return fmt.Errorf("write the script: %w", err)
	}
	_, err = f.WriteString(content)
	if err := errors.Join(err, e.User.Own(f), f.Close()); err != nil {
		return fmt.Errorf("write the script: %w", err)
	}
	return nil
}

// ShareWorkingDir creates the working directory of the task, and lets all users write
// to it: the steps in helper containers may have other users. It leaves a directory that the
// user of this process may not change, a persistent volume, for which see OpenVolumes, and a
// path of the host.
func (e *Env) ShareWorkingDir() error {
	dir, err := e.WorkingDir(run.StepDef{})
	if err != nil || slices.ContainsFunc(e.Order.Definition.Volumes, func(v run.Volume) bool { return v.Lasting() && path.Clean(v.Path) == path.Clean(dir) }) {
		return err
	}
	if err := share(dir); err != nil {
		return fmt.Errorf("share the working directory: %w", err)
	}
	return nil
}

// OpenVolumes lets all users write to the persistent volumes that are as they were created, and
// empty: the steps of later tasks may have other users. What a task has set remains.
func (e *Env) OpenVolumes() error {
	for _, v := range e.Order.Definition.Volumes {
		if v.Name == "" || v.ReadOnly {
			continue
		}
		if err := openVolume(path.Clean(v.Path)); err != nil {
			return fmt.Errorf("open the volume %s: %w", v.Name, err)
		}
	}
	return nil
}

// openVolume lets all users write to the root directory of a new volume. The driver has
// refused links on the way to it.
func openVolume(dir string) error {
	opened, err := process.OpenDir(dir)
	if err != nil {
		return err
	}
	defer func() { _ = opened.Close() }()
	const created = fs.ModeDir | 0o755
	info, err := opened.Stat()
	if err != nil || info.Mode() != created || !process.OwnedByRoot(info) {
		return err
	}
	if _, err := opened.Readdirnames(1); !errors.Is(err, io.EOF) {
		return err
	}
	return opened.Chmod(all)
}

// all are the permissions of a directory to which all users may write.
const all = 0o777

// share lets all users write to a directory, unless the user of this process may not change it.
func share(dir string) error {
	opened, err := process.OpenDir(dir)
	if err != nil {
		return err
	}
	defer func() { _ = opened.Close() }()
	if info, err := opened.Stat(); err != nil || info.Mode().Perm() == all {
		return err
	}
	if err := opened.Chmod(all); err != nil && !errors.Is(err, os.ErrPermission) {
		return err
	}
	return nil
}
