package gateway

import (
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/drover-run/drover/run"
)

const principalKey = "drover.principal"

// local is who calls a gateway without tokens: whoever is on its host.
func local() Principal { return Principal{Name: "local", Scopes: []Scope{ScopeAdmin}} }

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
			if !p.allows(op.scope) {
				return run.Errorf(run.CodeForbidden, "token %s does not have the scope %s", p.Name, op.scope)
			}
			c.Set(principalKey, p)
			return next(c)
		}
	}
}

func (s *Server) authenticate(headers []string) (Principal, error) {
	if s.auth == nil {
		return local(), nil
	}
	if len(headers) == 0 {
		return Principal{}, run.Errorf(run.CodeUnauthenticated, "this call needs a bearer token")
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	if len(headers) > 1 || !strings.EqualFold(scheme, "Bearer") {
		return Principal{}, run.Errorf(run.CodeUnauthenticated, "the Authorization header holds no bearer token")
	}
	p, ok := s.auth.Authenticate(strings.TrimSpace(token))
	if !ok {
		return Principal{}, run.Errorf(run.CodeUnauthenticated, "the bearer token is not known")
	}
	return p, nil
}

// subject returns the name of who makes the call.
func subject(c echo.Context) string {
	p, _ := c.Get(principalKey).(Principal)
	return p.Name
}
