package oidc

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-run/drover/internal/tokens"
	"github.com/drover-run/drover/run"
)

// Binding gives a scope to a user, to the members of a group, or to all users of the
// provider, if both are "".
type Binding struct {
	User, Group string
	Scope       tokens.Scope
}

// ParseBindings reads bindings of the forms user:NAME=SCOPE, group:NAME=SCOPE and
// *=SCOPE. The error has all faults.
func ParseBindings(list []string) ([]Binding, error) {
	bindings := make([]Binding, 0, len(list))
	var errs []error
	for _, text := range list {
		i := strings.LastIndexByte(text, '=') // names of groups may contain one
		if i < 0 {
			errs = append(errs, fmt.Errorf("binding %q: it is not of the form user:NAME=SCOPE, group:NAME=SCOPE or *=SCOPE", text))
			continue
		}
		b := Binding{Scope: tokens.Scope(text[i+1:])}
		kind, name, _ := strings.Cut(text[:i], ":")
		switch {
		case kind == "user" && name != "":
			b.User = name
		case kind == "group" && name != "":
			b.Group = name
		case text[:i] != "*":
			errs = append(errs, fmt.Errorf("binding %q: %q is none of user:NAME, group:NAME and *", text, text[:i]))
		}
		if !b.Scope.Valid() || b.Scope == tokens.Executor {
			errs = append(errs, fmt.Errorf("binding %q: %q is not a scope of users (read, write, exec, admin)", text, b.Scope))
		}
		bindings = append(bindings, b)
	}
	return bindings, errors.Join(errs...)
}

// Principal implements tokens.Provider. A principal has either scopes or roles, like
// that of a token: a user to whom a binding gives scopes gets no roles.
func (p *Provider) Principal(id run.Identity) (tokens.Principal, error) {
	if id.Issuer != p.opts.Issuer {
		return tokens.Principal{}, run.Errorf(run.CodeUnauthenticated, "this gateway does not accept the provider %s any more: log in again", id.Issuer)
	}
	principal := tokens.Principal{Name: p.opts.SubjectPrefix + id.Name, Groups: id.Groups}
	for _, b := range p.bindings {
		matches := b.User == "" && b.Group == "" || b.User != "" && b.User == id.Name || b.Group != "" && slices.Contains(id.Groups, b.Group)
		if matches && !slices.Contains(principal.Scopes, b.Scope) {
			principal.Scopes = append(principal.Scopes, b.Scope)
		}
	}
	if len(principal.Scopes) > 0 {
		return principal, nil
	}
	reason := "no binding matches the user or a group"
	if p.opts.Roles != nil {
		granted, err := p.opts.Roles.BindingsOf(id.Name, id.Groups)
		if err != nil {
			return tokens.Principal{}, err
		}
		principal.Roles = granted
		reason += ", and no grant of a role does"
	}
	if len(principal.Roles) == 0 {
		return tokens.Principal{}, run.Errorf(run.CodeForbidden, "%s has no access to this gateway: %s", principal.Name, reason)
	}
	if err := principal.Roles.Validate(); err != nil {
		return tokens.Principal{}, run.Errorf(run.CodeForbidden, "%s has too many roles: %w", principal.Name, err)
	}
	return principal, nil
}
