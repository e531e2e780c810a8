package run

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

var (
	namePattern     = newPattern(`^[a-z0-9._-]*[a-z0-9_-][a-z0-9._-]*$`)
	variablePattern = newPattern(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// Validate returns all faults of a specification, in the order of its fields
// and at most MaxFaults and one more; none for a valid specification. It does
// not check pools: see CheckPool and ChoosePool. Its cost grows linearly with
// the size of the specification.
func Validate(s *Spec) []Fault {
	l := newFaultList()
	checkSpec(l, s)
	return l.faults
}

// ValidateContext is Validate with a context. It returns the cause if ctx ends
// before the validation does.
func ValidateContext(ctx context.Context, s *Spec) ([]Fault, error) {
	l := newFaultList()
	l.done = ctx.Done()
	checkSpec(l, s)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("validate the specification: %w", context.Cause(ctx))
	}
	return l.faults, nil
}

func checkSpec(l *faultList, s *Spec) {
	if s == nil {
		l.add("", FaultRequired, "there is no specification")
		return
	}
	checkHeader(l, s)
	switch {
	case len(s.Tasks) == 0 && len(s.SetupErrors) == 0:
		l.add("tasks", FaultRequired, "a run has at least one task")
	case len(s.Tasks) > MaxTasks:
		// checkMatrices reports this; thousands of further faults would not
		// help.
	default:
		for name, t := range sorted(l, s.Tasks) {
			checkTask(l, name, s.Group, t)
		}
	}
	checkMatrices(l, s)
	before := len(l.faults)
	checkGraph(l, s)
	if l.stop() {
		return // a full list does not show whether the graph is sound
	}
	empty := func(t *TaskSpec) bool { return t == nil }
	checkOutputs(l, s, len(l.faults) == before && !slices.ContainsFunc(slices.Collect(maps.Values(s.Tasks)), empty))
}

// ValidateAnnotations returns the faults of a map of annotations.
func ValidateAnnotations(annotations map[string]string) []Fault {
	l := newFaultList()
	checkAnnotations(l, annotations)
	return l.faults
}

// ValidName reports whether name is valid for a task, service or pool: 1 to
// MaxNameLength of a to z, 0 to 9, dot, underscore and dash, and not dots
// alone.
func ValidName(name string) bool {
	return len(name) <= MaxNameLength && namePattern.MatchString(name)
}

func checkHeader(l *faultList, s *Spec) {
	switch {
	case strings.TrimSpace(s.Name) == "":
		l.add("name", FaultRequired, "a run has a name")
	case len(s.Name) > MaxNameLength:
		l.add("name", FaultOverLimit, "the name has %d bytes; the limit is %d", len(s.Name), MaxNameLength)
	case strings.ContainsFunc(s.Name, unicode.IsControl) || !utf8.ValidString(s.Name):
		l.add("name", FaultBadFormat, "the name has characters that cannot be shown")
	}
	checkGroup(l, s.Group)
	if len(s.ChangeGroups) > MaxChangeGroups {
		l.add("changegroups", FaultOverLimit, "there are %d change groups; the limit is %d", len(s.ChangeGroups), MaxChangeGroups)
	}
	named := make(map[string]bool)
	for i, name := range items(l, s.ChangeGroups) {
		path := Path("changegroups").Index(i)
		if fault := CheckChangeGroupName(name); fault != "" {
			l.add(path, FaultBadFormat, "%s", fault)
		} else if named[name] {
			l.add(path, FaultDuplicate, "the change group %s is named twice", brief(name))
		}
		named[name] = true
	}
	if s.Priority < 0 || s.Priority > 5 {
		l.add("priority", FaultOutOfRange, "the priority is %d; it must be 1 (first) to 5 (last)", s.Priority)
	}
	checkEnum(l, "admission", s.Admission, AdmissionAuto, AdmissionManual)
	checkAnnotations(l, s.Annotations)
	checkEnvironment(l, "environment", s.Environment)
	for name, secret := range sorted(l, s.Secrets) {
		checkVariable(l, Path("secrets").Key(name), name, secret.Reveal())
	}
	checkSecretRefs(l, s)
	secrets := s.SecretNames()
	checkSecretFiles(l, s, secrets)
	checkRegistries(l, s, secrets)
	checkTimeout(l, "timeout", s.Timeout)
	for i, e := range items(l, s.SetupErrors) {
		path := Path("setup_errors").Index(i)
		if strings.TrimSpace(e) == "" {
			l.add(path, FaultRequired, "a setup error has a text")
		}
		checkText(l, path, e)
	}
}

func checkGroup(l *faultList, group string) {
	elements := strings.Split(group, "/")
	switch {
	case group == "":
		l.add("group", FaultRequired, "a run has a group, such as /project/42")
	case len(group) > MaxGroupLength:
		l.add("group", FaultOverLimit, "the group has %d bytes; the limit is %d", len(group), MaxGroupLength)
	case elements[0] != "":
		l.add("group", FaultBadFormat, "the group %s does not begin with a slash", brief(group))
	case len(elements) < 3:
		l.add("group", FaultBadFormat, "the group %s has one element; it needs at least two, such as /project/42", brief(group))
	case slices.ContainsFunc(elements[1:], func(e string) bool { return e == "" || e == "." || e == ".." }):
		l.add("group", FaultBadFormat, "the group %s has an element that is empty or made of dots", brief(group))
	case strings.ContainsFunc(group, unicode.IsControl) || !utf8.ValidString(group):
		l.add("group", FaultBadFormat, "the group has characters that cannot be shown")
	}
}

func checkAnnotations(l *faultList, annotations map[string]string) {
	if len(annotations) > MaxAnnotations {
		l.add("annotations", FaultOverLimit, "there are %d annotations; the limit is %d", len(annotations), MaxAnnotations)
		return
	}
	for key, value := range sorted(l, annotations) {
		path := Path("annotations").Key(key)
		switch {
		case strings.TrimSpace(key) == "":
			l.add(path, FaultRequired, "an annotation has a key")
		case len(key) > MaxNameLength:
			l.add(path, FaultOverLimit, "the key has %d bytes; the limit is %d", len(key), MaxNameLength)
		case strings.ContainsFunc(key, unicode.IsControl) || strings.Contains(key, "=") || !utf8.ValidString(key):
			l.add(path, FaultBadFormat, "the key has an equals sign, or characters that cannot be shown")
		}
		if len(value) > MaxAnnotationBytes {
			l.add(path, FaultOverLimit, "the value has %d bytes; the limit is %d", len(value), MaxAnnotationBytes)
		}
		checkText(l, path, value)
	}
}

// checkRegistries checks the registries; secrets are the sorted names of all
// secrets.
func checkRegistries(l *faultList, s *Spec, secrets []string) {
	for host, r := range sorted(l, s.Registries) {
		path := Path("registries").Key(host)
		if host == "" || strings.ContainsFunc(host, func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) || c == '/' }) {
			l.add(path, FaultBadFormat, "%s is not the host of a registry, such as ghcr.io", brief(host))
		}
		if r.Username == "" {
			l.add(path.Key("username"), FaultRequired, "a registry has a user name")
		}
		checkText(l, path.Key("username"), r.Username)
		if r.PasswordSecret == "" {
			l.add(path.Key("password_secret"), FaultRequired, "a registry names the secret that holds its password")
		} else if _, known := slices.BinarySearch(secrets, r.PasswordSecret); !known {
			l.add(path.Key("password_secret"), FaultUnknownSecret, "there is no secret %s%s", brief(r.PasswordSecret), l.didYouMean(r.PasswordSecret, secrets))
		}
	}
}

