package spec

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/inputs"
)

var variablePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// ValidateRun returns all faults of the specification of a run, in the order of its fields
// and at most MaxFaults and one more; none for a valid specification. It does
// not check pools: see CheckPool and ChoosePool. Its cost grows linearly with
// the size of the specification. A specification with inputs is checked as
// written, and then with its references to inputs replaced.
func ValidateRun(s *run.Spec) []run.Fault {
	l := newFaultList()
	checkSpec(l, s)
	return l.faults
}

// ValidateRunContext is ValidateRun with a context. It returns the cause if ctx ends
// before the validation does.
func ValidateRunContext(ctx context.Context, s *run.Spec) ([]run.Fault, error) {
	return validateRun(ctx, s, inputs.MissingFault)
}

func validateRun(ctx context.Context, s *run.Spec, missing inputs.Missing) ([]run.Fault, error) {
	l := newFaultList()
	l.missing = missing
	l.done = ctx.Done()
	checkSpec(l, s)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("validate the specification: %w", context.Cause(ctx))
	}
	return l.faults, nil
}

func checkSpec(l *faultList, s *run.Spec) {
	if s == nil {
		l.add("", run.FaultRequired, "there is no specification")
		return
	}
	for _, f := range inputs.Check(s, l.missing) {
		l.add(run.Path(f.Path), f.Code, "%s", f.Detail)
	}
	declared := len(l.faults) == 0
	checkContent(l, s)
	if !declared || l.stop() {
		return
	}
	sound := len(l.faults) == 0
	resolved, replaced, faults := inputs.Resolve(s, l.missing)
	for _, f := range faults {
		l.add(run.Path(f.Path), f.Code, "%s", f.Detail)
	}
	if !replaced || len(faults) > 0 || !sound {
		return // of texts with faults, the values of inputs say nothing
	}
	checkContent(l, resolved)
	for i := range l.faults {
		l.faults[i].Detail = "with its inputs replaced: " + l.faults[i].Detail
	}
}

// checkContent checks all but the inputs. References to inputs are text like any
// other, where that is possible.
func checkContent(l *faultList, s *run.Spec) {
	checkHeader(l, s)
	switch {
	case len(s.Tasks) == 0 && len(s.SetupErrors) == 0:
		l.add("tasks", run.FaultRequired, "a run has at least one task")
	case len(s.Tasks) > run.MaxTasks:
		// checkMatrices reports this; thousands of further faults would not
		// help.
	default:
		secrets := s.SecretNames()
		for name, t := range sorted(l, s.Tasks) {
			checkTask(l, name, s, t, secrets)
		}
		checkOrdinary(l, s)
	}
	checkMatrices(l, s)
	before := len(l.faults)
	checkGraph(l, s)
	if l.stop() {
		return // a full list does not show whether the graph is sound
	}
	empty := func(t *run.TaskSpec) bool { return t == nil }
	checkOutputs(l, s, len(l.faults) == before && !slices.ContainsFunc(slices.Collect(maps.Values(s.Tasks)), empty))
}

// ValidateAnnotations returns the faults of a map of annotations.
func ValidateAnnotations(annotations map[string]string) []run.Fault {
	l := newFaultList()
	checkAnnotations(l, annotations)
	return l.faults
}

func checkHeader(l *faultList, s *run.Spec) {
	switch {
	case strings.TrimSpace(s.Name) == "":
		l.add("name", run.FaultRequired, "a run has a name")
	case len(s.Name) > run.MaxNameLength:
		l.add("name", run.FaultOverLimit, "the name has %d bytes; the limit is %d", len(s.Name), run.MaxNameLength)
	case strings.ContainsFunc(s.Name, unicode.IsControl) || !utf8.ValidString(s.Name):
		l.add("name", run.FaultBadFormat, "the name has characters that cannot be shown")
	}
	checkGroup(l, s.Group)
	checkChangeGroups(l, s)
	if s.Priority < 0 || s.Priority > 5 {
		l.add("priority", run.FaultOutOfRange, "the priority is %d; it must be 1 (first) to 5 (last)", s.Priority)
	}
	checkEnum(l, "admission", s.Admission, run.AdmissionAuto, run.AdmissionManual)
	checkEnum(l, "fail_fast.running", s.FailFast.Running, run.FailFastStop, run.FailFastContinue)
	checkAnnotations(l, s.Annotations)
	checkEnvironment(l, "environment", s.Environment)
	for name, secret := range sorted(l, s.Secrets) {
		checkVariable(l, run.Path("secrets").Key(name), name, secret.Reveal())
		if secret == run.HiddenSecret {
			l.add(run.Path("secrets").Key(name), run.FaultBadValue, "it is the placeholder of a value that is hidden: give the value")
		}
	}
	checkSecretRefs(l, s)
	checkUntrustedHosts(l, s)
	secrets := s.SecretNames()
	checkSecretFiles(l, s, secrets)
	checkRegistries(l, s, secrets)
	checkTimeout(l, "timeout", s.Timeout)
	for i, e := range items(l, s.SetupErrors) {
		path := run.Path("setup_errors").Index(i)
		if strings.TrimSpace(e) == "" {
			l.add(path, run.FaultRequired, "a setup error has a text")
		}
		checkText(l, path, e)
	}
}

