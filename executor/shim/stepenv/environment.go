package stepenv

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/drover-run/drover/executor/shim/process"
	"github.com/drover-run/drover/run"
)

// defaultPath is PATH if neither the environment nor the task sets it.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Variables returns the variables of a step: those of the environment, the task, the
// step and Drover. outputs is the path of the file for its outputs.
func (e *Env) Variables(step run.StepDef, outputs string) map[string]string {
	d := e.Order.Definition
	env := map[string]string{"PATH": defaultPath, "HOME": e.User.Home}
	if e.User.Name != "" {
		env["USER"] = e.User.Name
	}
	maps.Copy(env, e.Order.BaseEnvironment)
	maps.Copy(env, d.Environment)
	maps.Copy(env, secretPaths(e.Order))
	maps.Copy(env, step.Environment)
	if e.checksOut() && env["GIT_CONFIG_COUNT"] == "" {
		// Git refuses work trees of other users: the checkout may have another one.
		maps.Copy(env, map[string]string{"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"})
	}
	maps.Copy(env, map[string]string{
		run.VariableRunID:       string(d.Key.Run),
		run.VariableRunCounter:  strconv.FormatInt(d.RunCounter, 10),
		run.VariableRunGroup:    d.RunGroup,
		run.VariableTaskName:    d.Task,
		run.VariableTaskAttempt: strconv.Itoa(d.Key.Attempt),
		run.VariableOutput:      outputs,
	})
	return env
}

// List returns variables in the form of os/exec.
func List(env map[string]string) []string {
	out := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out = append(out, name+"="+env[name])
	}
	return out
}

// WorkingDir returns the directory of a step and creates it if it is missing. A
// relative directory is relative to the next outer one.
func (e *Env) WorkingDir(step run.StepDef) (string, error) {
	dir := string(filepath.Separator)
	for _, d := range []string{e.Order.WorkingDir, e.Order.Definition.WorkingDir, step.WorkingDir} {
		switch {
		case d == "":
		case filepath.IsAbs(d):
			dir = d
		default:
			dir = filepath.Join(dir, d)
		}
	}
	return dir, MakeDir(dir, e.User)
}

// MakeDir creates a directory and its parents, all owned by the account.
func MakeDir(dir string, owner process.Account) error {
	info, err := os.Stat(dir)
	switch {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return fmt.Errorf("%s is not a directory", dir)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("look for the working directory: %w", err)
	}
	if above := filepath.Dir(dir); above != dir {
		if err := MakeDir(above, owner); err != nil {
			return err
		}
	}
	if err := owner.MakeIn(filepath.Dir(dir), filepath.Base(dir)); err != nil {
		return fmt.Errorf("create the working directory: %w", err)
	}
	return nil
}
