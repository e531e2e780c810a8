package remote

import (
	"context"
	"net/http"

	"github.com/drover-run/drover/api"
)

// LoginOptions returns the ways to log in. The call needs no token.
func (c registryCalls) LoginOptions(ctx context.Context) (Answer[api.LoginOptions], error) {
	return call[api.LoginOptions](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.GetLoginOptions(ctx)
	})
}

// Session returns who the caller is.
func (c registryCalls) Session(ctx context.Context) (Answer[api.Session], error) {
	return call[api.Session](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.GetSession(ctx)
	})
}
