package errcode

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// codes returns every run.Code that the source declares.
func codes(t *testing.T) []run.Code {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../run/error.go", nil, 0)
	require.NoError(t, err)
	var out []run.Code
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if typ, ok := spec.Type.(*ast.Ident); !ok || typ.Name != "Code" {
			return true
		}
		value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		require.NoError(t, err)
		out = append(out, run.Code(value))
		return true
	})
	require.Greater(t, len(out), 10)
	return out
}

func TestErrors_every_code_is_listed(t *testing.T) {
	t.Parallel()
	all := codes(t)
	require.Len(t, retryable, len(all))
	for _, code := range all {
		again, known := retryable[code]
		require.True(t, known, "code %s", code)
		err := ToTemporal(fmt.Errorf("doing it: %w", run.Errorf(code, "because")))
		var application *temporal.ApplicationError
		require.ErrorAs(t, err, &application)
		require.Equal(t, string(code), application.Type())
		require.Equal(t, again, !application.NonRetryable(), "code %s", code)
		back := FromTemporal(fmt.Errorf("wrapped: %w", err))
		require.Equal(t, code, run.CodeOf(back))
	}
}

func TestErrors_others(t *testing.T) {
	t.Parallel()
	require.NoError(t, ToTemporal(nil))
	require.NoError(t, FromTemporal(nil))
	var application *temporal.ApplicationError
	require.ErrorAs(t, ToTemporal(errors.New("odd")), &application)
	require.Equal(t, string(run.CodeInternal), application.Type())
	require.False(t, application.NonRetryable(), "what is not known is tried again")
	require.Equal(t, run.CodeInternal, run.CodeOf(FromTemporal(errors.New("odd"))))
	foreign := temporal.NewApplicationError("x", contract.ErrorRequeued)
	require.Equal(t, run.CodeInternal, run.CodeOf(FromTemporal(foreign)))
}
