package records

import (
	"context"

	"github.com/drover-run/drover/run"
)

// RoleGrants stores named lists of role grants.
type RoleGrants interface {
	// ListRoleGrants returns all lists by name.
	ListRoleGrants(ctx context.Context) ([]run.RoleGrants, error)
	// PutRoleGrants creates or replaces a list that the caller has validated, at the
	// store's time. If nothing but UpdatedBy differs, the stored list stays as it is.
	// expected is the version that the stored list must have: nil for any, 0 for no list.
	// Errors: conflict, exhausted (there are run.MaxRoleGrantLists).
	PutRoleGrants(ctx context.Context, g run.RoleGrants, expected *int64) (_ run.RoleGrants, created bool, _ error)
	// DeleteRoleGrants deletes a list. Errors: not_found, conflict.
	DeleteRoleGrants(ctx context.Context, name string, expected *int64) error
}
