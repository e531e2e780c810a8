package gateway

import "slices"

// Scope is what a token may do.
type Scope string

// The scopes.
const (
	ScopeRead     Scope = "read"
	ScopeWrite    Scope = "write" // implies read
	ScopeAdmin    Scope = "admin" // implies all others
	ScopeExecutor Scope = "executor"
)

// Valid reports whether s is one of the scopes.
func (s Scope) Valid() bool {
	switch s {
	case ScopeRead, ScopeWrite, ScopeAdmin, ScopeExecutor:
		return true
	}
	return false
}

// allows reports whether a holder of s may do what needs the scope wanted.
func (s Scope) allows(wanted Scope) bool {
	switch s {
	case ScopeAdmin:
		return true
	case ScopeWrite:
		return wanted == ScopeWrite || wanted == ScopeRead
	case ScopeRead, ScopeExecutor:
		return wanted == s
	}
	return false
}

// Principal is who makes a call.
type Principal struct {
	Name   string
	Scopes []Scope
}

func (p Principal) allows(wanted Scope) bool {
	return slices.ContainsFunc(p.Scopes, func(s Scope) bool { return s.allows(wanted) })
}
