package spec

import (
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/drover-run/drover/run"
)

// templates is a kind of templates that a text may have.
type templates int

const (
	noTemplates templates = iota
	outputTemplates
	cacheKeyTemplates
)

var (
	outputTemplatePattern   = regexp.MustCompile(`\{\{-?\s*output\b`)
	cacheKeyTemplatePattern = regexp.MustCompile(`\{\{-?\s*(?:` + strings.Join(run.CacheKeyFunctions(), "|") + ")\\s*[\"`(|}-]")
)

// Warnings returns what is probably a mistake in a specification without
// faults: templates in texts that do not expand them, each with its path and
// line, at most run.MaxFaults. It returns none for input that cannot be read.
func Warnings(data []byte, format Format) []run.Fault {
	root, err := parse(data, format)
	if err != nil {
		return nil
	}
	d := newDecoder(nil)
	d.lint = true
	d.document(root)
	return d.warnings
}

// expandedIn returns the templates that are expanded in a field of a type.
func expandedIn(t reflect.Type, field string) templates {
	switch {
	case t == reflect.TypeFor[run.TaskSpec]() && slices.Contains([]string{"environment", "foreach"}, field),
		t == reflect.TypeFor[run.Step]() && field == "environment":
		return outputTemplates
	case t == reflect.TypeFor[run.SaveCache]() && field == "key", t == reflect.TypeFor[run.RestoreCache]() && field == "keys":
		return cacheKeyTemplates
	}
	return noTemplates
}

// checkTemplates warns about templates in a text that stay as they are. The
// detail never shows the text, which may be a secret.
func (d *decoder) checkTemplates(p run.Path, n *yaml.Node, expanded templates) {
	if !d.lint || !isString(n) || !strings.Contains(n.Value, "{{") || len(d.warnings) == run.MaxFaults {
		return
	}
	outputs, keys := outputTemplatePattern.MatchString(n.Value), cacheKeyTemplatePattern.MatchString(n.Value)
	var detail string
	switch {
	case outputs && expanded != outputTemplates:
		detail = `{{ output "task" "key" }} is not expanded here: set a variable in "environment" of the task or step, and use the variable`
	case keys && expanded != cacheKeyTemplates:
		detail = "templates of cache keys are not expanded here: the text is used as it is"
	case strings.Contains(n.Value, "${{") && (outputs || keys):
		detail = "the dollar sign before {{ stays in the text"
	case strings.Contains(n.Value, "${{"):
		detail = "${{ }} is not expanded: the text is used as it is"
	default:
		return
	}
	d.warnings = append(d.warnings, run.Fault{Path: string(p), Line: n.Line, Code: run.FaultNotExpanded, Detail: detail})
}
