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

func TestValidate_Outputs(t *testing.T) {
	t.Parallel()
	task := func(env string, depends ...string) *run.TaskSpec {
		out := &run.TaskSpec{Steps: []run.Step{{Run: "x"}}, Environment: map[string]string{"A": env}}
		for _, d := range depends {
			out.Depends = append(out.Depends, run.Depend{Task: d})
		}
		return out
	}
	spec := &run.Spec{Name: "n", Group: "/a/b", Tasks: map[string]*run.TaskSpec{
		"a": task(""), "b": task(`{{ output "a" "k" }}`, "a"), "c": task(`{{ output "a" "k" }}{{ output "b" "k" }}`, "b"),
		"m": {Steps: []run.Step{{Run: "x"}}, Matrix: map[string][]string{"X": {"1", "2/3"}, "Y": {"z"}}},
		"n": task(`{{ output "m[X=2-3,Y=z]" "k" }}`, "m"),
	}}
	require.Empty(t, run.Validate(spec))
	for _, c := range []struct{ text, want string }{
		{`{{ output "c" "k" }}`, "tasks.b.environment.A unknown_dependency"},
		{`{{ output "m[X=1,Y=z]" "k" }}`, "tasks.b.environment.A unknown_dependency"},
		{`{{ output "a[0]" "k" }}`, "tasks.b.environment.A bad_value"},
		{`{{ output "a" "-k" }}`, "tasks.b.environment.A bad_format"},
	} {
		spec.Tasks["b"] = task(c.text, "a")
		require.Equal(t, []string{c.want}, found(run.Validate(spec)), c.text)
	}
	spec.Tasks["b"] = task("", "a")
	for _, name := range []string{"m", "m[X=1]", "m[X=1,Y=y]", "m[X=1,Y=z"} {
		spec.Tasks["n"] = task(`{{ output "`+name+`" "k" }}`, "m")
		require.Equal(t, []string{"tasks.n.environment.A bad_value"}, found(run.Validate(spec)), name)
	}
}

// TestValidate_output_names checks that the fault of an invalid name describes
// the names that are valid.
func TestValidate_output_names(t *testing.T) {
	t.Parallel()
	of := func(key string) []run.Fault {
		s := valid()
		s.Tasks["test"].Depends = []run.Depend{{Task: "plan"}}
		s.Tasks["plan"] = &run.TaskSpec{Steps: []run.Step{{Run: "true"}}}
		s.Tasks["test"].Environment = map[string]string{"A": `{{ output "plan" "` + key + `" }}`}
		return run.Validate(s)
	}
	require.Empty(t, of("_a-b.1"))
	found := of("1a")
	require.Len(t, found, 1)
	require.Contains(t, found[0].Detail, "beginning with a letter or underscore")
}
