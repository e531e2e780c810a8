package run

// CacheScopes returns the scopes in which a step looks for caches, the one that
// it writes to first. scope is what the step says, "" for the first two
// elements of the group. What a run writes that is not trusted is for such runs
// of exactly its group, so that nobody whose group is another meets it; it also
// reads what others wrote. No group begins like the scope of such a run.
func CacheScopes(group, scope string, untrusted bool) []string {
	if scope == "" {
		scope = GroupRoot(group)
	}
	if !untrusted {
		return []string{scope}
	}
	return []string{"untrusted:" + group, scope}
}
