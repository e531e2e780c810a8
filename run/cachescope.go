package run

// CacheScopes returns the scopes in which a step looks for caches; the first is
// the scope to which it writes. scope is the scope of the step, "" for the
// first two elements of the group.
//
// An untrusted run writes to a scope of its own, which only untrusted runs of exactly
// its group read, so runs of other groups never read what it wrote. It also reads the
// caches of trusted runs. No group begins like the scope of an untrusted run.
func CacheScopes(group, scope string, untrusted bool) []string {
	if scope == "" {
		scope = GroupRoot(group)
	}
	if !untrusted {
		return []string{scope}
	}
	return []string{"untrusted:" + group, scope}
}
