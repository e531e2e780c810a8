package run

import (
	"regexp"
	"sync"
)

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
