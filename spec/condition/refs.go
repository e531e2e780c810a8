package condition

import (
	"fmt"
	"slices"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// Refs are the names that an expression reads, in the order of the expression.
type Refs struct {
	Tasks  []Ref
	Inputs []Ref
	Env    []Ref
	Axes   []Ref // of the matrix
	// Item says that the expression reads the item of a foreach, or its index.
	Item bool
	// WholeEnv says that the expression reads env in other ways than by names.
	WholeEnv bool
}

// Ref is a name that an expression reads.
type Ref struct {
	Name string
	// Outputs says, of a task, that the expression reads its outputs.
	Outputs bool
	// Tested says that the expression only tests whether the name exists.
	Tested bool
	at     Fault // the position
}

// Fault returns a fault at the position of the reference.
func (r Ref) Fault(format string, args ...any) Fault {
	f := r.at
	f.Detail = fmt.Sprintf(format, args...)
	return f
}

// walker collects the references of an expression.
type walker struct {
	source *ast.SourceInfo
	refs   Refs
	faults []Fault
}

// references returns what an expression reads. Tasks must be named by constants, so
// that the validation knows them and the records load nothing else.
func references(of *cel.Ast) (Refs, []Fault) {
	w := walker{source: of.NativeRep().SourceInfo()}
	w.expr(of.NativeRep().Expr())
	return w.refs, w.faults
}

func (w *walker) at(e ast.Expr) Fault {
	l := w.source.GetStartLocation(e.ID())
	return Fault{Line: l.Line(), Column: l.Column() + 1}
}

func (w *walker) fault(e ast.Expr, format string, args ...any) {
	w.faults = append(w.faults, Ref{at: w.at(e)}.Fault(format, args...))
}

func (w *walker) expr(e ast.Expr) {
	if w.reference(e) {
		return
	}
	switch e.Kind() {
	case ast.SelectKind:
		w.expr(e.AsSelect().Operand())
	case ast.CallKind:
		call := e.AsCall()
		if call.IsMemberFunction() {
			w.expr(call.Target())
		}
		for _, arg := range call.Args() {
			w.expr(arg)
		}
	case ast.ListKind:
		for _, item := range e.AsList().Elements() {
			w.expr(item)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			w.expr(entry.AsMapEntry().Key())
			w.expr(entry.AsMapEntry().Value())
		}
	case ast.StructKind:
		for _, field := range e.AsStruct().Fields() {
			w.expr(field.AsStructField().Value())
		}
	case ast.ComprehensionKind:
		w.comprehension(e)
	case ast.IdentKind:
		w.ident(e)
	case ast.LiteralKind, ast.UnspecifiedExprKind:
	}
}

func (w *walker) ident(e ast.Expr) {
	switch name := e.AsIdent(); name {
	case variableTasks:
		w.fault(e, `name a task: tasks.NAME or tasks["NAME"]`)
	case variableItem, variableItemIndex:
		w.refs.Item = true
	case variableEnv:
		w.refs.WholeEnv = true
	}
}

func (w *walker) comprehension(e ast.Expr) {
	c := e.AsComprehension()
	for _, name := range []string{c.IterVar(), c.IterVar2()} {
		if slices.Contains(variables(), name) {
			w.fault(e, "%s is a variable of all conditions; choose another name for the variable of the loop", name)
		}
	}
	for _, part := range []ast.Expr{c.IterRange(), c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result()} {
		w.expr(part)
	}
}

func variables() []string {
	return []string{
		variableInputs, variableEnv, variableAnnotations, variableTasks, variableRun, variableMatrix, variableItem, variableItemIndex,
	}
}

// reference records e if it reads a name of a variable, and reports whether it
// does.
func (w *walker) reference(e ast.Expr) bool {
	of, name, tested, ok := member(e)
	switch {
	case !ok:
		return false
	case of.Kind() == ast.IdentKind:
		return w.member(of, Ref{Name: name, Tested: tested, at: w.at(of)})
	case name != fieldOutputs:
		return false
	}
	tasks, task, _, ok := member(of)
	if !ok || tasks.Kind() != ast.IdentKind || tasks.AsIdent() != variableTasks {
		return false
	}
	w.refs.Tasks = append(w.refs.Tasks, Ref{Name: task, Outputs: true, at: w.at(tasks)})
	return true
}

// member records the name of a member of a variable.
func (w *walker) member(of ast.Expr, r Ref) bool {
	switch of.AsIdent() {
	case variableTasks:
		w.refs.Tasks = append(w.refs.Tasks, r)
	case variableInputs:
		w.refs.Inputs = append(w.refs.Inputs, r)
	case variableEnv:
		w.refs.Env = append(w.refs.Env, r)
	case variableMatrix:
		w.refs.Axes = append(w.refs.Axes, r)
	default:
		return false
	}
	return true
}

// member splits OF.NAME, OF["NAME"], has(OF.NAME) and "NAME" in OF. tested says that
// it is one of the last two.
func member(e ast.Expr) (of ast.Expr, name string, tested, ok bool) {
	switch e.Kind() {
	case ast.SelectKind:
		s := e.AsSelect()
		return s.Operand(), s.FieldName(), s.IsTestOnly(), true
	case ast.CallKind:
		call := e.AsCall()
		if len(call.Args()) != 2 {
			return nil, "", false, false
		}
		switch call.FunctionName() {
		case operators.Index:
			name, ok = constant(call.Args()[1])
			return call.Args()[0], name, false, ok
		case operators.In:
			name, ok = constant(call.Args()[0])
			return call.Args()[1], name, true, ok
		}
	default:
	}
	return nil, "", false, false
}

// constant returns the value of a string that is written in the expression.
func constant(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	s, ok := e.AsLiteral().(types.String)
	return string(s), ok
}
