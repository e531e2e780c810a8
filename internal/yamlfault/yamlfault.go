// Package yamlfault explains why a text is not YAML, in words for people who do not
// know how a parser works.
package yamlfault

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// maxSearched bounds the text in which Explain looks for the line, in bytes: it
// parses parts of the text repeatedly.
const maxSearched = 128 << 10

var (
	fieldPattern   = regexp.MustCompile(`^field (.*) not found in type `)
	typePattern    = regexp.MustCompile(`(?s)^cannot unmarshal (!\S*)(?: .*)? into (.+)$`)
	twicePattern   = regexp.MustCompile(`(?s)^(?:mapping key (".*") already defined at (line \d+)|field (.*) already set in type .*)$`)
	linePattern    = regexp.MustCompile(`^line (\d+): `)
	numberPattern  = regexp.MustCompile(`^(?:u?int|float)\d*$`)
	messagePattern = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)
	// Values of a key or of an item that need quotes. The text is not shown: it may be
	// a secret.
	templatePattern = regexp.MustCompile(`^\s*(?:- +)*(?:[^\s"'{:]+: +)?\{\{`)
	quotedPattern   = regexp.MustCompile(`^\s*(?:- +)*(?:[^\s"':]+: +)?(?:"(?:[^"\\]|\\.)*"|'[^']*')\s*[^\s:#,\]}]`)
	blockPattern    = regexp.MustCompile(`(?:^|[\s:-])[|>][-+0-9]*\s*(?:#.*)?$`)
	itemPattern     = regexp.MustCompile(`^(?:- +)+`)
)

// Explain returns the line of the mistake for which package yaml refused a text, 0 if
// it is unknown, and what is wrong. It never returns a part of the text.
func Explain(text []byte, err error) (line int, detail string) {
	if _, ok := errors.AsType[*time.ParseError](err); ok { // it has the value, and no line
		return 0, "a time such as 2026-01-31T12:00:00Z is expected"
	}
	message := err.Error()
	if m := messagePattern.FindStringSubmatch(message); m != nil {
		message = message[len(m[0]):]
		if n, err := strconv.Atoi(m[1]); err == nil {
			line = n
		}
	}
	lines := strings.SplitAfter(string(text), "\n")
	if len(text) <= maxSearched && refuse(text) == err.Error() {
		// The library tells where the surrounding list or map begins. The mistake is in
		// the last line without which the text has another fault, or none.
		line = 1 + sort.Search(len(lines)-1, func(n int) bool {
			return refuse([]byte(strings.Join(lines[:n+1], ""))) == err.Error()
		})
	}
	if line < 1 || line > len(lines) {
		return 0, explain(message, "", nil)
	}
	return line, explain(message, strings.TrimRight(lines[line-1], "\r\n"), lines[:line-1])
}

// Error is what Explain returns as an error, "line 3: the quotes that begin here are
// not closed". It also explains the values that the decoding into a variable refused,
// each in a line.
func Error(text []byte, err error, into any) error {
	if refused, ok := errors.AsType[*yaml.TypeError](err); ok {
		var all []error
		for _, v := range Refused(refused, into) {
			all = append(all, errorAt(v.Line, v.Detail))
		}
		return errors.Join(all...)
	}
	return errorAt(Explain(text, err))
}

func errorAt(line int, detail string) error {
	if line == 0 {
		return errors.New(detail)
	}
	return fmt.Errorf("line %d: %s", line, detail)
}

// Value is a value that the decoding refused. Line is 0 if it is unknown.
type Value struct {
	Line   int
	Detail string
}

// Refused explains the values that the decoding into a variable refused.
func Refused(err *yaml.TypeError, into any) []Value {
	types := make(namedTypes)
	types.add(reflect.TypeOf(into))
	out := make([]Value, len(err.Errors))
	for i, message := range err.Errors {
		if m := linePattern.FindStringSubmatch(message); m != nil {
			out[i].Line, _ = strconv.Atoi(m[1])
			message = message[len(m[0]):]
		}
		out[i].Detail = types.explainValue(message)
	}
	return out
}

// namedTypes are what the types with names that a variable consists of accept.
type namedTypes map[string]string

