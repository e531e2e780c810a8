// Package hostcheck protects the HTTP servers of this machine from requests that
// web pages of other servers make in a user's browser. A Host that is not a name of
// the server indicates DNS rebinding. A foreign Origin indicates a page of another
// server.
package hostcheck

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// Hosts holds the names of one server. It is safe for concurrent use.
type Hosts struct{ names map[string]bool }

// New returns the Hosts of a server with the given names, with or without a port.
// Loopback names, and the local address of a request's connection, are always
// accepted.
func New(names ...string) *Hosts {
	h := &Hosts{names: make(map[string]bool, len(names))}
	for _, n := range names {
		if name := Name(n); name != "" {
			h.names[name] = true
		}
	}
	return h
}

// CheckHost returns an error if the Host of a request is not a name of the
// server.
func (h *Hosts) CheckHost(r *http.Request) error {
	if name := Name(r.Host); h.names[name] || IsLoopback(name) || isLocal(r, name) {
		return nil
	}
	return fmt.Errorf("%q is not a name of this server", r.Host)
}

// CheckOrigin returns an error if a page of another server makes a request.
// Clients that are not browsers send no Origin.
func CheckOrigin(r *http.Request) error {
	origin := r.Header.Get("Origin")
	if origin == "" || sameOrigin(origin, r.Host) {
		return nil
	}
	return fmt.Errorf("calls from pages of %q are not allowed", origin)
}

// Handler refuses requests for other hosts and from other origins.
func (h *Hosts) Handler(next http.Handler) http.Handler {
	return refuse(next, h.CheckHost, CheckOrigin)
}

// LoopbackHandler refuses requests from other origins, and requests over
// loopback for names that are not loopback names. Use it for a server whose
// clients on the network use names that are not configured.
func LoopbackHandler(next http.Handler) http.Handler {
	none := New()
	return refuse(next, func(r *http.Request) error {
		if address, ok := localAddress(r); ok && !address.IsLoopback() {
			return nil
		}
		return none.CheckHost(r)
	}, CheckOrigin)
}

func refuse(next http.Handler, checks ...func(*http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, check := range checks {
			if err := check(r); err != nil {
				http.Error(w, err.Error(), http.StatusForbidden)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// isLocal reports whether a name is the local address of a request's connection.
func isLocal(r *http.Request, name string) bool {
	requested, err := netip.ParseAddr(name)
	if err != nil {
		return false
	}
	address, ok := localAddress(r)
	return ok && address == requested.Unmap().WithZone("")
}

func localAddress(r *http.Request) (netip.Addr, bool) {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return netip.Addr{}, false
	}
	address, err := netip.ParseAddrPort(local.String())
	return address.Addr().Unmap().WithZone(""), err == nil
}

func sameOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, host)
}

// Name returns the name of a host in canonical form, without its port.
func Name(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// IsLoopback reports whether a canonical name is localhost or a loopback address.
func IsLoopback(name string) bool {
	if name == "localhost" {
		return true
	}
	address, err := netip.ParseAddr(name)
	return err == nil && address.Unmap().IsLoopback()
}
