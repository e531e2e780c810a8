package sqldb

import (
	"slices"
	"strings"
)

// QueryPaths returns the groups that a query names, none if one of them is the
// root, which contains all. None of them is below another.
func QueryPaths(groups []string) []string {
	var paths, out []string
	for _, g := range groups {
		path, all := QueryPath(g)
		if all {
			return nil
		}
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for _, path := range paths {
		if !slices.ContainsFunc(out, func(above string) bool { return path == above || strings.HasPrefix(path, above+"/") }) {
			out = append(out, path)
		}
	}
	return out
}

// QueryPath returns the path of a query without a trailing slash, and whether
// every group matches it.
func QueryPath(group string) (path string, all bool) {
	path = strings.TrimRight(group, "/")
	return path, path == ""
}

// Below returns the bounds of the paths below one: '0' follows '/'.
func Below(path string) (low, high string) { return path + "/", path + "0" }

// InGroups is the condition that a column has one of the paths, or a path below one; it is
// empty without paths, or if one is the root.
func InGroups(column string, paths []string) Condition {
	var out Condition
	for i, path := range QueryPaths(paths) {
		if i > 0 {
			out.Where += ` OR `
		}
		low, high := Below(path)
		out.Where += column + ` = ? OR ` + column + ` >= ? AND ` + column + ` < ?`
		out.Args = append(out.Args, path, low, high)
	}
	if out.Where != "" {
		out.Where = `(` + out.Where + `)`
	}
	return out
}

// GroupPrefixes returns the paths by which lists find a group: its own and
// those above it. The root is "".
func GroupPrefixes(group string) []string {
	prefixes := []string{""}
	for i := 1; i < len(group); i++ {
		if group[i] == '/' {
			prefixes = append(prefixes, group[:i])
		}
	}
	return append(prefixes, group)
}