// add adds the types of a variable of type t.
func (n namedTypes) add(t reflect.Type) {
	if t == nil {
		return
	}
	if t.Name() != "" {
		if _, known := n[t.String()]; known {
			return
		}
		n[t.String()] = accepted(t)
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		n.add(t.Elem())
	case reflect.Map:
		n.add(t.Key())
		n.add(t.Elem())
	case reflect.Struct:
		for field := range t.Fields() {
			n.add(field.Type)
		}
	default:
	}
}

// accepted names what a type accepts.
func accepted(t reflect.Type) string {
	switch pointer := reflect.PointerTo(t); {
	case pointer.Implements(reflect.TypeFor[yaml.Unmarshaler]()):
		return other
	case pointer.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		return "a text"
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "a map"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Float32, reflect.Float64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return "a number"
	default:
		return other
	}
}

// other names a value of a type that is not known.
const other = "a value of another type"

// explainValue says what is wrong with a value, in place of a message of package yaml,
// which has the value and names types of Go.
func (n namedTypes) explainValue(message string) string {
	if m := fieldPattern.FindStringSubmatch(message); m != nil {
		return "there is no key " + strconv.Quote(m[1])
	}
	if m := twicePattern.FindStringSubmatch(message); m != nil && m[1] != "" {
		return "the key " + m[1] + " is there already, in " + m[2]
	} else if m != nil {
		return "the key " + strconv.Quote(m[3]) + " is there already"
	}
	if m := typePattern.FindStringSubmatch(message); m != nil {
		return kind(m[1]) + " where " + n.expected(m[2]) + " is expected"
	}
	return other + " is expected"
}

// kind names the type of a value by its tag.
func kind(tag string) string {
	switch tag {
	case "!!map":
		return "a map"
	case "!!seq":
		return "a list"
	case "!!str":
		return "a text"
	case "!!bool":
		return "true or false"
	case "!!int", "!!float":
		return "a number"
	}
	return other
}

// expected names what a type of Go accepts.
func (n namedTypes) expected(goType string) string {
	switch {
	case goType == "time.Duration":
		return "a duration such as 90s"
	case goType == "time.Time":
		return "a time such as 2026-01-31T12:00:00Z"
	case n[goType] != "":
		return n[goType]
	case goType == "string":
		return "a text"
	case goType == "bool":
		return "true or false"
	case numberPattern.MatchString(goType):
		return "a number"
	case strings.HasPrefix(goType, "["):
		return "a list"
	case strings.HasPrefix(goType, "map["), strings.HasPrefix(goType, "struct {"):
		return "a map"
	}
	return other
}

// refuse returns the message with which package yaml refuses a text, "" if it does
// not.
func refuse(text []byte) (message string) {
	defer func() {
		if r := recover(); r != nil {
			message = fmt.Sprint(r)
		}
	}()
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		switch err := decoder.Decode(new(yaml.Node)); {
		case errors.Is(err, io.EOF):
			return ""
		case err != nil:
			return err.Error()
		}
	}
}

// explain says what is wrong with a line, which follows others, in place of a message
// of package yaml.
func explain(message, line string, above []string) string {
	has := func(part string) bool { return strings.Contains(message, part) }
	indent := line[:len(line)-len(strings.TrimLeft(line, " \t-"))]
	switch {
	case strings.Contains(indent, "\t") && (has("tab character") || has("cannot start any token")):
		return "a tab is part of the indentation: YAML allows only spaces there"
	case has("cannot start any token"):
		return "a text that begins with @, % or ` needs quotes"
	case has("unknown anchor"), has("alphabetic or numeric character"):
		return "a text that begins with * or & needs quotes: they stand for an anchor, and this one does not exist"
	case has("anchor ") && has("contains itself"):
		return "an anchor contains itself"
	case has("tag URI"), has("tag handle"), has("expected '!'"), has("URI escaped"), has("expected '>'"):
		return "a text that begins with ! needs quotes"
	case has("comment or line break"), has("indentation indicator"):
		return "the text of | or > begins in the next line; a text that begins with one of them needs quotes"
	case has("unknown escape character"), has("hexdecimal number"), has("Unicode character escape"):
		return `in double quotes \ begins an escape such as \n: write \\, or use single quotes`
	case has("unexpected end of stream"), has("unexpected document indicator"):
		return "the quotes that begin here are not closed"
	case has("control characters"):
		return "there is a control character, which YAML does not allow"
	case has("max depth"):
		return "it is nested too deeply"
	case has("excessive aliasing"):
		return "with its aliases written out, it would be too large"
	case has("map merge"):
		return "<< merges a map, or a list of maps"
	case has("invalid map key"):
		return "a key is a text, and not a list or a map"
	case has("base64"):
		return "a value after !!binary is not base64"
	case has("cannot decode"):
		return "a value does not fit the type before it, such as !!int"
	case has("node content"), has("',' or"):
		return "[ and { begin a list or a map: it is not closed, or a comma is missing; a text with them needs quotes"
	case has("mapping values are not allowed"):
		return valueFault(line)
	case has("expected key"), has("expected ':'"), has("'-' indicator"), has("document start"), has("entries are not allowed"), has("keys are not allowed"):
		return layoutFault(message, line, above)
	}
	return "it is not YAML: " + message
}

