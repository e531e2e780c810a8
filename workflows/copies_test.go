package workflows_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// TestCopies: the structs that a workflow copies field by field are copied whole, so that
// a new field cannot be forgotten in one place. Names are what it compares: the fields
// that functions name, and those that the struct has.
func TestCopies(t *testing.T) {
	t.Parallel()
	full := contract.Assignment{
		Task: 1, Name: "a", Pool: "linux", Retry: run.Retry{MaxAttempts: 2}, OnLost: run.OnLostRetry, Labels: "l", Finally: true,
	}.ToRecover()
	tests := map[string]struct {
		of        any
		leftOut   []string
		functions []string
	}{
		"carried_state_saved":    {of: contract.RunState{}, functions: []string{"runner.continueAsNew", "batches.save"}},
		"carried_state_restored": {of: contract.RunState{}, functions: []string{"runner.restore", "batches.restore"}, leftOut: []string{"Continued"}},
		// What the attempts of a task add to its assignment begins again in a batch.
		"assignment_of_a_task": {of: contract.Assignment{}, functions: []string{"runner.assignment"}, leftOut: append(zeroFields(full), "Recover")},
		"input_of_a_batch":     {of: contract.BatchInput{}, functions: []string{"batches.start"}},
		// A plan is executed in two parts: executePlan begins the bootstraps of all.
		"plan_that_is_empty": {of: contract.FleetPlan{}, functions: []string{"emptyPlan"}, leftOut: []string{"Bootstrap"}},
	}
	named := namesByFunction(t)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			known := make(map[string]bool)
			for _, function := range tt.functions {
				require.NotEmpty(t, named[function], "there is no function %s", function)
				for field := range named[function] {
					known[field] = true
				}
			}
			for _, field := range tt.leftOut {
				known[field] = true
			}
			for _, field := range reflect.VisibleFields(reflect.TypeOf(tt.of)) {
				require.True(t, known[field.Name], "%s does not name the field %s of %T", strings.Join(tt.functions, " and "), field.Name, tt.of)
			}
		})
	}
}

// zeroFields returns the fields that an assignment does not keep when it begins again.
func zeroFields(a contract.Assignment) (out []string) {
	value := reflect.ValueOf(a)
	for i := range value.NumField() {
		if value.Field(i).IsZero() {
			out = append(out, value.Type().Field(i).Name)
		}
	}
	return out
}

// namesByFunction returns the fields that each function of the package names, in
// selectors and in literals.
func namesByFunction(t *testing.T) map[string]map[string]bool {
	t.Helper()
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	out := make(map[string]map[string]bool)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, decl := range parsed.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			out[functionName(fn)] = fieldsNamed(fn.Body)
		}
	}
	return out
}

// functionName returns the name of a function, after that of its receiver's type.
func functionName(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	receiver := fn.Recv.List[0].Type
	if pointer, ok := receiver.(*ast.StarExpr); ok {
		receiver = pointer.X
	}
	if name, ok := receiver.(*ast.Ident); ok {
		return name.Name + "." + fn.Name.Name
	}
	return fn.Name.Name
}

func fieldsNamed(body *ast.BlockStmt) map[string]bool {
	names := make(map[string]bool)
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			names[n.Sel.Name] = true
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok {
				names[key.Name] = true
			}
		}
		return true
	})
	return names
}