// checkEnvironment checks the variables of steps. Names of variables of
// services have fewer restrictions.
func checkEnvironment(l *faultList, path Path, env map[string]string) {
	for name, value := range sorted(l, env) {
		checkVariable(l, path.Key(name), name, value)
	}
}

func checkVariable(l *faultList, path Path, name, value string) {
	switch {
	case !variablePattern.MatchString(name):
		l.add(path, FaultBadFormat, "%s is not the name of a variable: letters, digits and underscores, no digit first", brief(name))
	case strings.HasPrefix(name, VariablePrefix):
		l.add(path, FaultReserved, "names that begin with %s are reserved", VariablePrefix)
	}
	checkVariableSize(l, path, name, value)
	checkText(l, path, value)
}

func checkVariableSize(l *faultList, path Path, name, value string) {
	if n := len(name) + len("=") + len(value); n >= MaxVariableBytes {
		l.add(path, FaultOverLimit, "the variable has %d bytes; it must have less than %d", n, MaxVariableBytes)
	}
}

// checkText rejects text that a process or a database cannot hold.
func checkText(l *faultList, path Path, s string) {
	switch {
	case strings.Contains(s, "\x00"):
		l.add(path, FaultBadFormat, "it has a NUL byte")
	case !utf8.ValidString(s):
		l.add(path, FaultBadFormat, "it is not valid UTF-8")
	}
}

// checkEnum rejects a value that is not allowed; "" is the default.
func checkEnum[T ~string](l *faultList, path Path, value T, allowed ...T) {
	if value == "" || slices.Contains(allowed, value) {
		return
	}
	words := make([]string, len(allowed))
	for i, a := range allowed {
		words[i] = string(a)
	}
	l.add(path, FaultBadValue, "%s is none of %s%s", brief(string(value)), strings.Join(words, ", "), l.didYouMean(string(value), words))
}

func checkTimeout(l *faultList, path Path, d Duration) {
	if d < 0 {
		l.add(path, FaultOutOfRange, "%s is negative", d.Std())
	}
}
