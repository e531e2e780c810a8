package message

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/drover-run/drover/internal/suggest"
)

var (
	positionPattern = regexp.MustCompile(`(?s)^template: (?:template:(\d+)(?::\d+)?: )?(?:executing "template" at <.*?>: )?(.*)$`)
	functionPattern = regexp.MustCompile(`^function "(.*)" not defined$`)
	fieldPattern    = regexp.MustCompile(`^(?:can't evaluate field (\S+) in type (.*)|(\S+) has arguments but cannot be invoked as function|(\S+) is not a method but has arguments)$`)
	variablePattern = regexp.MustCompile(`^undefined variable:? "?(\$[^"]*)"?$`)
	startPattern    = regexp.MustCompile(` started at template:(\d+)`)
	tokenPattern    = regexp.MustCompile(`(?s)^unexpected (?:"(.*)"|<(.*)>)(?:\.\.\.)? in `)
	characterRegexp = regexp.MustCompile(`(?s)^(?:bad character|unrecognized character in action:) U\+[0-9A-F]+ '(.*)'$`)
	numberPattern   = regexp.MustCompile(`(?s)^bad number syntax: "(.*)"$`)
	missingPattern  = regexp.MustCompile(`^missing value for (\w+)$`)
	callPattern     = regexp.MustCompile(`^(?:error calling (\w+): |wrong number of args for (\w+): )(.*)$`)
	typesPattern    = regexp.MustCompile(`^incompatible types for comparison: (\S+) and (\S+)$`)
)

// explain says why package template refused a text, in place of its message.
func explain(text string, err error) error {
	m := positionPattern.FindStringSubmatch(err.Error())
	if m == nil {
		return err
	}
	line, message := m[1], m[2]
	if start := startPattern.FindStringSubmatch(message); start != nil {
		line, message = start[1], startPattern.ReplaceAllString(message, "")
	}
	detail := explainMessage(message)
	if line != "" && strings.Contains(text, "\n") {
		return fmt.Errorf("line %s: %s", line, detail)
	}
	return errors.New(detail)
}

func explainMessage(message string) string {
	find := func(p *regexp.Regexp) []string { return p.FindStringSubmatch(message) }
	if m := find(functionPattern); m != nil {
		return noFunction(m[1])
	}
	if m := find(fieldPattern); m != nil && m[1] != "" {
		return noField(m[1], m[2])
	} else if m != nil {
		return "." + m[3] + m[4] + " is a field, and takes no values"
	}
	if m := find(variablePattern); m != nil {
		return "there is no variable " + m[1]
	}
	if m := find(tokenPattern); m != nil && m[1] == "=" {
		return `= cannot stand here; eq compares, as in {{if eq .Outcome "failed"}}`
	} else if m != nil {
		return fmt.Sprintf("%s cannot stand here", m[1]+m[2])
	}
	if m := find(characterRegexp); m != nil && m[1] == "}" {
		return "{{ is closed with }}, and not with }"
	} else if m != nil {
		return fmt.Sprintf("the character %s cannot stand here; a text is in double quotes", m[1])
	}
	if m := find(numberPattern); m != nil {
		return m[1] + " is not a number"
	}
	if m := find(missingPattern); m != nil && m[1] != "command" {
		return m[1] + " needs a value, as in {{if .Failed}}"
	}
	if m := find(callPattern); m != nil {
		return misapplied(m[1]+m[2], m[3])
	}
	has := func(part string) bool { return strings.Contains(message, part) }
	switch {
	case message == "unexpected EOF":
		return "an {{if}}, {{with}} or {{range}} is not closed with {{end}}"
	case message == "unexpected {{end}}", strings.HasPrefix(message, "unexpected {{else}}"):
		return strings.TrimPrefix(message, "unexpected ") + " has no {{if}}, {{with}} or {{range}} before it"
	case has("unclosed action"):
		return "{{ is not closed with }}"
	case has("paren"):
		return "( and ) do not match"
	case has("unterminated"), has("character constant"), has("unquoted"), has("invalid syntax"):
		return "a text is in double quotes, and ends in the same line"
	case has("comment"):
		return "a comment has the form {{/* ... */}}"
	case has("non executable command"):
		return "a function is expected after |"
	case has("missing value for command"), has("empty command"):
		return "{{ }} has no content"
	case has("outside {{range}}"):
		return strings.TrimSuffix(message, " outside {{range}}") + " is for {{range}} alone"
	case has("declaration"), has("initialize variables"):
		return "a variable is declared as {{$x := .Name}}"
	case has("can't give argument"), has("not a command"):
		return "a field, or a function with its values, is expected"
	case has("expected end"):
		return "there is a second {{else}}"
	case has("overflow"):
		return "a number is too large"
	case has("max expression depth"):
		return "it is nested too deeply"
	}
	return "it cannot be read: " + message
}

func noFunction(name string) string {
	if slices.Contains(fieldsOf(reflect.TypeFor[Data]()), name) || slices.Contains(fieldsOf(reflect.TypeFor[Task]()), name) {
		return "a field begins with a dot: {{." + name + "}}"
	}
	return fmt.Sprintf("there is no function %q; there are %s, and a field begins with a dot: {{.Name}}", name, strings.Join(functions(), ", "))
}

// noField says which fields a type has.
func noField(name, of string) string {
	for _, t := range []reflect.Type{reflect.TypeFor[Data](), reflect.TypeFor[Task]()} {
		if t.String() != of {
			continue
		}
		known := fieldsOf(t)
		if near := suggest.Nearest(name, known); near != "" {
			return fmt.Sprintf("there is no field .%s here; did you mean .%s?", name, near)
		}
		return fmt.Sprintf("there is no field .%s here; there are .%s", name, strings.Join(known, ", ."))
	}
	return fmt.Sprintf("%s has no field .%s", nameType(of), name)
}

func fieldsOf(t reflect.Type) []string {
	var names []string
	for f := range t.Fields() {
		names = append(names, f.Name)
	}
	return names
}

// misapplied says why a function was not called.
func misapplied(function, message string) string {
	if m := typesPattern.FindStringSubmatch(message); m != nil {
		return function + " cannot compare " + nameType(m[1]) + " with " + nameType(m[2])
	}
	switch function {
	case "len":
		return "len is of one text or list, as in {{len .Failed}}"
	case "not":
		return "not is of one value, as in {{if not .Failed}}"
	case "and", "or":
		return function + " needs a value"
	}
	return function + ` compares two texts or numbers, as in {{if eq .Outcome "failed"}}`
}

// nameType names a type of a value in a template.
func nameType(of string) string {
	switch of {
	case "string":
		return "a text"
	case "int", "float64":
		return "a number"
	case "bool":
		return "true or false"
	case reflect.TypeFor[Task]().String():
		return "a task"
	case reflect.TypeFor[Data]().String():
		return "the message"
	}
	if strings.HasPrefix(of, "[]") {
		return "a list"
	}
	return "a value of another type"
}
