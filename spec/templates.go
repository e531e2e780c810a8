package spec

import (
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/drover-run/drover/internal/suggest"
	"github.com/drover-run/drover/run"
)

// templates is a set of the kinds of templates that a text may have.
type templates int

const (
	outputTemplates templates = 1 << iota
	cacheKeyTemplates
	inputTemplates
	scriptVariables // no template: the text is a script

	noTemplates templates = 0
)

var (
	outputTemplatePattern   = regexp.MustCompile(`\{\{-?\s*output\b`)
	inputTemplatePattern    = regexp.MustCompile(`\{\{-?\s*input\b`)
	foreignOutputPattern    = regexp.MustCompile(`\{\{-?\s*(?:\.|\$)?(?:outputs\b|(?:tasks|needs|steps)\.\S+\.outputs\b)`)
	pluralOutputPattern     = regexp.MustCompile("\\{\\{-?\\s*outputs\\s+[\"`]")
	scriptVariablePattern   = regexp.MustCompile(`\$(?:env:)?\{?(DROVER_[A-Za-z0-9_]+)`)
	foreignInputPattern     = regexp.MustCompile(`\{\{-?\s*(?:\.|\$)?(?:inputs|params)\b`)
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
	switch t {
	case reflect.TypeFor[run.Spec]():
		if field == "name" || field == "environment" {
			return inputTemplates
		}
	case reflect.TypeFor[run.TaskSpec]():
		switch field {
		case "environment", "foreach":
			return outputTemplates | inputTemplates
		case "image", "pool":
			return inputTemplates
		}
	case reflect.TypeFor[run.Foreach]():
		if field == "list" {
			return outputTemplates | inputTemplates
		}
	case reflect.TypeFor[run.ServiceSpec]():
		if field == "image" || field == "environment" {
			return inputTemplates
		}
	case reflect.TypeFor[run.Step]():
		switch field {
		case "environment":
			return outputTemplates | inputTemplates
		case "name", "image":
			return inputTemplates
		case "run":
			return scriptVariables
		}
	case reflect.TypeFor[run.Checkout]():
		if field == "repository" || field == "ref" || field == "sha" {
			return inputTemplates
		}
	case reflect.TypeFor[run.SaveCache](), reflect.TypeFor[run.RestoreCache]():
		if field == "key" || field == "keys" {
			return cacheKeyTemplates | inputTemplates
		}
	}
	return noTemplates
}

// checkTemplates warns about templates in a text that stay as they are. The
// detail never shows the text, which may be a secret.
func (d *decoder) checkTemplates(p run.Path, n *yaml.Node, expanded templates) {
	if !d.lint || !isString(n) || len(d.warnings) >= run.MaxFaults {
		return
	}
	if expanded&scriptVariables != 0 {
		d.checkVariables(p, n)
	}
	if !strings.Contains(n.Value, "{{") || len(d.warnings) >= run.MaxFaults {
		return
	}
	outputs, keys := outputTemplatePattern.MatchString(n.Value), cacheKeyTemplatePattern.MatchString(n.Value)
	inputs := inputTemplatePattern.MatchString(n.Value)
	var detail string
	switch {
	case inputs && expanded&inputTemplates == 0:
		detail = `{{ input "name" }} is not expanded here: set a variable in "environment", and use the variable`
	case expanded&inputTemplates != 0 && foreignInputPattern.MatchString(n.Value):
		detail = `it is not expanded: an input is named as {{ input "name" }}`
	case pluralOutputPattern.MatchString(n.Value), expanded&outputTemplates != 0 && foreignOutputPattern.MatchString(n.Value):
		detail = `it is not expanded: an output is named as {{ output "task" "key" }}`
	case outputs && expanded&outputTemplates == 0:
		detail = `{{ output "task" "key" }} is not expanded here: set a variable in "environment" of the task or step, and use the variable`
	case keys && expanded&cacheKeyTemplates == 0:
		detail = "templates of cache keys are not expanded here: the text is used as it is"
	case strings.Contains(n.Value, "${{") && (outputs || keys || inputs):
		detail = "the dollar sign before {{ stays in the text"
	case strings.Contains(n.Value, "${{"):
		detail = "${{ }} is not expanded: the text is used as it is"
	default:
		return
	}
	d.warnings = append(d.warnings, run.Fault{Path: string(p), Line: n.Line, Code: run.FaultNotExpanded, Detail: detail})
}

// checkVariables warns about variables of Drover that a script reads and that do not
// exist. The script may set such a variable itself: then it has the name elsewhere,
// too. Variables of the command line and of processes may come from an image.
func (d *decoder) checkVariables(p run.Path, n *yaml.Node) {
	if !strings.Contains(n.Value, run.VariablePrefix) {
		return
	}
	known, read := run.StepVariables(), make(map[string]int)
	for _, m := range scriptVariablePattern.FindAllStringSubmatchIndex(n.Value, -1) {
		name := n.Value[m[2]:m[3]]
		if read[name]++; read[name] > 1 || slices.Contains(known, name) || strings.Contains(name, "__") || slices.Contains(clientVariables(), name) {
			continue
		}
		if set := regexp.MustCompile(`(?:^|[^${:A-Za-z0-9_])` + name + `\b`); set.MatchString(n.Value) || len(d.warnings) >= run.MaxFaults || len(read) > maxSuggestions {
			continue
		}
		d.warnings = append(d.warnings, run.Fault{
			Path: string(p), Line: n.Line, Code: run.FaultUnknownVariable,
			Detail: "Drover sets no variable " + name + d.variableMeant(name, known),
		})
	}
}

// variableMeant returns a hint at the variable that a mistyped or shortened name may
// mean, or "".
func (d *decoder) variableMeant(name string, known []string) string {
	end := strings.TrimPrefix(name, strings.TrimSuffix(run.VariablePrefix, "_"))
	if i := slices.IndexFunc(known, func(k string) bool { return strings.HasSuffix(k, end) }); i >= 0 {
		return "; did you mean " + quote(known[i]) + "?"
	}
	if best := suggest.Nearest(name, known); best != "" {
		return "; did you mean " + quote(best) + "?"
	}
	return ""
}

// clientVariables are the variables that the command line reads.
func clientVariables() []string {
	return []string{"DROVER_SERVER", "DROVER_TOKEN", "DROVER_CONTEXT"}
}
