package spec_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/graph"
	"github.com/drover-run/drover/spec"
)

// FuzzRead passes arbitrary input to the reader. The reader must return a
// specification that all later stages accept, or an error that describes the
// fault.
func FuzzRead(f *testing.F) {
	for _, text := range []string{
		minimal, "", "null", "[]", "{}", "a: *b", "&a [*a]", "tasks: &a\n  b: *a\n", "<<: {name: n}", "? [a]\n: b",
		minimal + "    depends: [a, {task: b, on: [skipped]}]\n    matrix: {A: [1, 2.50, true], B: [x/y, x y]}\n",
		minimal + "    steps: [{run: a, save_cache: {key: [1, {a: ~}]}}]\n    approval: {approvers: 2}\n",
		minimal + "environment: {A: \"\\0\", B: !!binary aGk=, C: !x y, D: .inf, E: 0o7, F: 1_000}\n",
		minimal + "  b: &b {steps: [{run: c}]}\n  c: {<<: [*b, *b], timeout: 1h}\n",
		"%YAML 1.1\n---\n" + minimal + "...\n", "a: |\n  b\n", "a: >-\n  b\n\tc",
		`{"name":"n","group":"/a/b","tasks":{"a":{"steps":[{"run":"\u0000\ud800"}]}}}`,
		`{"name":1e400,"priority":-0,"tasks":[{"a":null}]} x`,
	} {
		f.Add([]byte(text), true)
		f.Add([]byte(text), false)
	}
	for _, name := range []string{"full.yaml", "full.json"} {
		f.Add(full(f, name), name == "full.json")
	}
	f.Fuzz(func(t *testing.T, data []byte, isJSON bool) {
		format := spec.FormatYAML
		if isJSON {
			format = spec.FormatJSON
		}
		s, err := spec.Read(data, format)
		if err == nil {
			checkReads(t, s)
		} else {
			checkError(t, err)
		}
		valid, err := spec.Validate(data, format)
		if err != nil {
			checkError(t, err)
			return
		}
		require.Empty(t, cmp.Diff(s, valid))
		require.Empty(t, spec.ValidateRun(s))
		x, faults := spec.Expand(s, nil)
		require.Empty(t, faults, "a valid specification can be expanded")
		g, err := graph.New(run.MergePlans(run.SplitPlan(x.Plan, run.MaxPlanPage)).Nodes, s.FailFast.Running != "")
		require.NoError(t, err)
		require.Equal(t, len(x.Tasks), g.Len())
		for i, task := range x.Tasks {
			require.Equal(t, task.Name, g.Name(i))
		}
	})
}

// checkReads checks that the canonical form has the same meaning.
func checkReads(t *testing.T, s *run.Spec) {
	t.Helper()
	b, err := spec.Marshal(s)
	require.NoError(t, err)
	again, err := spec.Read(b, spec.FormatJSON)
	require.NoError(t, err, "%s", b)
	// Empty and absent lists mean the same where both are valid.
	require.Empty(t, cmp.Diff(s, again, cmpopts.EquateEmpty()))
}

func checkError(t *testing.T, err error) {
	t.Helper()
	var e *run.Error
	require.ErrorAs(t, err, &e)
	require.Contains(t, []run.Code{run.CodeInvalid, run.CodeUnreadable, run.CodeTooLarge}, e.Code)
	require.NotEmpty(t, e.Message)
	require.Equal(t, e.Code == run.CodeInvalid || e.Code == run.CodeUnreadable, len(e.Faults) > 0)
	require.LessOrEqual(t, len(e.Faults), run.MaxFaults+1)
	for _, f := range e.Faults {
		require.NotEmpty(t, f.Code)
		require.NotEmpty(t, f.Detail)
		require.GreaterOrEqual(t, f.Line, 0)
	}
}
