// Package basepath serves the paths of the gateway below a base path, where a reverse
// proxy has it.
package basepath

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"
)

// firstPage is the page that the web UI shows at its root.
const firstPage = "/runs"

// redirectKey has where a request is redirected to, in its context.
const redirectKey = "drover.base_path.redirect"

// Path is a base path, such as /drover; "" serves everything at the root.
type Path string

// Strip removes the base path from the path of a request, before its route is known.
//
// A request outside the base path keeps its path. Health checks ask at the root, proxies
// may remove the base path, and executors may know the address of the gateway without it.
func (p Path) Strip(next echo.HandlerFunc) echo.HandlerFunc {
	if p == "" {
		return next
	}
	return func(c echo.Context) error {
		r := c.Request()
		switch r.URL.Path {
		case string(p):
			c.Set(redirectKey, string(p)+"/")
		case "/":
			// A proxy that removes the base path asks for this path too if the browser asks
			// for the base path, which would be redirected forever.
			c.Set(redirectKey, string(p)+firstPage)
		default:
			r.URL = p.below(r.URL)
		}
		return next(c)
	}
}

// below returns a URL without the base path, or u if it is not below it.
func (p Path) below(u *url.URL) *url.URL {
	path, ok := strings.CutPrefix(u.Path, string(p)+"/")
	raw, okRaw := strings.CutPrefix(u.RawPath, string(p)+"/")
	if !ok || u.RawPath != "" && !okRaw {
		return u
	}
	stripped := *u
	stripped.Path = "/" + path
	if okRaw {
		stripped.RawPath = "/" + raw
	}
	return &stripped
}

// Redirect answers the requests for the root and for the base path without a slash.
func (p Path) Redirect(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		to, ok := c.Get(redirectKey).(string)
		if method := c.Request().Method; !ok || method != http.MethodGet && method != http.MethodHead {
			return next(c)
		}
		if query := c.Request().URL.RawQuery; query != "" {
			to += "?" + query
		}
		return c.Redirect(http.StatusFound, to)
	}
}

// Join returns a path of the gateway as clients know it.
func (p Path) Join(path string) string { return string(p) + path }
