package condition

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/drover-run/drover/internal/suggest"
)

var (
	tokenPattern      = regexp.MustCompile(`(?s)^(?:token recognition error at: |mismatched input |extraneous input |no viable alternative at input )'(.*?)'(?: expecting .*)?$`)
	missingPattern    = regexp.MustCompile(`(?s)^missing '(.*?)' at '(.*)'$`)
	undeclaredPattern = regexp.MustCompile(`^undeclared reference to '([^'.]*)`)
	overloadPattern   = regexp.MustCompile(`^found no matching overload for '(.*)' applied to '(.*)'`)
	fieldPattern      = regexp.MustCompile(`^undefined field '(.*)'$`)
	fieldsPattern     = regexp.MustCompile(`^type '(.*)' does not support field selection$`)
	rangePattern      = regexp.MustCompile(`^expression of type '(.*)' cannot be range of a comprehension`)
	expectedPattern   = regexp.MustCompile(`^expected type '(.*)' but found '(.*)'$`)
	typePattern       = regexp.MustCompile(`^'(.*)' is not a (?:message )?type`)
	reservedPattern   = regexp.MustCompile(`^reserved identifier: (.*)$`)
	syntaxPattern     = regexp.MustCompile(`(?s)^unsupported syntax '(.*)'$`)
	keyPattern        = regexp.MustCompile(`(?s)^no such key: (.*)$`)
	indexPattern      = regexp.MustCompile(`^(?:index out of bounds: |index ')(-?\d+)`)
	conversionPattern = regexp.MustCompile(`^type conversion error from '(.*)' to '(.*)'$`)
)

// explain says what is wrong with an expression, in place of a message of the library.
// called says that the position of the message is that of a call.
func explain(message string, called bool, scope Scope) string {
	if detail, ok := strings.CutPrefix(message, "Syntax error: "); ok {
		return explainSyntax(detail)
	}
	if detail := explainTypes(message, called, scope); detail != "" {
		return detail
	}
	has := func(part string) bool { return strings.Contains(message, part) }
	switch {
	case has("invalid argument to has()"):
		return "has() tests a name, as in has(env.NAME)"
	case has("simple name"), has("not an identifier"), has("accumulator variable"):
		return `the first value of a loop is the name of its variable, as in exists(x, x == "a")`
	case has("invalid matches argument"), has("error parsing regexp"):
		return "it is not a regular expression, or repeats too much"
	case has("regex program size"):
		return "the regular expression repeats too much"
	case has("nesting limit"):
		return fmt.Sprintf("more than %d loops (all, exists, filter, map) are in each other", maxLoops)
	case has("recursion limit"):
		return fmt.Sprintf("it is nested deeper than %d", maxNesting)
	case has("count exceeds limit"):
		return fmt.Sprintf("with its loops written out, it has more than %d parts", maxNodes)
	case has("error recovery"):
		return "it has more faults, or cannot be read further"
	case has("literal"), has("overflow"):
		return "a number, a time or a duration is too large"
	case has("unescape"), has("unicode code point"):
		return `in quotes \ begins an escape such as \n: write \\`
	case has("no such overload"):
		return "the types of its values do not fit together, as in a comparison of a string with a number"
	case has("RFC 3339"), has("timestamp"):
		return "a time such as 2026-01-31T12:00:00Z is expected"
	case has("timezone"), has("time zone"):
		return "a time zone such as Europe/Berlin or +02:00 is expected"
	case has("NaN"):
		return "a value is not a number, and cannot be compared"
	}
	return plain(message)
}

// explainSyntax explains what the parser refused.
func explainSyntax(message string) string {
	if m := missingPattern.FindStringSubmatch(message); m != nil {
		if m[2] == "<EOF>" {
			return m[1] + " is missing at the end"
		}
		return m[1] + " is missing before " + m[2]
	}
	m := tokenPattern.FindStringSubmatch(message)
	if m == nil {
		return "it cannot be read from here on"
	}
	switch token := strings.TrimSpace(m[1]); {
	case token == "<EOF>":
		return "it ends too early: a value or a closing bracket is missing"
	case strings.HasPrefix(token, "="):
		return "= is no operator; == compares two values"
	case slices.Contains([]string{"and", "or", "not"}, strings.ToLower(token)), strings.HasPrefix(token, "&"), strings.HasPrefix(token, "|"):
		return token + " is no operator; && is and, || is or, ! is not"
	case strings.HasPrefix(token, `"`), strings.HasPrefix(token, "'"):
		return "the quotes that begin here are not closed"
	case strings.HasPrefix(token, "$"):
		return "a name has no $ before it; env.NAME is an environment variable"
	default:
		return fmt.Sprintf("%q cannot stand here; before it, an operator such as == or && may be missing", token)
	}
}

