package run

import (
	"regexp"
	"strings"
	"text/template/parse"
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
	functions := make(map[string]any)
	for _, name := range CacheKeyFunctions() {
		functions[name] = true
	}
	trees, err := parse.Parse("key", template, "", "", functions)
	if err != nil || !plainTemplate(trees["key"]) {
		return Errorf(CodeInvalid, "the template %s of a cache's key cannot be read", brief(template))
	}
	var pattern strings.Builder
	pattern.WriteString(`(?s)^`)
	for _, node := range trees["key"].Root.Nodes {
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
