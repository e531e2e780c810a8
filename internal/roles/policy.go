package roles

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/drover-run/drover/internal/reload"
	"github.com/drover-run/drover/internal/yamlfault"
	"github.com/drover-run/drover/run"
)

// Subjects returns the bindings of the subjects that an identity provider authenticates.
type Subjects interface {
	// BindingsOf returns the bindings of a subject that the provider has in the given
	// groups of users. Without any, the subject may do nothing. Errors: unavailable (the
	// grants are not known yet).
	BindingsOf(subject string, memberOf []string) (Bindings, error)
}

// allSubjects is the subject of a grant to all subjects of the provider.
const allSubjects = "*"

// Grant gives a role to a subject, to all subjects if that is *, or to all members of a
// group of users: the claim groups of their provider.
type Grant struct {
	Subject string `yaml:"subject,omitempty"`
	Members string `yaml:"members,omitempty"`
	Binding `yaml:",inline"`
}

// Policy is a fixed list of grants.
type Policy []Grant

// ReadPolicy reads a YAML list of grants. The error has all faults.
func ReadPolicy(data []byte) (Policy, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	var p Policy
	if err := decoder.Decode(&p); err != nil && !errors.Is(err, io.EOF) {
		return nil, yamlfault.Error(data, err, p)
	}
	var errs []error
	for i, g := range p {
		if (g.Subject == "") == (g.Members == "") {
			errs = append(errs, fmt.Errorf("grant %d: it names either a subject or, as members, a group of users", i+1))
		}
		if err := (Bindings{g.Binding}).Validate(); err != nil {
			errs = append(errs, fmt.Errorf("grant %d: %w", i+1, err))
		}
	}
	return p, errors.Join(errs...)
}

// BindingsOf implements Subjects. It returns no error.
func (p Policy) BindingsOf(subject string, memberOf []string) (Bindings, error) {
	return p.matching(subject, memberOf).merged(), nil
}

// matching returns the bindings of all grants to a subject.
func (p Policy) matching(subject string, memberOf []string) Bindings {
	var out Bindings
	for _, g := range p {
		if g.Subject == allSubjects || g.Subject != "" && g.Subject == subject || g.Members != "" && slices.Contains(memberOf, g.Members) {
			out = append(out, g.Binding)
		}
	}
	return out
}

// merged returns the same bindings with one for each role, without patterns below others:
// the patterns of a principal are limited, and several grants may have the same.
func (b Bindings) merged() Bindings {
	var out Bindings
	for _, role := range All() {
		var paths []string
		for _, x := range b {
			for _, pattern := range x.Groups {
				if path, err := run.GroupPattern(pattern); err == nil && x.Role == role {
					paths = append(paths, path)
				}
			}
		}
		if len(paths) == 0 {
			continue
		}
		merged := Binding{Role: role}
		for _, path := range outermost(paths) {
			merged.Groups = append(merged.Groups, strings.TrimRight(path, "/")+"/**")
		}
		out = append(out, merged)
	}
	return out
}

// File is a policy in a file. A change of the file takes effect within a second. If the
// changed file is not valid, File logs the error and keeps the previous policy.
type File struct{ policy *reload.Value[Policy] }

var (
	_ Subjects = Policy(nil)
	_ Subjects = (*File)(nil)
)

// OpenFile reads the policy of a file. A user named with userPrefix is logged, and not
// refused: a gateway must start with a file that it accepted before.
func OpenFile(path, userPrefix string, logger *slog.Logger) (*File, error) {
	policy, err := reload.Open(logger, func(files [][]byte) (Policy, error) {
		p, err := ReadPolicy(files[0])
		if err != nil {
			return nil, err
		}
		for i, g := range p {
			if why := Prefixed(g.Subject, userPrefix); why != "" {
				logger.Warn("a role grant has no effect", "path", path, "grant", i+1, "reason", why)
			}
		}
		return p, nil
	}, path)
	if err != nil {
		return nil, err
	}
	return &File{policy: policy}, nil
}

// BindingsOf implements Subjects. It returns no error.
func (f *File) BindingsOf(subject string, memberOf []string) (Bindings, error) {
	return f.policy.Current().BindingsOf(subject, memberOf)
}
