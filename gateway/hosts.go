package gateway

import (
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/drover-run/drover/internal/hostcheck"
	"github.com/drover-run/drover/run"
)

// hosts refuses requests for other hosts and from other origins.
type hosts struct {
	own *hostcheck.Hosts
	// codecOrigins are the origins that may use the codec nevertheless.
	codecOrigins []string
}

func newHosts(names, codecOrigins []string) hosts {
	return hosts{own: hostcheck.New(names...), codecOrigins: codecOrigins}
}

func (h hosts) middleware(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		if err := h.own.CheckHost(r); err != nil {
			return &run.Error{Code: run.CodeForbidden, Message: err.Error()}
		}
		if err := hostcheck.CheckOrigin(r); err != nil && !h.mayDecode(r) {
			return &run.Error{Code: run.CodeForbidden, Message: err.Error()}
		}
		return next(c)
	}
}

func (h hosts) mayDecode(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, codecPath) && slices.Contains(h.codecOrigins, r.Header.Get("Origin"))
}
