package run_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

func TestResolveOutputs(t *testing.T) {
	t.Parallel()
	known := map[run.OutputRef]string{{Task: "a", Key: "k"}: "v", {Task: "b[X=1]", Key: "k.2"}: `{{ output "a" "k" }}`}
	lookup := func(r run.OutputRef) (string, error) {
		v, ok := known[r]
		if !ok {
			return "", run.Errorf(run.CodeNotFound, "none")
		}
		return v, nil
	}
	for text, want := range map[string]string{
		"":                                       "",
		"plain {{ .Name }}":                      "plain {{ .Name }}",
		`{{ output "a" "k" }}`:                   "v",
		`<{{output "a" "k"}}{{output "a" "k"}}>`: "<vv>",
		"x {{- output `a` \"k\" -}} y":           "xvy",
		"x {{- output `a`  \"k\" }} y":           "xv y",
		"x \n {{- \toutput `a` \"k\" -}}\n y":    "xvy",
		`{{ output "b[X=1]" "k.2" }}`:            `{{ output "a" "k" }}`,
		`{{ outputs "a" "k" }} {{ "output" }}`:   `{{ outputs "a" "k" }} {{ "output" }}`,
	} {
		got, err := run.ResolveOutputs(text, lookup)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{
		`{{ output }}`, `{{ output "a" }}`, `{{ output "a" "k" | js }}`, `{{ output a k }}`, `{{ output "a" "k"`, `{{output}}`, `{{ output "a\q" "k" }}`,
		`{{ output "a" "k" }} {{ output "a`,
	} {
		_, err := run.ResolveOutputs(text, lookup)
		require.Equal(t, run.CodeInvalid, run.CodeOf(err), text)
	}
	_, err := run.ResolveOutputs(`{{ output "c" "k" }}`, lookup)
	require.Equal(t, run.CodeNotFound, run.CodeOf(err))
}

func TestTaskSpec_WithOutputs(t *testing.T) {
	t.Parallel()
	value := "v"
	lookup := func(r run.OutputRef) (string, error) {
		if r.Key != "k" {
			return "", run.Errorf(run.CodeNotFound, "there is no %s", r.Key)
		}
		return value, nil
	}
	task := &run.TaskSpec{
		Environment: map[string]string{"A": `<{{ output "a" "k" }}>`, "B": "b"},
		Steps:       []run.Step{{Environment: map[string]string{"C": `{{ output "a" "k" }}`}}, {Run: "x"}},
	}
	got, err := task.WithOutputs(lookup)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"A": "<v>", "B": "b"}, got.Environment)
	require.Equal(t, map[string]string{"C": "v"}, got.Steps[0].Environment)
	require.Equal(t, `<{{ output "a" "k" }}>`, task.Environment["A"], "the original is unchanged")

	for bad, want := range map[string]string{
		strings.Repeat("x", run.MaxVariableBytes): "the variable A has 131076 bytes",
		"a\x00b": "the variable A has a NUL byte",
	} {
		value = bad
		_, err = task.WithOutputs(lookup)
		require.Equal(t, run.CodeInvalid, run.CodeOf(err))
		require.ErrorContains(t, err, want)
	}
	task.Environment["A"] = `{{ output "a" "z" }}`
	_, err = task.WithOutputs(lookup)
	require.Equal(t, run.CodeNotFound, run.CodeOf(err))
	require.EqualError(t, err, "the variable A: there is no z")
}
