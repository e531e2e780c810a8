// Package condition compiles and evaluates the conditions of tasks and steps: CEL
// expressions over the inputs, the environment and the annotations of a run, and
// the statuses and outputs of earlier tasks.
//
// Conditions come from users, and the records evaluate them within transactions.
// So everything is limited: the length of an expression, the nesting, the cost of
// an evaluation. An expression has no access to the clock, to randomness or to
// anything else than its Values.
package condition

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/cel"

	"github.com/drover-run/drover/internal/truncate"
)

// Limits of an expression.
const (
	MaxBytes = 2 << 10 // of its text

	// MaxCost is in units of CEL, of which a computer does some million in a
	// second. A comparison costs 1 to 3, and a search in a text costs 1 for each 10
	// bytes.
	MaxCost      = 20_000
	maxNesting   = 50
	maxNodes     = 1_000 // after the expansion of macros
	maxLoops     = 2     // nested comprehensions
	maxRegexSize = 1_000 // instructions
	maxFaults    = 5     // of one expression
	maxShown     = 200   // bytes of an expression in a reason
)

// Scope says which variables an expression has in addition to those that all have.
type Scope int

// The scopes.
const (
	ScopeTask    Scope = iota
	ScopeMatrix        // a task with a matrix: matrix
	ScopeForeach       // a task with a foreach: item and item_index
)

// ScopeOf returns the scope of the conditions of a task and its steps.
func ScopeOf(foreach, matrix bool) Scope {
	switch {
	case foreach:
		return ScopeForeach
	case matrix:
		return ScopeMatrix
	}
	return ScopeTask
}

// Condition is a compiled expression. It is safe for concurrent use.
type Condition struct {
	text    string
	program cel.Program
	refs    Refs
}

// Fault is a fault of an expression.
type Fault struct {
	Line   int // from 1, 0 if the fault has no position
	Column int // in characters, from 1
	Detail string
}

// In returns the detail with its position. It names the line only if text has several.
func (f Fault) In(text string) string {
	switch {
	case f.Line == 0:
		return f.Detail
	case strings.Contains(strings.TrimSpace(text), "\n"):
		return fmt.Sprintf("line %d, column %d: %s", f.Line, f.Column, f.Detail)
	}
	return fmt.Sprintf("column %d: %s", f.Column, f.Detail)
}

// Compile parses an expression and checks its types. The condition is nil if there
// are faults. Compile does not check the names that the expression reads: see Refs.
func Compile(text string, scope Scope) (*Condition, []Fault) {
	switch {
	case len(text) > MaxBytes:
		return nil, []Fault{{Detail: fmt.Sprintf("the expression has %d bytes; the limit is %d", len(text), MaxBytes)}}
	case !utf8.ValidString(text):
		return nil, []Fault{{Detail: "the expression is not valid UTF-8"}}
	case strings.TrimSpace(text) == "":
		return nil, []Fault{{Detail: "the expression is blank"}}
	}
	env, err := environment(scope)
	if err != nil {
		return nil, []Fault{{Detail: "the expression cannot be read: " + err.Error()}}
	}
	ast, issues := env.Compile(text)
	switch {
	case issues.Err() == nil:
	case strings.Contains(text, "{{"):
		return nil, []Fault{{Detail: "a condition is an expression without {{ and }}: tasks.NAME.outputs.KEY is an output"}}
	default:
		return nil, faultsOf(issues, text, scope)
	}
	if out := ast.OutputType(); !out.IsExactType(cel.BoolType) && !out.IsExactType(cel.DynType) {
		return nil, []Fault{{Detail: fmt.Sprintf("the expression is %s; a condition is a boolean", nameType(out.String()))}}
	}
	refs, faults := references(ast)
	if len(faults) > 0 {
		return nil, faults
	}
	program, err := env.Program(ast, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(MaxCost))
	if err != nil {
		return nil, []Fault{{Detail: explain(err.Error(), false, scope)}}
	}
	return &Condition{text: text, program: program, refs: refs}, nil
}

// Text returns the text of the expression.
func (c *Condition) Text() string { return c.text }

// Refs returns what the expression reads.
func (c *Condition) Refs() *Refs { return &c.refs }

// Holds evaluates the condition, and returns what that cost. The error is a sentence
// for users.
func (c *Condition) Holds(ctx context.Context, v Values) (holds bool, cost uint64, err error) {
	value, details, err := c.program.ContextEval(ctx, v.activation())
	cost = MaxCost
	if details != nil && details.ActualCost() != nil {
		cost = *details.ActualCost()
	}
	if err != nil {
		if strings.Contains(err.Error(), "cost limit exceeded") {
			return false, cost, errors.New("its evaluation takes too long")
		}
		return false, cost, errors.New(explain(err.Error(), false, ScopeTask))
	}
	holds, ok := value.Value().(bool)
	if !ok {
		return false, cost, fmt.Errorf("its value is %s; a condition is a boolean", nameType(value.Type().TypeName()))
	}
	return holds, cost, nil
}

// Shown returns an expression as it appears in reasons: on one line, and shortened
// if it is long.
func Shown(text string) string {
	return truncate.String(strings.Join(strings.Fields(text), " "), maxShown, "…")
}

func faultsOf(issues *cel.Issues, text string, scope Scope) []Fault {
	var out []Fault
	for _, e := range issues.Errors() {
		if len(out) == maxFaults {
			break
		}
		var f Fault
		if e.Location != nil && e.Location.Line() > 0 {
			f.Line, f.Column = e.Location.Line(), e.Location.Column()+1
		}
		f.Detail = explain(e.Message, f.characterIn(text) == '(', scope)
		out = append(out, f)
	}
	return out
}

// characterIn returns the character at the position of the fault, 0 if there is none.
func (f Fault) characterIn(text string) rune {
	lines := strings.Split(text, "\n")
	if f.Line < 1 || f.Line > len(lines) {
		return 0
	}
	if line := []rune(lines[f.Line-1]); f.Column <= len(line) {
		return line[f.Column-1]
	}
	return 0
}
