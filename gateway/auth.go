package gateway

import (
	"github.com/labstack/echo/v4"

	"github.com/drover-run/drover/internal/tokens"
	"github.com/drover-run/drover/run"
)

const principalKey = "drover.principal"

// local is the principal of calls to a gateway without tokens: any process on its
// host.
func local() tokens.Principal {
	return tokens.Principal{Name: "local", Scopes: []tokens.Scope{tokens.Admin}}
}

// authorize refuses calls whose token does not have the operation's scope.
func (s *Server) authorize(op operation) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if op.scope == "" {
				return next(c)
			}
			p, err := s.authenticate(c.Request().Header.Values("Authorization"))
			if err != nil {
				return err
			}
			if !p.Allows(op.scope) {
				return run.Errorf(run.CodeForbidden, "token %s does not have the scope %s", p.Name, op.scope)
			}
			c.Set(principalKey, p)
			return next(c)
		}
	}
}

func (s *Server) authenticate(headers []string) (tokens.Principal, error) {
	if s.auth == nil {
		return local(), nil
	}
	return tokens.Check(s.auth, headers)
}

// subject returns the name of the caller.
func subject(c echo.Context) string {
	return principal(c).Name
}

func principal(c echo.Context) tokens.Principal {
	p, _ := c.Get(principalKey).(tokens.Principal)
	return p
}
