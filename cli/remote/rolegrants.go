package remote

import (
	"bytes"
	"context"
	"net/http"

	"github.com/drover-run/drover/api"
)

// roleGrantCalls are the calls on role grants.
type roleGrantCalls struct{ *caller }

// RoleGrants lists the role grants.
func (c roleGrantCalls) RoleGrants(ctx context.Context) (Answer[api.RoleGrantsList], error) {
	return call[api.RoleGrantsList](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.ListRoleGrants(ctx)
	})
}

// RoleGrantsNamed returns a list of role grants.
func (c roleGrantCalls) RoleGrantsNamed(ctx context.Context, name string) (Answer[api.RoleGrants], error) {
	return call[api.RoleGrants](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.GetRoleGrants(ctx, name)
	})
}

// PutRoleGrants creates or replaces a list of role grants. The body is JSON that the gateway
// checks.
func (c roleGrantCalls) PutRoleGrants(ctx context.Context, name string, body []byte) (Answer[api.RoleGrants], error) {
	return call[api.RoleGrants](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.PutRoleGrantsWithBody(ctx, name, "application/json", bytes.NewReader(body))
	})
}

// DeleteRoleGrants deletes a list of role grants.
func (c roleGrantCalls) DeleteRoleGrants(ctx context.Context, name string) error {
	_, err := call[struct{}](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.DeleteRoleGrants(ctx, name, &api.DeleteRoleGrantsParams{}, api.DeleteRoleGrantsJSONRequestBody{})
	})
	return err
}
