package gateway

import (
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/drover-run/drover/api"
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

// authorize refuses calls whose token does not have the operation's scope.
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
			if !p.Allows(op.Scope) {
				return run.Errorf(run.CodeForbidden, "token %s does not have the scope %s", p.Name, op.Scope)
			}
			c.SetRequest(c.Request().WithContext(run.WithActor(c.Request().Context(), p.Name)))
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
		if p, found, err := s.Handlers.Authenticate(r); found {
			return p, err
		}
	}
	return tokens.Check(s.auth, headers)
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
		op := openapi.Operation{ID: "codec", Method: http.MethodPost, Path: "/codec" + path, Scope: scope}
		group.POST(path, func(c echo.Context) error {
			c.Request().Body = http.MaxBytesReader(c.Response(), c.Request().Body, s.opts.MaxBody)
			codec.ServeHTTP(c.Response(), c.Request())
			return nil
		}, s.authorize(op))
		group.OPTIONS(path, func(c echo.Context) error { return c.NoContent(http.StatusNoContent) })
	}
}

// errNoTokenList is the error of gateways without run.BearerTokens.
func errNoTokenList() error {
	return run.Errorf(run.CodeNotSupported, "this gateway has no token file")
}

// ListTokens implements ServerInterface.
func (s *Server) ListTokens(c echo.Context) error {
	if s.tokens == nil {
		return errNoTokenList()
	}
	all, err := s.tokens.ListTokens(c.Request().Context())
	if err != nil {
		return err
	}
	v := api.BearerTokenList{Tokens: make([]api.BearerToken, len(all))}
	for i, t := range all {
		v.Tokens[i] = viewToken(t)
	}
	return writeJSON(c, http.StatusOK, mediaJSON, v)
}

// RevokeToken implements ServerInterface.
func (s *Server) RevokeToken(c echo.Context, name string) error {
	if s.tokens == nil {
		return errNoTokenList()
	}
	if err := s.decode(c, &struct{}{}, strict); err != nil {
		return err
	}
	t, err := s.tokens.RevokeToken(c.Request().Context(), name, subject(c))
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, mediaJSON, viewToken(t))
}

func viewToken(t run.BearerToken) api.BearerToken {
	v := api.BearerToken{
		Name: t.Name, Scopes: t.Scopes, Executor: t.Executor, Pool: t.Pool, Set: t.Set, Fleet: t.Fleet, Instance: t.Instance,
		ExpiresAt: t.Expires, LastUsedAt: t.LastUsed, RevokedAt: t.RevokedAt, RevokedBy: t.RevokedBy,
	}
	for _, at := range []*time.Time{&v.ExpiresAt, &v.LastUsedAt, &v.RevokedAt} {
		*at = at.UTC()
	}
	return v
}
