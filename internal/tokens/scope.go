package tokens

import (
	"slices"
	"time"

	"github.com/drover-run/drover/internal/roles"
)

// Scope is a set of calls that a token allows.
type Scope string

// The scopes.
const (
	Read     Scope = "read"
	Write    Scope = "write" // implies read
	Admin    Scope = "admin" // implies all others
	Executor Scope = "executor"
	// Exec allows commands in running tasks, and thus reading their secrets. Only
	// Admin implies it.
	Exec Scope = "exec"
)

// Valid reports whether s is one of the scopes.
func (s Scope) Valid() bool {
	switch s {
	case Read, Write, Admin, Executor, Exec:
		return true
	}
	return false
}

// allows reports whether a holder of s may make a call that needs the scope
// required.
func (s Scope) allows(required Scope) bool {
	switch s {
	case Admin:
		return true
	case Write:
		return required == Write || required == Read
	case Read, Executor, Exec:
		return required == s
	}
	return false
}

// Principal is the caller that a token identifies.
type Principal struct {
	Name   string
	Scopes []Scope
	// Groups are those of a user of an OpenID Connect provider.
	Groups []string
	// Roles bind the principal to groups. A principal without them has its scopes in all
	// groups.
	Roles   roles.Bindings
	Binding Binding
	// IssuedAt and Expires bound a short-lived token; zero for tokens that are
	// listed.
	IssuedAt, Expires time.Time
	// Refusal says why a known token is not valid: it has expired, or was revoked.
	// Authenticate returns false with it.
	Refusal error

	hash string // of a token that is listed
}

// Restricted reports whether roles in groups decide what the principal may do, and not
// its scopes.
func (p Principal) Restricted() bool { return len(p.Roles) > 0 }

// Allows reports whether the principal may make a call that needs the scope
// required. A restricted one has no scopes, but each role reads something.
func (p Principal) Allows(required Scope) bool {
	if p.Restricted() {
		return required == Read
	}
	return slices.ContainsFunc(p.Scopes, func(s Scope) bool { return s.allows(required) })
}
