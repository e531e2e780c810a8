package run

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// OutputRef names an output of a task: {{ output "task" "key" }}. Other braces
// in a text have no meaning.
type OutputRef struct{ Task, Key string }

// Outputs returns an output of a task. If there is no such output, the error
// has CodeNotFound and says why; with any other code it is unknown whether the
// output exists.
type Outputs func(OutputRef) (string, error)

const quoted = `("(?:[^"\\\n]|\\.)*"|` + "`[^`]*`)"

var (
	// outputStartPattern finds the beginnings of references, outputPattern
	// well-formed references.
	outputStartPattern = newPattern(`\{\{(?:-\s)?\s*output\b`)
	outputPattern      = newPattern(`(\s*\{\{-\s|\{\{)\s*output\s+` + quoted + `\s+` + quoted + `\s*(?:\s-\}\}\s*|\}\})`)
	outputKeyPattern   = newPattern(`^[A-Za-z_][A-Za-z0-9_.-]*$`)
)

// ValidOutputKey reports whether key is a valid key of an output: letters,
// digits, "_", "-" and ".", of which the first is a letter or "_".
func ValidOutputKey(key string) bool { return outputKeyPattern.MatchString(key) }

// OutputRefs returns the outputs to which a text refers, in order. The error
// describes a malformed reference.
func OutputRefs(text string) ([]OutputRef, error) {
	var refs []OutputRef
	_, err := ResolveOutputs(text, func(r OutputRef) (string, error) {
		refs = append(refs, r)
		return "", nil
	})
	return refs, err
}

// ResolveOutputs replaces the references in a text by the values of the
// outputs. The error has CodeInvalid if a reference is malformed.
func ResolveOutputs(text string, outputs Outputs) (string, error) {
	if !outputStartPattern.MatchString(text) {
		return text, nil
	}
	var out strings.Builder
	end := 0
	for _, at := range outputPattern.get().FindAllStringSubmatchIndex(text, -1) {
		if err := noOutput(text[end:at[0]]); err != nil {
			return "", err
		}
		task, errTask := strconv.Unquote(text[at[4]:at[5]])
		key, errKey := strconv.Unquote(text[at[6]:at[7]])
		if errTask != nil || errKey != nil {
			return "", Errorf(CodeInvalid, "%s has a string that cannot be read", brief(text[at[0]:at[1]]))
		}
		value, err := outputs(OutputRef{Task: task, Key: key})
		if err != nil {
			return "", err
		}
		out.WriteString(text[end:at[0]])
		out.WriteString(value)
		end = at[1]
	}
	if err := noOutput(text[end:]); err != nil {
		return "", err
	}
	out.WriteString(text[end:])
	return out.String(), nil
}

func noOutput(text string) error {
	if outputStartPattern.MatchString(text) {
		return Errorf(CodeInvalid, `an output is named as {{ output "task" "key" }}`)
	}
	return nil
}

// WithOutputs returns the task with the references in its environment and in
// those of its steps resolved. The error names the variable; it has the code of
// outputs if an output is missing, and CodeInvalid if a reference or value is
// invalid.
func (t *TaskSpec) WithOutputs(outputs Outputs) (*TaskSpec, error) {
	env, err := resolveAll(t.Environment, outputs)
	if err != nil {
		return nil, err
	}
	out := *t
	out.Environment = env
	out.Steps = slices.Clone(t.Steps)
	for i := range out.Steps {
		if out.Steps[i].Environment, err = resolveAll(out.Steps[i].Environment, outputs); err != nil {
			return nil, err
		}
	}
	return &out, nil
}

func resolveAll(env map[string]string, outputs Outputs) (map[string]string, error) {
	var out map[string]string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if !outputStartPattern.MatchString(env[name]) {
			continue
		}
		value, err := ResolveOutputs(env[name], outputs)
		if err != nil {
			return nil, fmt.Errorf("the variable %s: %w", name, err)
		}
		switch size := len(name) + len("=") + len(value); {
		case size >= MaxVariableBytes:
			return nil, Errorf(CodeInvalid, "the variable %s has %d bytes with the outputs in it; it must have less than %d", name, size, MaxVariableBytes)
		case strings.Contains(value, "\x00"):
			return nil, Errorf(CodeInvalid, "the variable %s has a NUL byte with the outputs in it", name)
		}
		if out == nil {
			out = maps.Clone(env)
		}
		out[name] = value
	}
	if out == nil {
		return env, nil
	}
	return out, nil
}

// HasOutputRef reports whether a text has the beginning of a reference to an
// output, well-formed or not.
func HasOutputRef(text string) bool { return outputStartPattern.MatchString(text) }

// pattern is a regular expression that is compiled on first use. Every binary
// links this package, also those that start for each task and validate nothing.
type pattern struct{ get func() *regexp.Regexp }

func newPattern(expr string) pattern {
	return pattern{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })}
}

// MatchString reports whether s has a match.
func (p pattern) MatchString(s string) bool { return p.get().MatchString(s) }

// FindStringSubmatch returns the first match and its groups.
func (p pattern) FindStringSubmatch(s string) []string { return p.get().FindStringSubmatch(s) }
