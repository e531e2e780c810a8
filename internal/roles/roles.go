// Package roles decides what the holders of roles may do in which groups.
//
// A binding gives a role in the groups of patterns such as /acme/**. A role has
// permissions, and an operation of the API needs one of them. This package knows
// neither operations nor tokens: gateway/access has the table of operations.
package roles

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-run/drover/run"
)

// Permission is a kind of operation.
type Permission string

// The permissions.
const (
	// View reads runs with their logs, artifacts and events, and schedules.
	View Permission = "view"
	// Submit creates and changes runs and schedules.
	Submit Permission = "submit"
	// Approve approves and rejects tasks.
	Approve Permission = "approve"
	// Operate changes how much runs: executors, fleets and change groups.
	Operate Permission = "operate"
	// Administer is everything else: deleting runs, commands in running tasks, and the
	// configuration.
	Administer Permission = "administer"
)

// Role is a set of permissions.
type Role string

// The roles.
const (
	Viewer    Role = "viewer"
	Submitter Role = "submitter" // and view
	Approver  Role = "approver"  // and view
	Operator  Role = "operator"  // and view, submit and approve
	Admin     Role = "admin"     // all
)

// All lists all roles.
func All() []Role { return []Role{Viewer, Submitter, Approver, Operator, Admin} }

// Allows reports whether the role has the permission.
func (r Role) Allows(p Permission) bool {
	switch r {
	case Viewer:
		return p == View
	case Submitter:
		return p == View || p == Submit
	case Approver:
		return p == View || p == Approve
	case Operator:
		return p == View || p == Submit || p == Approve || p == Operate
	case Admin:
		return true
	}
	return false
}

// Needs names the least roles that have the permission, for messages.
func Needs(p Permission) string {
	switch p {
	case View:
		return "the role viewer"
	case Submit:
		return "the role submitter"
	case Approve:
		return "the role approver"
	case Operate:
		return "the role operator"
	case Administer:
	}
	return "the role admin"
}

// Binding gives a role in groups.
type Binding struct {
	Role Role `yaml:"role" json:"role"`
	// Groups are patterns such as /acme/**: the group /acme and all below it. /** is all
	// groups, and what belongs to none.
	Groups []string `yaml:"groups" json:"groups"`
}

// maxPatterns bounds the patterns of a principal: each is a condition of queries.
const maxPatterns = 50

// Bindings are the bindings of a principal. Without any, it has no roles.
type Bindings []Binding

// Validate returns all faults of the bindings.
func (b Bindings) Validate() error {
	var errs []error
	patterns := 0
	for _, x := range b {
		if !slices.Contains(All(), x.Role) {
			errs = append(errs, fmt.Errorf("%q is not a role (viewer, submitter, approver, operator, admin)", x.Role))
		}
		if len(x.Groups) == 0 {
			errs = append(errs, fmt.Errorf("the role %s is bound to no groups; /** is all of them", x.Role))
		}
		for _, pattern := range x.Groups {
			if _, err := run.GroupPattern(pattern); err != nil {
				errs = append(errs, err)
			}
		}
		patterns += len(x.Groups)
	}
	if patterns > maxPatterns {
		errs = append(errs, fmt.Errorf("there are %d patterns of groups; the limit is %d", patterns, maxPatterns))
	}
	return errors.Join(errs...)
}

// Paths returns the paths in and below which the bindings give the permission, none of
// them below another: "" alone is all groups. A pattern that is not valid gives nothing.
func (b Bindings) Paths(p Permission) []string {
	var all []string
	for _, x := range b {
		if !x.Role.Allows(p) {
			continue
		}
		for _, pattern := range x.Groups {
			if path, err := run.GroupPattern(pattern); err == nil {
				all = append(all, path)
			}
		}
	}
	return outermost(all)
}

// Allows reports whether the bindings give the permission in a group; "" is what belongs
// to no group, or to all.
func (b Bindings) Allows(p Permission, group string) bool {
	return slices.ContainsFunc(b.Paths(p), func(path string) bool { return path == "" || group != "" && run.GroupWithin(group, path) })
}

// Within returns the part of the groups at and below the given paths in which the
// bindings give the permission, as such paths; no given paths mean all groups. It
// returns none if there is no such part.
func (b Bindings) Within(p Permission, of []string) []string {
	if len(of) == 0 {
		of = []string{""}
	}
	var out []string
	for _, given := range of {
		given = strings.TrimRight(given, "/")
		for _, path := range b.Paths(p) {
			switch {
			case run.GroupWithin(given, path):
				out = append(out, given)
			case run.GroupWithin(path, given):
				out = append(out, path)
			}
		}
	}
	return outermost(out)
}

// outermost returns the sorted paths without those that are below another.
func outermost(paths []string) []string {
	slices.Sort(paths)
	var out []string
	for _, path := range slices.Compact(paths) {
		if !slices.ContainsFunc(out, func(above string) bool { return run.GroupWithin(path, above) }) {
			out = append(out, path)
		}
	}
	return out
}
