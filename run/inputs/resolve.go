package inputs

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/drover-run/drover/run"
)

// maxExpanded bounds the text with references replaced, in bytes: a short
// reference can stand for a long value.
const maxExpanded = 2 * run.MaxRequestBytes

const quoted = `("(?:[^"\\\n]|\\.)*"|` + "`[^`]*`)"

var (
	// startPattern finds the beginnings of references, referencePattern
	// well-formed references.
	startPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{\{(?:-\s)?\s*input\b`) })

	referencePattern = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(\s*\{\{-\s|\{\{)\s*input\s+` + quoted + `\s*(?:\s-\}\}\s*|\}\})`)
	})
)

// HasReference reports whether a text has the beginning of a reference to an
// input, well-formed or not.
func HasReference(text string) bool {
	return strings.Contains(text, "{{") && startPattern().MatchString(text)
}

// Plain returns a text with each well-formed reference replaced by a letter, for
// checks of the text around them.
func Plain(text string) string {
	if !HasReference(text) {
		return text
	}
	return referencePattern().ReplaceAllLiteralString(text, standInText)
}

// Resolve returns a specification with a value for each input, and with all
// references to inputs replaced, and whether there were any. It leaves s as it
// is. The faults are those of the references; s must have none that Check finds.
func Resolve(s *run.Spec, missing Missing) (resolved *run.Spec, replaced bool, faults []run.Fault) {
	out := *s
	if len(s.Inputs) > 0 {
		out.InputValues = values(s, missing)
	}
	r := &resolver{values: out.InputValues, left: maxExpanded}
	r.suggestions = maxSuggestions
	r.rewrite(&out)
	if len(r.faults) > 0 {
		return nil, false, r.faults
	}
	return &out, r.replaced, nil
}

// resolver replaces references.
type resolver struct {
	checker

	values   map[string]string
	left     int // how many bytes of text may still be made
	replaced bool
}

// rewrite replaces the references in all texts that have them. It changes the
// maps and lists of no other specification.
func (r *resolver) rewrite(s *run.Spec) {
	s.Name = r.expand("name", s.Name)
	s.Environment = r.variables("environment", s.Environment)
	if len(s.Tasks) > 0 {
		s.Tasks = maps.Clone(s.Tasks)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Tasks)) {
		if r.full() {
			return
		}
		if t := s.Tasks[name]; t != nil {
			s.Tasks[name] = r.task(run.Path("tasks").Key(name), t)
		}
	}
}

func (r *resolver) task(p run.Path, of *run.TaskSpec) *run.TaskSpec {
	t := *of
	t.Pool = r.expand(p.Key("pool"), t.Pool)
	t.Image = r.expand(p.Key("image"), t.Image)
	t.Environment = r.variables(p.Key("environment"), t.Environment)
	t.Foreach.List = r.expand(p.Key("foreach"), t.Foreach.List)
	t.Services = slices.Clone(t.Services)
	for i := range t.Services {
		at := p.Key("services").Index(i)
		t.Services[i].Image = r.expand(at.Key("image"), t.Services[i].Image)
		t.Services[i].Environment = r.variables(at.Key("environment"), t.Services[i].Environment)
	}
	t.Steps = slices.Clone(t.Steps)
	for i := range t.Steps {
		r.step(p.Key("steps").Index(i), &t.Steps[i])
	}
	return &t
}

func (r *resolver) step(p run.Path, s *run.Step) {
	s.Name = r.expand(p.Key("name"), s.Name)
	s.Image = r.expand(p.Key("image"), s.Image)
	s.Environment = r.variables(p.Key("environment"), s.Environment)
	if s.Checkout != nil {
		c := *s.Checkout
		at := p.Key("checkout")
		c.Repository, c.Ref, c.SHA = r.expand(at.Key("repository"), c.Repository), r.expand(at.Key("ref"), c.Ref), r.expand(at.Key("sha"), c.SHA)
		s.Checkout = &c
	}
	if s.SaveCache != nil {
		saved := *s.SaveCache
		saved.Key = r.expand(p.Key("save_cache").Key("key"), saved.Key)
		s.SaveCache = &saved
	}
	if s.RestoreCache != nil {
		restored := *s.RestoreCache
		restored.Keys = slices.Clone(restored.Keys)
		for i, key := range restored.Keys {
			restored.Keys[i] = r.expand(p.Key("restore_cache").Key("keys").Index(i), key)
		}
		s.RestoreCache = &restored
	}
}

// variables replaces the references in the values of a map.
func (r *resolver) variables(p run.Path, env map[string]string) map[string]string {
	var out map[string]string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if !HasReference(env[name]) {
			continue
		}
		if out == nil {
			out = maps.Clone(env)
		}
		out[name] = r.expand(p.Key(name), env[name])
	}
	if out == nil {
		return env
	}
	return out
}

// expand replaces the references in a text.
func (r *resolver) expand(p run.Path, text string) string {
	if r.full() || r.left < 0 || !HasReference(text) {
		return text
	}
	const malformed = `an input is named as {{ input "name" }}`
	var out strings.Builder
	end := 0
	for _, at := range referencePattern().FindAllStringSubmatchIndex(text, -1) {
		if startPattern().MatchString(text[end:at[0]]) {
			r.add(p, run.FaultBadFormat, malformed)
			return text
		}
		name, err := strconv.Unquote(text[at[4]:at[5]])
		if err != nil {
			r.add(p, run.FaultBadFormat, "%s has a string that cannot be read", brief(text[at[0]:at[1]]))
			return text
		}
		value, known := r.values[name]
		if !known {
			r.add(p, run.FaultUnknownInput, "there is no input %s%s", brief(name), r.didYouMean(name, slices.Sorted(maps.Keys(r.values))))
			return text
		}
		if r.left -= at[0] - end + len(value); r.left < 0 {
			r.add(p, run.FaultOverLimit, "with its inputs replaced the text of the specification has more than %d bytes", maxExpanded)
			return text
		}
		out.WriteString(text[end:at[0]])
		out.WriteString(value)
		end = at[1]
	}
	if startPattern().MatchString(text[end:]) {
		r.add(p, run.FaultBadFormat, malformed)
		return text
	}
	out.WriteString(text[end:])
	r.replaced = true
	return out.String()
}