// explainTypes explains names that do not exist, and values that do not fit together. It
// returns "" for other messages.
func explainTypes(message string, called bool, scope Scope) string {
	find := func(p *regexp.Regexp) []string { return p.FindStringSubmatch(message) }
	if m := find(undeclaredPattern); m != nil && called {
		return noFunction(m[1])
	} else if m != nil {
		return noVariable(m[1], scope)
	}
	if m := find(overloadPattern); m != nil {
		return misapplied(m[1], m[2])
	}
	if m := find(fieldPattern); m != nil {
		return fmt.Sprintf("there is no field %q; a task has status and outputs, the run has id, name, group and counter", m[1])
	}
	if m := find(fieldsPattern); m != nil {
		return nameType(m[1]) + " has no fields"
	}
	if m := find(rangePattern); m != nil {
		return nameType(m[1]) + " has no items; all, exists, filter and map are of a list or a map"
	}
	if m := find(expectedPattern); m != nil {
		return nameType(m[2]) + " where " + nameType(m[1]) + " is expected"
	}
	if m := find(typePattern); m != nil {
		return fmt.Sprintf("there is no type %q, and { } after a name would create a value of one", m[1])
	}
	if m := find(reservedPattern); m != nil {
		return fmt.Sprintf("%q is a reserved word; a string needs quotes", m[1])
	}
	if m := find(syntaxPattern); m != nil {
		return m[1] + " is not supported"
	}
	if m := find(keyPattern); m != nil {
		return fmt.Sprintf("%q is not set; has() tests whether it is", m[1])
	}
	if m := find(indexPattern); m != nil {
		return "the list has no item " + m[1]
	}
	if m := find(conversionPattern); m != nil {
		return "its value, " + nameType(m[1]) + ", cannot become " + nameType(m[2])
	}
	return ""
}

func noFunction(name string) string {
	text := fmt.Sprintf("there is no function %q", name)
	if slices.Contains([]string{"success", "failure", "failed", "cancelled", "always"}, name) {
		return text + "; tasks.NAME.status is the status of a task"
	}
	known := []string{"size", "has", "contains", "startsWith", "endsWith", "matches", "all", "exists", "exists_one", "filter", "map", "int", "double", "string", "timestamp", "duration"}
	return text + didYouMean(name, known)
}

func noVariable(name string, scope Scope) string {
	switch name {
	case variableMatrix:
		return "only the conditions of a task with a matrix have matrix"
	case variableItem, variableItemIndex:
		return "only the conditions of a task with foreach have " + name
	}
	text := fmt.Sprintf("there is no %q", name)
	known := slices.DeleteFunc(variables(), func(v string) bool {
		return v == variableMatrix && scope != ScopeMatrix || (v == variableItem || v == variableItemIndex) && scope != ScopeForeach
	})
	if hint := didYouMean(name, known); hint != "" {
		return text + hint
	}
	return text + fmt.Sprintf("; a string needs quotes, an input is inputs.%[1]s, an environment variable is env.%[1]s", name)
}

func didYouMean(word string, known []string) string {
	if near := suggest.Nearest(word, known); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

// misapplied says that a function does not accept the types of a signature, which has the
// form "(string, int)" or "string.(int)". Operators are functions such as _==_ and !_.
func misapplied(function, signature string) string {
	of, list, member := strings.Cut(signature, ".(")
	if !member {
		of, list = "", strings.TrimPrefix(signature, "(")
	}
	types := splitTypes(strings.TrimSuffix(list, ")"))
	named := make([]string, len(types))
	for i, t := range types {
		named[i] = nameType(t)
	}
	values := strings.Join(named, " and ")
	switch function {
	case "_[_]":
		return values + " do not fit together as VALUE[KEY]"
	case "_?_:_":
		return values + " do not fit together as CONDITION ? VALUE : VALUE"
	case "@in", "_in_":
		return "in looks for a value in a list or a map, and not for " + strings.Join(named, " in ")
	case "_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_":
		text := strings.Trim(function, "_") + " cannot compare " + strings.Join(named, " with ")
		if len(types) == 2 && (types[0] == "string") != (types[1] == "string") {
			text += "; outputs and variables are strings, so the other value needs quotes"
		}
		return text
	}
	if symbol := strings.Trim(function, "_"); symbol != function {
		return symbol + " does not accept " + values
	}
	text := function + " cannot be called"
	if of != "" {
		text += " on " + nameType(of)
	}
	if len(named) == 0 {
		return text + " without a value"
	}
	return text + " with " + values
}

// splitTypes splits a list such as "string, map(string, int)".
func splitTypes(list string) []string {
	var out []string
	depth, start := 0, 0
	for i, r := range list {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case r == ',' && depth == 0:
			out = append(out, strings.TrimSpace(list[start:i]))
			start = i + 1
		}
	}
	if rest := strings.TrimSpace(list[start:]); rest != "" {
		out = append(out, rest)
	}
	return out
}

// nameType names a type of the library.
func nameType(of string) string {
	name, _, _ := strings.Cut(of, "(")
	switch name {
	case "string":
		return "a string"
	case "int", "uint", "double":
		return "a number"
	case "bool":
		return "a boolean"
	case "list":
		return "a list"
	case "map":
		return "a map"
	case "timestamp", "google.protobuf.Timestamp":
		return "a time"
	case "duration", "google.protobuf.Duration":
		return "a duration"
	case typeTask:
		return "a task"
	case typeRun:
		return "the run"
	case "null", "null_type":
		return "null"
	}
	return "a value of another type"
}

// plain shortens a message of the library and begins it in lower case, as all of
// ours do.
func plain(message string) string {
	message, _, _ = strings.Cut(message, "\n")
	first, n := utf8.DecodeRuneInString(message)
	return string(unicode.ToLower(first)) + message[n:]
}
