package gateway

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/drover-run/drover/run"
)

// hosts knows the names that are the gateway's own. A request for another name
// comes from a browser that was led here by a name service, and a foreign
// Origin from a page that has no business here: both are refused, so that no
// web page can make calls on behalf of whoever reads it.
type hosts struct {
	names map[string]bool
	// codecOrigins may use the codec all the same.
	codecOrigins []string
}

func newHosts(names, codecOrigins []string) hosts {
	h := hosts{names: make(map[string]bool), codecOrigins: codecOrigins}
	for _, n := range names {
		h.names[hostName(n)] = true
	}
	return h
}

// middleware refuses requests for other hosts, and from other origins.
func (h hosts) middleware(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		if !h.own(r) {
			return run.Errorf(run.CodeForbidden, "%q is not a name of this gateway", r.Host)
		}
		if origin := r.Header.Get("Origin"); origin != "" && !sameOrigin(origin, r.Host) && !h.mayDecode(r.URL.Path, origin) {
			return run.Errorf(run.CodeForbidden, "calls from pages of %q are not allowed", origin)
		}
		return next(c)
	}
}

func (h hosts) mayDecode(path, origin string) bool {
	return strings.HasPrefix(path, codecPath) && slices.Contains(h.codecOrigins, origin)
}

// own reports whether the request is for a name that was configured, for a
// loopback name, or for the address that it came in by.
func (h hosts) own(r *http.Request) bool {
	name := hostName(r.Host)
	if h.names[name] || isLoopback(name) {
		return true
	}
	asked, err := netip.ParseAddr(name)
	if err != nil {
		return false
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	address, err := netip.ParseAddrPort(local.String())
	return err == nil && address.Addr().Unmap().WithZone("") == asked.Unmap().WithZone("")
}

func sameOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, host)
}

// hostName returns the name of a host in canonical form, without its port.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

func isLoopback(name string) bool {
	if name == "localhost" {
		return true
	}
	address, err := netip.ParseAddr(name)
	return err == nil && address.Unmap().IsLoopback()
}
