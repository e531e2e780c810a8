package gateway

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/drover-run/drover/gateway/openapi"
	"github.com/drover-run/drover/internal/tokens"
	"github.com/drover-run/drover/run"
)

const principalKey = "drover.principal"

// local is the principal of calls to a gateway without tokens: any process on its
// host. No header names a caller: without authentication it could be false.
func local() tokens.Principal {
	return tokens.Principal{Name: "local", Scopes: []tokens.Scope{tokens.Admin}}
}

// authorize refuses calls whose token has neither the operation's scope, nor a role that
// allows it.
func (s *Server) authorize(op openapi.Operation) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if op.Scope == "" {
				return next(c)
			}
			p, err := s.authenticate(c.Request())
			if err != nil {
				return err
			}
			c.Set(principalKey, p) // also of a call that is refused, for the access log
			if err := s.roles.Admit(c, op, p); err != nil {
				return err
			}
			ctx := run.WithActor(c.Request().Context(), p.Name)
			if p.Restricted() {
				ctx = run.HideOthers(ctx)
			}
			c.SetRequest(c.Request().WithContext(ctx))
			return next(c)
		}
	}
}

// authenticate returns the principal of a request: of its bearer token, or of the
// session of a browser.
func (s *Server) authenticate(r *http.Request) (tokens.Principal, error) {
	if s.auth == nil {
		return local(), nil
	}
	headers := r.Header.Values("Authorization")
	if len(headers) == 0 {
		if p, found, err := s.Authenticate(r); found {
			return p, err
		}
	}
	return tokens.Check(s.auth, headers)
}

// reauthenticate returns the function that returns the principal of a request which was
// accepted before. session checks the session of a browser.
func reauthenticate(
	auth tokens.Authenticator, session func(*http.Request) (p tokens.Principal, found bool, err error),
) func(*http.Request) (tokens.Principal, error) {
	return func(r *http.Request) (tokens.Principal, error) {
		headers := r.Header.Values("Authorization")
		if len(headers) == 0 {
			if p, found, err := session(r); found {
				return p, err
			}
		}
		return tokens.Check(auth, headers)
	}
}

// secure reports whether a browser reaches the gateway over TLS.
func (s *Server) secure(r *http.Request) bool {
	return s.opts.SecureCookies || s.opts.TLS != nil || s.proxies.Secure(r)
}

// subject returns the name of the caller.
func subject(c echo.Context) string {
	return principal(c).Name
}

func principal(c echo.Context) tokens.Principal {
	p, _ := c.Get(principalKey).(tokens.Principal)
	return p
}

const codecPath = "/codec/"

// serveCodec serves the codec to Temporal's web UI and command line, for tokens
// with the scope read. Its paths and bodies are those of Temporal's codec
// servers, and not part of the contract.
func (s *Server) serveCodec(e *echo.Echo, codec http.Handler) {
	group := e.Group(strings.TrimSuffix(codecPath, "/"), middleware.CORSWithConfig(middleware.CORSConfig{
		Skipper:      func(echo.Context) bool { return len(s.opts.CodecOrigins) == 0 },
		AllowOrigins: s.opts.CodecOrigins,
		AllowMethods: []string{http.MethodPost},
		AllowHeaders: []string{echo.HeaderAuthorization, echo.HeaderContentType, "X-Namespace"},
	}))
	for path, scope := range map[string]tokens.Scope{"/decode": tokens.Read, "/encode": tokens.Write} {
		op := openapi.Operation{ID: path[1:], Method: http.MethodPost, Path: "/codec" + path, Scope: scope}
		group.POST(path, func(c echo.Context) error {
			c.Request().Body = http.MaxBytesReader(c.Response(), c.Request().Body, s.opts.MaxBody)
			codec.ServeHTTP(c.Response(), c.Request())
			return nil
		}, s.authorize(op))
		group.OPTIONS(path, func(c echo.Context) error { return c.NoContent(http.StatusNoContent) })
	}
}
