package run

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Variables that Drover sets in the environment of every step.
const (
	VariablePrefix      = "DROVER_" // prefix of names that specifications may not use
	VariableRunID       = "DROVER_RUN_ID"
	VariableRunCounter  = "DROVER_RUN_COUNTER"
	VariableRunGroup    = "DROVER_RUN_GROUP"
	VariableTaskName    = "DROVER_TASK_NAME"
	VariableTaskAttempt = "DROVER_TASK_ATTEMPT"
	VariableOutput      = "DROVER_OUTPUT" // set by the shim
)

// MinMasked is the length of the shortest secret that is masked in logs, in
// bytes: masking shorter ones would make logs unreadable and hide nothing.
const MinMasked = 3

// Define returns the definition of a task: all that an executor needs to run
// the key, secrets included. header is the run's specification; its tasks are
// not used and may be nil. t is the specification of the task. The result
// shares only lists with them, which are never changed.
func Define(header *Spec, t *TaskSpec, x ExpandedTask, key Key, counter int64) Definition {
	d := Definition{
		Key: key, RunName: header.Name, RunGroup: header.Group, RunCounter: counter, Task: x.Name,
		Image: t.Image, PullPolicy: cmp.Or(t.PullPolicy, PullIfNotPresent), Platform: t.Platform,
		Services: t.Services, WorkingDir: t.WorkingDir, Shell: t.Shell, User: t.User, Privileged: t.Privileged,
		Resources: t.Resources, Volumes: t.Volumes, Timeout: t.Timeout.Std(), Grace: StopGrace,
		Environment: environment(header, t, x, key, counter),
		SecretFiles: secretFiles(header),
		Secrets:     masked(header.Secrets),
		Auth:        auth(header),
		Steps:       make([]StepDef, len(t.Steps)),
	}
	if len(header.SecretsFrom) > 0 {
		d.SecretsFrom, d.Registries = header.SecretsFrom, header.Registries
		if header.Untrusted { // an older version accepted and stored it
			d.Fault = faultUntrusted
		}
	}
	if len(d.Shell) == 0 {
		d.Shell = DefaultShell()
	}
	for i, s := range t.Steps {
		d.Steps[i] = StepDef{
			Name: s.Name, Script: s.Run, Environment: s.Environment, WorkingDir: s.WorkingDir,
			Timeout: s.Timeout.Std(), When: cmp.Or(s.When, WhenOnSuccess),
			ArchiveStep: s.ArchiveStep,
		}
	}
	return d
}

// Supply adds the secrets that SecretsFrom names, by name. They are used like
// the run's own secrets.
func (d *Definition) Supply(secrets map[string]Secret) {
	for name, secret := range secrets {
		if _, file := d.SecretFiles[name]; file {
			d.SecretFiles[name] = secret.Reveal()
		} else {
			d.Environment[name] = secret.Reveal()
		}
	}
	d.Secrets = longestFirst(append(slices.Clone(d.Secrets), masked(secrets)...))
	for host, r := range d.Registries {
		if password, ok := secrets[r.PasswordSecret]; ok {
			d.Auth[host] = Auth{Username: r.Username, Password: password.Reveal()}
		}
	}
}

func environment(header *Spec, t *TaskSpec, x ExpandedTask, key Key, counter int64) map[string]string {
	env := make(map[string]string)
	maps.Copy(env, header.Environment)
	maps.Copy(env, t.Environment)
	maps.Copy(env, x.Axis)
	for name, secret := range header.Secrets {
		env[name] = secret.Reveal()
	}
	for _, name := range header.SecretFiles {
		delete(env, name) // the shim sets it to the path of the file
	}
	env[VariableRunID] = string(key.Run)
	env[VariableRunCounter] = strconv.FormatInt(counter, 10)
	env[VariableRunGroup] = header.Group
	env[VariableTaskName] = x.Name
	env[VariableTaskAttempt] = strconv.Itoa(key.Attempt)
	return env
}

// secretFiles returns the contents of the secrets that are files. Those that
// Supply adds are empty until then.
func secretFiles(header *Spec) map[string]string {
	if len(header.SecretFiles) == 0 {
		return nil
	}
	files := make(map[string]string, len(header.SecretFiles))
	for _, name := range header.SecretFiles {
		files[name] = header.Secrets[name].Reveal()
	}
	return files
}

// masked returns the texts to mask, longest first, so that a text is masked
// before any text that it contains. Logs consist of lines, so each line of a
// secret of several lines is a text of its own.
func masked(secrets map[string]Secret) []string {
	var out []string
	add := func(s string) {
		if len(s) >= MinMasked {
			out = append(out, s)
		}
	}
	for _, secret := range secrets {
		value := secret.Reveal()
		add(value)
		if strings.Contains(strings.TrimSpace(value), "\n") {
			for line := range strings.Lines(value) {
				add(strings.TrimSpace(line))
			}
		} else if trimmed := strings.TrimSpace(value); trimmed != value {
			add(trimmed)
		}
	}
	return longestFirst(out)
}

func longestFirst(texts []string) []string {
	slices.SortFunc(texts, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b))
	})
	return slices.Compact(texts)
}

func auth(header *Spec) map[string]Auth {
	if len(header.Registries) == 0 {
		return nil
	}
	out := make(map[string]Auth, len(header.Registries))
	for host, r := range header.Registries {
		out[host] = Auth{Username: r.Username, Password: header.Secrets[r.PasswordSecret].Reveal()}
	}
	return out
}
