package run

import (
	"regexp"
	"slices"
	"strings"
	"text/template/parse"
	"unicode"
)

// cacheKeyForms returns patterns of the results of calls in the key of a cache.
// A variable, and a date in a layout of the user's, may be any text.
func cacheKeyForms() map[string]string {
	return map[string]string{
		"sha256": `[0-9a-f]{64}`, "md5": `[0-9a-f]{32}`, "os": `[a-z0-9]+`, "arch": `[a-z0-9]+`,
		"year": `[0-9]{4}`, "month": `[0-9]{2}`, "day": `[0-9]{2}`, "week": `[0-9]{2}`, "date": `.*`, "env": `.*`,
	}
}

// MatchCacheKey checks that a key is valid and that the template of a step can
// evaluate to it. The error has CodeInvalid.
func MatchCacheKey(template, key string) error {
	if err := CheckCacheKey(key); err != nil {
		return err
	}
	tree, err := parseCacheKey(template)
	if err != nil {
		return Errorf(CodeInvalid, "the template %s of a cache's key cannot be read", brief(template))
	}
	var pattern strings.Builder
	pattern.WriteString(`(?s)^`)
	for _, node := range tree.Root.Nodes {
		pattern.WriteString(cacheKeyForm(node))
	}
	pattern.WriteString(`$`)
	form, err := regexp.Compile(pattern.String())
	if err != nil || !form.MatchString(key) {
		return Errorf(CodeInvalid, "the key %s of a cache does not match the template of the step, %s", brief(key), brief(template))
	}
	return nil
}

// cacheKeyForm returns the pattern of the result of a node: a text, or the
// result of the last command of a pipeline.
func cacheKeyForm(node parse.Node) string {
	const anything = `.*`
	switch n := node.(type) {
	case *parse.TextNode:
		return regexp.QuoteMeta(string(n.Text))
	case *parse.CommentNode:
		return ""
	case *parse.ActionNode:
		last := n.Pipe.Cmds[len(n.Pipe.Cmds)-1].Args[0]
		if name, ok := last.(*parse.IdentifierNode); ok {
			if form, ok := cacheKeyForms()[name.Ident]; ok {
				return form
			}
		}
		if text, ok := last.(*parse.StringNode); ok {
			return regexp.QuoteMeta(text.Text)
		}
	}
	return anything
}

// CheckCacheKeyTemplate checks the template of the key of a cache. The error has
// CodeInvalid.
func CheckCacheKeyTemplate(template string) error {
	_, err := parseCacheKey(template)
	return err
}

// parseCacheKey parses the template of the key of a cache: text, and calls of
// CacheKeyFunctions.
func parseCacheKey(template string) (*parse.Tree, error) {
	functions := make(map[string]any)
	for _, name := range CacheKeyFunctions() {
		functions[name] = true
	}
	trees, err := parse.Parse("key", template, "", "", functions)
	switch {
	case err != nil:
		return nil, Errorf(CodeInvalid, "the template cannot be read: %s", strings.TrimPrefix(err.Error(), "template: key:1: "))
	case len(trees) != 1 || !plainTemplate(trees["key"]):
		return nil, Errorf(CodeInvalid, "a key is made of text and of calls of %s", strings.Join(CacheKeyFunctions(), ", "))
	}
	return trees["key"], nil
}

// CacheKeyFunctions returns the functions that templates of cache keys may
// call. The shim evaluates them in the environment of the step:
//
//   - sha256 and md5 of the files that globs match, relative to the step's working
//     directory;
//   - env of a variable of the step;
//   - os and arch of the environment;
//   - date in a layout of Go's, and year, month, day and week of today in UTC.
func CacheKeyFunctions() []string {
	return []string{"sha256", "md5", "env", "os", "arch", "date", "year", "month", "day", "week"}
}

// CheckCacheKey checks the key of a cache after its template was evaluated. The
// error has CodeInvalid.
func CheckCacheKey(key string) error {
	switch {
	case strings.TrimSpace(key) == "":
		return Errorf(CodeInvalid, "the key of a cache is empty")
	case len(key) > MaxCacheKeyBytes:
		return Errorf(CodeInvalid, "the key of a cache has %d bytes; the limit is %d", len(key), MaxCacheKeyBytes)
	case strings.ContainsFunc(key, unicode.IsControl) || strings.ToValidUTF8(key, "") != key:
		return Errorf(CodeInvalid, "the key %s of a cache has characters that cannot be shown", brief(key))
	}
	return nil
}

// plainTemplate reports whether a template is made of text and calls.
func plainTemplate(t *parse.Tree) bool {
	if t == nil || t.Root == nil {
		return false
	}
	for _, node := range t.Root.Nodes {
		switch n := node.(type) {
		case *parse.TextNode, *parse.CommentNode:
		case *parse.ActionNode:
			if len(n.Pipe.Decl) > 0 || slices.ContainsFunc(n.Pipe.Cmds, func(c *parse.CommandNode) bool { return !plainCommand(c) }) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

func plainCommand(c *parse.CommandNode) bool {
	for _, arg := range c.Args {
		switch a := arg.(type) {
		case *parse.IdentifierNode, *parse.StringNode, *parse.NumberNode:
		case *parse.PipeNode:
			if len(a.Decl) > 0 || slices.ContainsFunc(a.Cmds, func(c *parse.CommandNode) bool { return !plainCommand(c) }) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

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
