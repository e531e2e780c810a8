package shim

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

// VariableOutput names the file that a step may write its outputs to.
const VariableOutput = "DROVER_OUTPUT"

// environment returns the variables of a step: those of the environment, the task,
// the step and Drover.
func environment(o run.ShimSpec, owner process.Account, step run.StepDef, outputs string) map[string]string {
	d := o.Definition
	env := map[string]string{"PATH": defaultPath, "HOME": owner.Home}
	if owner.Name != "" {
		env["USER"] = owner.Name
	}
	maps.Copy(env, o.BaseEnvironment)
	maps.Copy(env, d.Environment)
	maps.Copy(env, secretPaths(o))
	maps.Copy(env, step.Environment)
	maps.Copy(env, map[string]string{
		"DROVER_RUN_ID":       string(d.Key.Run),
		"DROVER_RUN_COUNTER":  strconv.FormatInt(d.RunCounter, 10),
		"DROVER_RUN_GROUP":    d.RunGroup,
		"DROVER_TASK_NAME":    d.Task,
		"DROVER_TASK_ATTEMPT": strconv.Itoa(d.Key.Attempt),
		VariableOutput:        outputs,
	})
	return env
}

// list returns the variables in the form of os/exec.
func list(env map[string]string) []string {
	out := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out = append(out, name+"="+env[name])
	}
	return out
}

// workingDir returns the directory of a step and creates it if it is missing. A
// relative directory is relative to the next outer one.
func workingDir(o run.ShimSpec, owner process.Account, step run.StepDef) (string, error) {
	dir := string(filepath.Separator)
	for _, d := range []string{o.WorkingDir, o.Definition.WorkingDir, step.WorkingDir} {
		switch {
		case d == "":
		case filepath.IsAbs(d):
			dir = d
		default:
			dir = filepath.Join(dir, d)
		}
	}
	return dir, makeDir(dir, owner)
}

// makeDir creates a directory and its parents, all owned by the account.
func makeDir(dir string, owner process.Account) error {
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
		if err := makeDir(above, owner); err != nil {
			return err
		}
	}
	if err := owner.MakeIn(filepath.Dir(dir), filepath.Base(dir)); err != nil {
		return fmt.Errorf("create the working directory: %w", err)
	}
	return nil
}
