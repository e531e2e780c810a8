package roles

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Subjects returns the bindings of the subjects that an identity provider authenticates.
type Subjects interface {
	// BindingsOf returns the bindings of a subject that the provider has in the given
	// groups of users. Without any, the subject may do nothing.
	BindingsOf(subject string, memberOf []string) Bindings
}

// Grant gives a role to a subject, or to all members of a group of users: the claim
// groups of their provider.
type Grant struct {
	Subject string `yaml:"subject,omitempty"`
	Members string `yaml:"members,omitempty"`
	Binding `yaml:",inline"`
}

// Policy is a fixed list of grants.
type Policy []Grant

var _ Subjects = Policy(nil)

// ReadPolicy reads a YAML list of grants. The error has all faults.
func ReadPolicy(data []byte) (Policy, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	var p Policy
	if err := decoder.Decode(&p); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	var errs []error
	for i, g := range p {
		if (g.Subject == "") == (g.Members == "") {
			errs = append(errs, fmt.Errorf("grant %d: it names either a subject or, as members, a group of users", i))
		}
		if err := (Bindings{g.Binding}).Validate(); err != nil {
			errs = append(errs, fmt.Errorf("grant %d: %w", i, err))
		}
	}
	return p, errors.Join(errs...)
}

// BindingsOf implements Subjects.
func (p Policy) BindingsOf(subject string, memberOf []string) Bindings {
	var out Bindings
	for _, g := range p {
		if g.Subject != "" && g.Subject == subject || g.Members != "" && slices.Contains(memberOf, g.Members) {
			out = append(out, g.Binding)
		}
	}
	return out
}
