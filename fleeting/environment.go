package fleeting

import (
	"os"
	"slices"
	"strings"
)

// passed are the variables that every plugin gets: what programs need to run at
// all, to find the network and to trust its certificates. Credentials of clouds
// are not among them.
func passed() []string {
	return []string{
		"PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "TZ", "LANG", "LANGUAGE", "LC_*", "SSL_CERT_FILE", "SSL_CERT_DIR",
		"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
	}
}

// environment returns the variables of this process that a plugin gets: those
// that every plugin needs, and those that are named.
func environment(names []string) []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return !named(v, passed()) && !named(v, names) })
}

// named reports whether a variable, NAME=VALUE, has one of the names. A name that
// ends with a star stands for all that begin like it.
func named(variable string, names []string) bool {
	name, _, _ := strings.Cut(variable, "=")
	return slices.ContainsFunc(names, func(n string) bool {
		prefix, many := strings.CutSuffix(n, "*")
		return n == name || many && prefix != "" && strings.HasPrefix(name, prefix)
	})
}
