package contract_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/graph"
)

// TestPayloads_field_names holds the JSON name of each payload field to the name
// of its Go field. All types of package contract are payloads, and those types
// of package run that are stored nowhere else.
func TestPayloads_field_names(t *testing.T) {
	t.Parallel()
	found := 0
	inspect(t, func(n ast.Node) {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return
		}
		fields, ok := spec.Type.(*ast.StructType)
		if !ok {
			return
		}
		found++
		for _, field := range fields.Fields.List {
			require.NotNil(t, field.Tag, "%s.%s", spec.Name, field.Names)
			require.Len(t, field.Names, 1, spec.Name)
			tag := reflect.StructTag(strings.Trim(field.Tag.Value, "`"))
			requireSnake(t, spec.Name.Name, field.Names[0].Name, tag)
		}
	})
	require.Greater(t, found, 50)
	for _, payload := range []any{run.Key{}, run.Progress{}, run.TaskChange{}, run.TaskStatus{}, run.Release{}, run.RetentionStatus{}, graph.DynamicTasks{}} {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(payload)) {
			requireSnake(t, reflect.TypeOf(payload).String(), field.Name, field.Tag)
		}
	}
}

var upper = regexp.MustCompile(`([a-z])([A-Z])`)

func requireSnake(t *testing.T, typeName, field string, tag reflect.StructTag) {
	t.Helper()
	if name, _, _ := strings.Cut(tag.Get("json"), ","); name != "-" {
		require.Equal(t, strings.ToLower(upper.ReplaceAllString(field, "${1}_$2")), name, "%s.%s", typeName, field)
	}
}

// TestNames_are_documented holds docs/temporal-names.md to the constants.
func TestNames_are_documented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/temporal-names.md")
	require.NoError(t, err)
	isName := regexp.MustCompile(`^(Activity|Attribute|Error|Query|Signal)|(Workflow|Queue)$`)
	found := 0
	inspect(t, func(n ast.Node) {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || !isName.MatchString(spec.Names[0].Name) {
			return
		}
		if value, ok := spec.Values[0].(*ast.BasicLit); ok && value.Kind == token.STRING {
			found++
			require.Contains(t, string(page), "`"+strings.Trim(value.Value, `"`)+"`", spec.Names[0].Name)
		}
	})
	require.Greater(t, found, 50)
}

// inspect calls f for all nodes of the package's files, without tests.
func inspect(t *testing.T, f func(ast.Node)) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			f(n)
			return true
		})
	}
}

// TestAssignment_ToRecover: a field of an assignment is either of the task, and kept, or
// of its attempts, and in this list.
func TestAssignment_ToRecover(t *testing.T) {
	t.Parallel()
	ofAttempts := []string{"Attempt", "Dispatch", "Requeued", "Wait", "Reason", "Last", "Adopt", "Withdrawn", "Stop"}
	full := contract.Assignment{
		Task: 1, Name: "a", Pool: "linux", Retry: run.Retry{MaxAttempts: 2}, OnLost: run.OnLostRetry, Labels: "l", Attempt: 2, Dispatch: 3, Requeued: 4,
		Wait: 5, Reason: "r", Last: &run.TaskResult{}, Adopt: &contract.Heartbeat{}, Recover: true, Withdrawn: "w", Stop: true, Finally: true,
	}
	from, to := reflect.ValueOf(full), reflect.ValueOf(full.ToRecover())
	for i := range from.NumField() {
		name := from.Type().Field(i).Name
		require.False(t, from.Field(i).IsZero(), "the test sets no %s", name)
		if slices.Contains(ofAttempts, name) {
			require.True(t, to.Field(i).IsZero(), name)
		} else {
			require.Equal(t, from.Field(i).Interface(), to.Field(i).Interface(), name)
		}
	}
	require.True(t, contract.Assignment{Task: 1}.ToRecover().Recover)
}
