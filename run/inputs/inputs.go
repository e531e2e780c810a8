// Package inputs checks the inputs of a run, and replaces the references to
// them. Both are pure functions of the specification.
//
// A reference is {{ input "name" }}, with the syntax of a reference to an output.
// References are replaced once, when a run is created, in the texts that rewrite
// lists. Values never contain a template, so a value cannot add references to
// outputs or calls in the key of a cache.
package inputs

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/drover-run/drover/internal/suggest"
	"github.com/drover-run/drover/internal/truncate"
	"github.com/drover-run/drover/run"
)

const (
	// maxDescription is the greatest length of a description, in bytes.
	maxDescription = 1000
	// maxMatched is the greatest length of a value that a pattern is matched with,
	// and maxProgram the greatest number of instructions of a pattern. The cost of
	// a match is their product.
	maxMatched = 1 << 10
	maxProgram = 500
	// maxSuggestions bounds the cost of suggestions.
	maxSuggestions = 10
)

// Missing says how a required input without a value is treated.
type Missing int

// The treatments of a missing value.
const (
	MissingFault   Missing = iota // it is a fault
	MissingStandIn                // a value stands in for it, so that a file can be checked without values
)

const (
	standInText   = "x" // also the name of an image
	standInNumber = "0"
	falseText     = "false"
)

var namePattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`) })

// Check returns the faults of the declarations of inputs and of their values, in
// the order of their names.
func Check(s *run.Spec, missing Missing) []run.Fault {
	c := &checker{suggestions: maxSuggestions}
	if len(s.Inputs) > run.MaxInputs {
		c.add("inputs", run.FaultOverLimit, "there are %d inputs; the limit is %d", len(s.Inputs), run.MaxInputs)
		return c.faults
	}
	names := slices.Sorted(maps.Keys(s.Inputs))
	for _, name := range names {
		before := len(c.faults)
		c.declaration(run.Path("inputs").Key(name), name, s.Inputs[name])
		value, given := s.InputValues[name]
		switch in := s.Inputs[name]; {
		case len(c.faults) > before: // faults of the value would not help
		case given:
			c.value(run.Path("input_values").Key(name), in, value)
		case in.Required && missing == MissingFault:
			c.add(run.Path("input_values").Key(name), run.FaultRequired, "the input %s is required%s", brief(name), describe(in))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.InputValues)) {
		if _, known := s.Inputs[name]; !known && !c.full() {
			c.add(run.Path("input_values").Key(name), run.FaultUnknownInput, "there is no input %s%s", brief(name), c.didYouMean(name, names))
		}
	}
	return c.faults
}

// checker collects faults, up to the limit and one more.
type checker struct {
	faults      []run.Fault
	suggestions int
}

func (c *checker) full() bool { return len(c.faults) > run.MaxFaults }

func (c *checker) add(p run.Path, code run.Code, format string, args ...any) {
	if !c.full() {
		c.faults = append(c.faults, run.Fault{Path: string(p), Code: code, Detail: fmt.Sprintf(format, args...)})
	}
}

// didYouMean returns a hint such as `; did you mean "version"?`, or the names if
// they are few, or "".
func (c *checker) didYouMean(word string, names []string) string {
	if c.suggestions == 0 {
		return ""
	}
	c.suggestions--
	const few = 5
	switch near := suggest.Nearest(word, names); {
	case near != "":
		return fmt.Sprintf("; did you mean %q?", near)
	case len(names) == 0:
		return "; the run file declares none"
	case len(names) <= few:
		return "; the inputs are " + strings.Join(names, ", ")
	}
	return ""
}

// declaration checks the declaration of an input.
func (c *checker) declaration(p run.Path, name string, in run.Input) {
	switch {
	case len(name) > run.MaxNameLength:
		c.add(p, run.FaultOverLimit, "the name has %d bytes; the limit is %d", len(name), run.MaxNameLength)
	case !namePattern().MatchString(name):
		c.add(p, run.FaultBadFormat, "%s is not the name of an input: letters, digits and underscores, no digit first", brief(name))
	}
	if len(in.Description) > maxDescription {
		c.add(p.Key("description"), run.FaultOverLimit, "the description has %d bytes; the limit is %d", len(in.Description), maxDescription)
	}
	c.text(p.Key("description"), in.Description)
	before := len(c.faults)
	types := []run.InputType{run.InputString, run.InputNumber, run.InputBoolean, run.InputChoice}
	if in.Type != "" && !slices.Contains(types, in.Type) {
		c.add(p.Key("type"), run.FaultBadValue, "%s is none of string, number, boolean, choice%s", brief(string(in.Type)),
			c.didYouMean(string(in.Type), []string{"string", "number", "boolean", "choice"}))
	}
	c.options(p.Key("options"), in)
	c.pattern(p.Key("pattern"), in)
	if len(c.faults) > before { // the default cannot be checked
		return
	}
	switch {
	case in.Default != nil && in.Required:
		c.add(p.Key("required"), run.FaultContradiction, "an input with a default is not required: leave one of the two out")
	case in.Default != nil:
		c.value(p.Key("default"), in, *in.Default)
	case in.Required || in.Type == run.InputBoolean:
	case in.Type == run.InputNumber || in.Type == run.InputChoice:
		c.add(p, run.FaultRequired, "an input of the type %s has a default or is required", in.Type)
	case in.Pattern != "" && !matches(in.Pattern, ""):
		c.add(p, run.FaultRequired, "an input whose pattern does not match the empty string has a default or is required")
	}
}

func (c *checker) options(p run.Path, in run.Input) {
	switch {
	case in.Type == run.InputChoice && len(in.Options) == 0:
		c.add(p, run.FaultRequired, "a choice has options")
		return
	case in.Type != run.InputChoice && len(in.Options) > 0:
		c.add(p, run.FaultContradiction, "only an input of the type choice has options")
		return
	case len(in.Options) > run.MaxInputOptions:
		c.add(p, run.FaultOverLimit, "there are %d options; the limit is %d", len(in.Options), run.MaxInputOptions)
		return
	}
	for i, option := range in.Options {
		if slices.Contains(in.Options[:i], option) {
			c.add(p.Index(i), run.FaultDuplicate, "%s is there already", brief(option))
		}
		c.plain(p.Index(i), option)
	}
}

func (c *checker) pattern(p run.Path, in run.Input) {
	if in.Pattern == "" {
		return
	}
	switch {
	case in.Type != "" && in.Type != run.InputString:
		c.add(p, run.FaultContradiction, "only an input of the type string has a pattern")
	case len(in.Pattern) > run.MaxPatternBytes:
		c.add(p, run.FaultOverLimit, "the pattern has %d bytes; the limit is %d", len(in.Pattern), run.MaxPatternBytes)
	default:
		c.text(p, in.Pattern)
		switch size, err := programSize(in.Pattern); {
		case err != nil:
			c.add(p, run.FaultBadFormat, "it is not a regular expression: %s", explain(err))
		case size > maxProgram:
			c.add(p, run.FaultOverLimit, "the pattern repeats too much: it has %d instructions; the limit is %d", size, maxProgram)
		}
	}
}

// explain says why a pattern is not a regular expression, and where.
func explain(err error) string {
	of, ok := errors.AsType[*syntax.Error](err)
	if !ok {
		return err.Error()
	}
	texts := map[syntax.ErrorCode]string{
		syntax.ErrInvalidCharClass:      "a class is not complete",
		syntax.ErrInvalidCharRange:      "a range in [ ] begins after its end, or has no such name",
		syntax.ErrInvalidEscape:         `\ is not followed by a character that it escapes; \\ is the character itself`,
		syntax.ErrInvalidNamedCapture:   "a group with a name is written as (?P<name>...)",
		syntax.ErrInvalidPerlOp:         "lookarounds and back references are not supported; (?: begins a group",
		syntax.ErrInvalidRepeatOp:       "one repetition follows another",
		syntax.ErrInvalidRepeatSize:     "a repetition has at most 1000 times, and the lower number first",
		syntax.ErrMissingBracket:        "] is missing",
		syntax.ErrMissingParen:          ") is missing",
		syntax.ErrMissingRepeatArgument: `a repetition has nothing before it; \ before it makes it a plain character`,
		syntax.ErrTrailingBackslash:     `it ends with a \; \\ is the character itself`,
		syntax.ErrUnexpectedParen:       ") has no ( before it",
	}
	text := texts[of.Code]
	switch {
	case text == "":
		return of.Code.String()
	case of.Expr == "":
		return text
	case strconv.CanBackquote(of.Expr): // which leaves a backslash as it is
		return "`" + truncate.String(of.Expr, 60, "…") + "`: " + text
	}
	return brief(of.Expr) + ": " + text
}

// programSize returns the number of instructions of a pattern.
func programSize(pattern string) (int, error) {
	if _, err := syntax.Parse(pattern, syntax.Perl); err != nil { // without what whole adds
		return 0, err
	}
	parsed, err := syntax.Parse(whole(pattern), syntax.Perl)
	if err != nil {
		return 0, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return 0, err
	}
	return len(program.Inst), nil
}

// whole returns a pattern that matches the whole text only.
func whole(pattern string) string { return `\A(?:` + pattern + `)\z` }

func matches(pattern, text string) bool {
	re, err := regexp.Compile(whole(pattern))
	return err == nil && re.MatchString(text)
}

// value checks a value against a declaration without faults.
func (c *checker) value(p run.Path, in run.Input, text string) {
	before := len(c.faults)
	if c.plain(p, text); len(c.faults) > before {
		return
	}
	switch {
	case in.Type == run.InputChoice && !slices.Contains(in.Options, text):
		hint := ""
		if near := suggest.Nearest(text, in.Options); near != "" {
			hint = fmt.Sprintf("; did you mean %q?", near)
		}
		c.add(p, run.FaultBadValue, "%s is none of the options %s%s", brief(text), list(in.Options), hint)
	case in.Type == run.InputNumber && in.Typed(text) == nil:
		c.add(p, run.FaultWrongType, "%s is not a number such as 3 or 0.5", brief(text))
	case in.Type == run.InputBoolean && in.Typed(text) == nil:
		c.add(p, run.FaultWrongType, "%s is neither true nor false", brief(text))
	case in.Pattern != "" && len(text) > maxMatched:
		c.add(p, run.FaultOverLimit, "the value has %d bytes; the limit of an input with a pattern is %d", len(text), maxMatched)
	case in.Pattern != "" && !matches(in.Pattern, text):
		c.add(p, run.FaultBadFormat, "%s does not match the pattern %s", brief(text), brief(in.Pattern))
	}
}

// plain rejects a value that is no plain text, such as a template.
func (c *checker) plain(p run.Path, text string) {
	switch {
	case len(text) > run.MaxInputBytes:
		c.add(p, run.FaultOverLimit, "the value has %d bytes; the limit is %d", len(text), run.MaxInputBytes)
	case strings.Contains(text, "{{") && strings.Contains(strings.ToLower(text), "secret"):
		c.add(p, run.FaultBadValue, "an input is shown to all readers and cannot be a secret: use secrets or secrets_from")
	case strings.Contains(text, "{{"):
		c.add(p, run.FaultBadValue, "a value is plain text: it cannot contain {{, which begins a template")
	default:
		c.text(p, text)
	}
}

// text rejects text that a process or a database cannot hold.
func (c *checker) text(p run.Path, text string) {
	switch {
	case strings.Contains(text, "\x00"):
		c.add(p, run.FaultBadFormat, "it has a NUL byte")
	case !utf8.ValidString(text):
		c.add(p, run.FaultBadFormat, "it is not valid UTF-8")
	}
}

// describe returns what is known of the values of an input, for a client that
// gave none.
func describe(in run.Input) string {
	switch {
	case in.Type == run.InputChoice:
		return ": one of " + list(in.Options)
	case in.Type == run.InputNumber || in.Type == run.InputBoolean:
		return ": a " + string(in.Type)
	case in.Description != "":
		return ": " + truncate.String(in.Description, run.MaxNameLength, "…")
	}
	return ""
}

// list formats options, the first ones of many.
func list(options []string) string {
	const most = 10
	shown := make([]string, 0, most)
	for _, o := range options[:min(len(options), most)] {
		shown = append(shown, truncate.String(o, run.MaxNameLength, "…"))
	}
	if len(options) > most {
		shown = append(shown, "...")
	}
	return strings.Join(shown, ", ")
}

func brief(s string) string {
	const maxLen = 60
	return strconv.Quote(truncate.String(s, maxLen, "…"))
}

// values returns the value of each input: the given one, else the default, else
// the empty string or false.
func values(s *run.Spec, missing Missing) map[string]string {
	out := make(map[string]string, len(s.Inputs))
	for name, in := range s.Inputs {
		value, given := s.InputValues[name]
		switch {
		case given:
		case in.Default != nil:
			value = *in.Default
		case in.Required && missing == MissingStandIn:
			value = standIn(in)
		case in.Type == run.InputBoolean:
			value = falseText
		}
		out[name] = value
	}
	return out
}

func standIn(in run.Input) string {
	switch in.Type {
	case run.InputNumber:
		return standInNumber
	case run.InputBoolean:
		return falseText
	case run.InputChoice:
		return in.Options[0]
	case "", run.InputString:
	}
	return standInText
}
