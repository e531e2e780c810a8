package gateway

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/drover-run/drover/internal/tokens"
)

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
		op := operation{id: "codec", method: http.MethodPost, path: "/codec" + path, scope: scope}
		group.POST(path, func(c echo.Context) error {
			c.Request().Body = http.MaxBytesReader(c.Response(), c.Request().Body, s.opts.MaxBody)
			codec.ServeHTTP(c.Response(), c.Request())
			return nil
		}, s.authorize(op))
		group.OPTIONS(path, func(c echo.Context) error { return c.NoContent(http.StatusNoContent) })
	}
}
