package access

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/tokens"
	"github.com/drover-run/drover/run"
)

// TokenOperations implements the operations of the contract on bearer tokens.
type TokenOperations struct {
	Tokens run.BearerTokens // nil: not_supported
	// Decode reads the body of a call.
	Decode func(c echo.Context, v any) error
	// Caller returns the principal of the call, and Reaffirm checks it again.
	Caller   func(c echo.Context) tokens.Principal
	Reaffirm func(c echo.Context) error
	// Describe adds the name and the rights that a call gives to its record in the audit log.
	Describe func(c echo.Context, name string, rights any) error
}

// errNoTokenList is the error of gateways without run.BearerTokens.
func errNoTokenList() error {
	return run.Errorf(run.CodeNotSupported, "this gateway has no token file")
}

// ListTokens implements gateway.ServerInterface.
func (o *TokenOperations) ListTokens(c echo.Context) error {
	if o.Tokens == nil {
		return errNoTokenList()
	}
	all, err := o.Tokens.ListTokens(c.Request().Context())
	if err != nil {
		return err
	}
	v := api.BearerTokenList{Tokens: make([]api.BearerToken, len(all))}
	for i, t := range all {
		v.Tokens[i] = viewToken(t)
	}
	return c.JSON(http.StatusOK, v)
}

// CreateToken implements gateway.ServerInterface.
func (o *TokenOperations) CreateToken(c echo.Context) error {
	if o.Tokens == nil {
		return errNoTokenList()
	}
	var body api.TokenSpec
	if err := o.Decode(c, &body); err != nil {
		return err
	}
	t := run.BearerToken{Name: body.Name, Expires: body.ExpiresAt}
	for _, s := range body.Scopes {
		t.Scopes = append(t.Scopes, string(s))
	}
	if err := tokens.CheckForm(t.Name); err != nil { // before the audit log has it
		return err
	}
	for _, b := range body.Bindings {
		t.Bindings = append(t.Bindings, run.RoleBinding{Role: string(b.Role), Groups: b.Groups})
	}
	if err := o.Describe(c, t.Name, api.TokenSpec{Name: body.Name, Scopes: body.Scopes, Bindings: body.Bindings, ExpiresAt: body.ExpiresAt}); err != nil {
		return err
	}
	if err := o.Reaffirm(c); err != nil {
		return err
	}
	secret, made, err := o.Tokens.CreateToken(c.Request().Context(), t, o.Caller(c).Name)
	if err != nil {
		return err
	}
	c.Response().Header().Set("Cache-Control", "no-store")
	return c.JSON(http.StatusCreated, api.NewToken{Token: secret, Entry: viewToken(made)})
}

// RevokeToken implements gateway.ServerInterface.
func (o *TokenOperations) RevokeToken(c echo.Context, name string) error {
	if o.Tokens == nil {
		return errNoTokenList()
	}
	if err := o.Decode(c, &struct{}{}); err != nil {
		return err
	}
	if err := o.Reaffirm(c); err != nil {
		return err
	}
	t, err := o.Tokens.RevokeToken(c.Request().Context(), name, o.Caller(c).Name)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, viewToken(t))
}

func viewToken(t run.BearerToken) api.BearerToken {
	v := api.BearerToken{
		Name: t.Name, Scopes: append([]string{}, t.Scopes...), Executor: t.Executor, Pool: t.Pool, Set: t.Set, Fleet: t.Fleet, Instance: t.Instance,
		ExpiresAt: t.Expires, LastUsedAt: t.LastUsed, RevokedAt: t.RevokedAt, RevokedBy: t.RevokedBy, CreatedBy: t.CreatedBy,
	}
	for _, b := range t.Bindings {
		v.Bindings = append(v.Bindings, api.RoleBinding{Role: api.RoleBindingRole(b.Role), Groups: b.Groups})
	}
	for _, at := range []*time.Time{&v.ExpiresAt, &v.LastUsedAt, &v.RevokedAt} {
		*at = at.UTC()
	}
	return v
}
