package login

import (
	"net/http"
	"strings"
)

// sessionName returns the name of the cookie of a session.
func (o *Handlers) sessionName(r *http.Request) string {
	if o.deps.Secure(r) {
		return o.cookieName(r, secureCookie)
	}
	return o.cookieName(r, sessionCookie)
}

// cookieName returns the name of a cookie with the prefix that a browser enforces.
//
// A browser accepts __Host- only in a secure cookie of exactly this host and of all its
// paths (RFC 6265bis, section 4.1.3.2). Below a base path other servers may have the
// other paths, so the cookie is that of the base path alone, which __Secure- permits. Its
// name has the base path: a gateway at /a also gets the cookies of one at the root.
func (o *Handlers) cookieName(r *http.Request, name string) string {
	// Neither a base path nor a name has a tilde, and a name must not have a slash.
	name += strings.ReplaceAll(o.deps.BasePath, "/", "~")
	switch {
	case !o.deps.Secure(r):
		return name
	case o.deps.BasePath == "":
		return "__Host-" + name
	default:
		return "__Secure-" + name
	}
}

// cookiePath returns the path for whose requests a browser sends the cookies.
func (o *Handlers) cookiePath() string {
	if o.deps.BasePath == "" {
		return "/"
	}
	return o.deps.BasePath
}
