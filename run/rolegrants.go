package run

import (
	"context"
	"time"
)

// Limits of role grants. Gateways keep all of them in memory and compare each with every
// user.
const (
	MaxRoleGrantLists = 100  // lists that are stored
	MaxRoleGrants     = 200  // grants in a list
	MaxRoleSubject    = 200  // bytes in the name of a user, or of a group of users
	MaxRoleGrantsNote = 1000 // bytes in a note
)

// RoleGrant gives a role in groups to a user of an OpenID Connect provider, or to all
// members of a group of users.
type RoleGrant struct {
	// Subject is the user's name at the provider, * for all users. Members is the name of
	// a group of users. A grant has one of them.
	Subject string `json:"subject,omitempty"`
	Members string `json:"members,omitempty"`
	// Role and Groups are those of a RoleBinding.
	Role   string   `json:"role"`
	Groups []string `json:"groups"`
}

// RoleGrants is a named list of grants that all gateways of the records apply.
type RoleGrants struct {
	Name string
	// Issuer is the provider whose users the grants are for. Another provider may give the
	// same names to other people.
	Issuer string
	Grants []RoleGrant
	// Unknown counts the grants that a newer version of Drover stored and this one does
	// not understand. Grants lacks them, and they have no effect.
	Unknown int
	Note    string
	// Version grows with every change of any list, so a list that was deleted and created
	// again never has an earlier version.
	Version   int64
	UpdatedAt time.Time
	UpdatedBy string
}

// RoleGrantsView is what an operator sees of the grants that a gateway applies.
type RoleGrantsView struct {
	Issuer string       // the gateway's provider: it applies the lists of this issuer only
	Stored []RoleGrants // by name
	// File are the grants in the gateway's own file; File is nil without one.
	File []RoleGrant
}

// RoleGrantsAPI changes the stored grants. Implementations are safe for concurrent use.
//
// The expected version is nil for a change that overwrites any other, and 0 for a list
// that must not exist.
type RoleGrantsAPI interface {
	// ListRoleGrants returns all grants. Errors: unavailable.
	ListRoleGrants(ctx context.Context) (RoleGrantsView, error)
	// GetRoleGrants returns a list. Errors: not_found, unavailable.
	GetRoleGrants(ctx context.Context, name string) (RoleGrants, error)
	// PutRoleGrants creates or replaces a list. If it has the same grants and note, it
	// keeps its version. Errors: invalid; conflict (the version is not as expected, or the
	// stored list is for another provider or was written by a newer version of Drover);
	// exhausted (too many lists, or too large in all); not_supported (no grant would have
	// an effect); unavailable. After unavailable the change may be stored but not applied
	// yet, as the message says.
	PutRoleGrants(ctx context.Context, g RoleGrants, expected *int64, by string) (_ RoleGrants, created bool, _ error)
	// DeleteRoleGrants deletes a list. Errors: not_found; conflict (the version is not as
	// expected); unavailable, as for PutRoleGrants.
	DeleteRoleGrants(ctx context.Context, name string, expected *int64, by string) error
}