func checkGroup(l *faultList, group string) {
	elements := strings.Split(group, "/")
	switch {
	case group == "":
		l.add("group", run.FaultRequired, "a run has a group, such as /project/42")
	case len(group) > run.MaxGroupLength:
		l.add("group", run.FaultOverLimit, "the group has %d bytes; the limit is %d", len(group), run.MaxGroupLength)
	case elements[0] != "":
		l.add("group", run.FaultBadFormat, "the group %s does not begin with a slash", quote(group))
	case len(elements) < 3:
		l.add("group", run.FaultBadFormat, "the group %s has one element; it needs at least two, such as /project/42", quote(group))
	case slices.ContainsFunc(elements[1:], func(e string) bool { return e == "" || e == "." || e == ".." }):
		l.add("group", run.FaultBadFormat, "the group %s has an element that is empty or made of dots", quote(group))
	case strings.ContainsFunc(group, unicode.IsControl) || !utf8.ValidString(group):
		l.add("group", run.FaultBadFormat, "the group has characters that cannot be shown")
	}
}

func checkAnnotations(l *faultList, annotations map[string]string) {
	if len(annotations) > run.MaxAnnotations {
		l.add("annotations", run.FaultOverLimit, "there are %d annotations; the limit is %d", len(annotations), run.MaxAnnotations)
		return
	}
	for key, value := range sorted(l, annotations) {
		path := run.Path("annotations").Key(key)
		switch {
		case strings.TrimSpace(key) == "":
			l.add(path, run.FaultRequired, "an annotation has a key")
		case len(key) > run.MaxNameLength:
			l.add(path, run.FaultOverLimit, "the key has %d bytes; the limit is %d", len(key), run.MaxNameLength)
		case strings.ContainsFunc(key, unicode.IsControl) || strings.Contains(key, "=") || !utf8.ValidString(key):
			l.add(path, run.FaultBadFormat, "the key has an equals sign, or characters that cannot be shown")
		}
		if len(value) > run.MaxAnnotationBytes {
			l.add(path, run.FaultOverLimit, "the value has %d bytes; the limit is %d", len(value), run.MaxAnnotationBytes)
		}
		checkText(l, path, value)
	}
}

// checkRegistries checks the registries; secrets are the sorted names of all
// secrets.
func checkRegistries(l *faultList, s *run.Spec, secrets []string) {
	for host, r := range sorted(l, s.Registries) {
		path := run.Path("registries").Key(host)
		if host == "" || strings.ContainsFunc(host, func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) || c == '/' }) {
			l.add(path, run.FaultBadFormat, "%s is not the host of a registry, such as ghcr.io", quote(host))
		}
		checkUsername(l, path, r.Username)
		if r.PasswordSecret == "" {
			l.add(path.Key("password_secret"), run.FaultRequired, "a registry names the secret that holds its password")
		} else if _, known := slices.BinarySearch(secrets, r.PasswordSecret); !known {
			l.add(path.Key("password_secret"), run.FaultUnknownSecret, "there is no secret %s%s", quote(r.PasswordSecret), l.didYouMean(r.PasswordSecret, secrets))
		}
	}
}

// checkUsername checks the user name at a registry.
func checkUsername(l *faultList, path run.Path, name string) {
	if name == "" {
		l.add(path.Key("username"), run.FaultRequired, "a registry has a user name")
	}
	checkText(l, path.Key("username"), name)
}

// checkEnvironment checks the variables of steps. Names of variables of
// services have fewer restrictions.
func checkEnvironment(l *faultList, path run.Path, env map[string]string) {
	for name, value := range sorted(l, env) {
		checkVariable(l, path.Key(name), name, value)
	}
}

