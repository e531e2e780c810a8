package fleeting

import (
	"os"
	"slices"
	"strings"
)

// defaultVariables lists the variables that every plugin gets: those that programs need
// to run, to find the network and to verify certificates. Cloud credentials are
// not among them.
func defaultVariables() []string {
	return []string{
		"PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "TZ", "LANG", "LANGUAGE", "LC_*", "SSL_CERT_FILE", "SSL_CERT_DIR",
		"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
	}
}

// environment returns the variables of this process that a plugin gets: the
// default ones, and those that names lists.
func environment(names []string) []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return !matchesAny(v, defaultVariables()) && !matchesAny(v, names) })
}

// matchesAny reports whether a variable, NAME=VALUE, matches one of the names. A
// name that ends with a star matches every variable with that prefix.
func matchesAny(variable string, names []string) bool {
	name, _, _ := strings.Cut(variable, "=")
	return slices.ContainsFunc(names, func(n string) bool {
		prefix, many := strings.CutSuffix(n, "*")
		return n == name || many && prefix != "" && strings.HasPrefix(name, prefix)
	})
}