// valueFault explains a ": " that is not after a key.
func valueFault(line string) string {
	if key, _, _ := strings.Cut(itemPattern.ReplaceAllString(strings.TrimSpace(line), ""), ":"); strings.Count(line, ": ") < 2 && !strings.ContainsAny(key, " \"'") {
		return `the key cannot stand here, below a text: check the indentation, the quotes above, and that a space follows each ":"`
	}
	return `": " within a text would begin another key: put the whole text in quotes, or write it below a |`
}

// layoutFault explains a line that does not continue what is above it.
func layoutFault(message, line string, above []string) string {
	own := width(line)
	open, block, begun := openIndents(own, above)
	fits := slices.Contains(open, own)
	switch {
	case block > 0 && !begun:
		return fmt.Sprintf("the text below the | or > of line %d has to be indented more than that line", block)
	case block > 0:
		return fmt.Sprintf("the text below the | or > of line %d ends here, because this line is indented less than its first line", block)
	case templatePattern.MatchString(line):
		return "a text that begins with {{ needs quotes around all of it"
	case quotedPattern.MatchString(line):
		return "the text goes on after its closing quote: put all of it in quotes, or write it below a |"
	case !fits && len(open) > 0:
		return fmt.Sprintf("the line is indented by %d spaces, which fits no line above: %s would", own, nearest(open, own))
	case strings.Contains(message, "expected ':'"):
		return `the line is no key, because no ": " follows it, and no item of a list`
	}
	return `the line does not continue what is above it: items of a list ("- ") and keys cannot be mixed at one indentation`
}

// width returns how many characters indent a line.
func width(line string) int { return len(line) - len(strings.TrimLeft(line, " \t")) }

// openIndents returns the indentations that may follow the lines above, descending,
// and the number of the line with the | or > of a text that ends because the next
// line is indented less, 0 for none; begun says that the text has lines.
func openIndents(own int, above []string) (open []int, block int, begun bool) {
	last := -1
	for i, line := range slices.Backward(above) {
		text := strings.TrimRight(line, " \t\r\n")
		trimmed := strings.TrimLeft(text, " \t")
		if trimmed == "" || trimmed[0] == '#' {
			continue
		}
		outer := width(text)
		inner := outer + len(itemPattern.FindString(trimmed))
		if last < 0 || outer < last {
			if blockPattern.MatchString(text) && (last < 0 || last > own) {
				return nil, i + 1, last >= 0
			}
			for _, n := range []int{inner, outer} {
				if !slices.Contains(open, n) && (last < 0 || n < last) {
					open = append(open, n)
				}
			}
			last = outer
		}
	}
	return open, 0, false
}

// nearest names the indentations next to one, of a descending list.
func nearest(open []int, own int) string {
	after := slices.IndexFunc(open, func(n int) bool { return n < own })
	switch {
	case after < 0:
		return strconv.Itoa(open[len(open)-1])
	case after == 0:
		return strconv.Itoa(open[0])
	}
	return fmt.Sprintf("%d or %d", open[after], open[after-1])
}