func checkVariable(l *faultList, path run.Path, name, value string) {
	switch {
	case !variablePattern.MatchString(name):
		l.add(path, run.FaultBadFormat, "%s is not the name of a variable: letters, digits and underscores, no digit first", quote(name))
	case strings.HasPrefix(name, run.VariablePrefix):
		l.add(path, run.FaultReserved, "names that begin with %s are reserved", run.VariablePrefix)
	}
	checkVariableSize(l, path, name, value)
	checkText(l, path, value)
}

func checkVariableSize(l *faultList, path run.Path, name, value string) {
	if n := len(name) + len("=") + len(value); n >= run.MaxVariableBytes {
		l.add(path, run.FaultOverLimit, "the variable has %d bytes; it must have less than %d", n, run.MaxVariableBytes)
	}
}

// checkText rejects text that a process or a database cannot hold.
func checkText(l *faultList, path run.Path, s string) {
	switch {
	case strings.Contains(s, "\x00"):
		l.add(path, run.FaultBadFormat, "it has a NUL byte")
	case !utf8.ValidString(s):
		l.add(path, run.FaultBadFormat, "it is not valid UTF-8")
	}
}

// checkEnum rejects a value that is not allowed; "" is the default.
func checkEnum[T ~string](l *faultList, path run.Path, value T, allowed ...T) {
	if value == "" || slices.Contains(allowed, value) {
		return
	}
	words := make([]string, len(allowed))
	for i, a := range allowed {
		words[i] = string(a)
	}
	l.add(path, run.FaultBadValue, "%s is none of %s%s", quote(string(value)), strings.Join(words, ", "), l.didYouMean(string(value), words))
}

func checkTimeout(l *faultList, path run.Path, d run.Duration) {
	if d < 0 {
		l.add(path, run.FaultOutOfRange, "%s is negative", d.Std())
	}
}

func checkSecretRefs(l *faultList, s *run.Spec) {
	if s.Untrusted && len(s.SecretsFrom) > 0 {
		l.add("secrets_from", run.FaultContradiction, run.UntrustedReason)
	}
	for name, ref := range sorted(l, s.SecretsFrom) {
		path := run.Path("secrets_from").Key(name)
		checkVariable(l, path, name, "")
		if _, ok := s.Secrets[name]; ok {
			l.add(path, run.FaultDuplicate, "there is a secret %s among secrets too", quote(name))
		}
		checkSecretRef(l, path, ref)
	}
}

func checkSecretRef(l *faultList, path run.Path, ref run.SecretRef) {
	for _, part := range []struct{ key, value string }{{"provider", ref.Provider}, {"name", ref.Name}} {
		if part.value == "" {
			l.add(path.Key(part.key), run.FaultRequired, "a reference to a secret has a provider and a name")
		}
	}
	for _, part := range []struct{ key, value string }{{"provider", ref.Provider}, {"name", ref.Name}, {"key", ref.Key}} {
		switch {
		case len(part.value) > run.MaxGroupLength:
			l.add(path.Key(part.key), run.FaultOverLimit, "it has %d bytes; the limit is %d", len(part.value), run.MaxGroupLength)
		case strings.ContainsFunc(part.value, unicode.IsControl) || !utf8.ValidString(part.value):
			l.add(path.Key(part.key), run.FaultBadFormat, "it has characters that cannot be shown")
		}
	}
	if strings.HasPrefix(ref.Name, "/") || slices.Contains(strings.Split(ref.Name, "/"), "..") {
		l.add(path.Key("name"), run.FaultBadFormat, "the name %s is outside of its provider: it must not begin with a slash nor have ..", quote(ref.Name))
	}
}

// checkSecretFiles checks the names of secrets that are files; names are the
// sorted names of all secrets.
func checkSecretFiles(l *faultList, s *run.Spec, names []string) {
	seen := make(map[string]bool, len(s.SecretFiles))
	for i, name := range items(l, s.SecretFiles) {
		path := run.Path("secret_files").Index(i)
		_, known := slices.BinarySearch(names, name)
		switch {
		case name == "":
			l.add(path, run.FaultRequired, "it is the name of a secret")
		case seen[name]:
			l.add(path, run.FaultDuplicate, "the secret %s is named twice", quote(name))
		case !known:
			l.add(path, run.FaultUnknownSecret, "there is no secret %s%s", quote(name), l.didYouMean(name, names))
		}
		seen[name] = true
	}
}
