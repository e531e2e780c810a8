package condition_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/cputime"
	"github.com/drover-run/drover/spec/condition"
)

var values = condition.Values{
	Inputs:      map[string]any{"deploy": true, "count": int64(3), "target": "prod"},
	Env:         map[string]string{"STAGE": "prod", "EMPTY": ""},
	Annotations: map[string]string{"branch": "main"},
	Tasks: map[string]condition.Task{
		"build":    {Status: "success", Outputs: map[string]string{"changed": "yes", "long": strings.Repeat("a", 1<<20)}},
		"my-task":  {Status: "failed"},
		"make[0]":  {Status: "skipped"},
		"go[V=.1]": {Status: "success"},
	},
	Run:    condition.Run{ID: "01", Name: "nightly", Group: "/a/b", Counter: 7},
	Matrix: map[string]string{"OS": "linux"},
	Item:   `{"a":1}`, ItemIndex: 2,
}

func TestCondition_Holds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text  string
		scope condition.Scope
		holds bool
		err   string
	}{
		{text: "true", holds: true},
		{text: `tasks.build.status == "success"`, holds: true},
		{text: `tasks["my-task"].status == "failed" && tasks["make[0]"].status == "skipped"`, holds: true},
		{text: `tasks.build.outputs.changed == "yes"`, holds: true},
		{text: `has(tasks.build.outputs.other)`},
		{text: `tasks.build.outputs.other == "x"`, err: `"other" is not set; has() tests whether it is`},
		{text: `tasks.build.outputs.size() > 1`, holds: true},
		{text: `"changed" in tasks.build.outputs`, holds: true},
		{text: `inputs.deploy`, holds: true},
		{text: `inputs.target`, err: "its value is a string; a condition is a boolean"},
		{text: `inputs.count > 2 && inputs.count > 2.5`, holds: true},
		{text: `inputs.missing == "x"`, err: `"missing" is not set; has() tests whether it is`},
		{text: `env.STAGE == "prod" && env.EMPTY == "" && !has(env.NONE)`, holds: true},
		{text: `annotations.branch in ["main", "release"]`, holds: true},
		{text: `run.name == "nightly" && run.group.startsWith("/a/") && run.counter == 7 && run.id == "01"`, holds: true},
		{text: `matrix.OS == "linux"`, scope: condition.ScopeMatrix, holds: true},
		{text: `item.contains("a") && item_index == 2`, scope: condition.ScopeForeach, holds: true},
		{text: `tasks.build.outputs.changed.matches("^y")`, holds: true},
		{text: `[1, 2, 3].exists(n, n == inputs.count)`, holds: true},
		{text: `1 / (inputs.count - 3) == 1`, err: "division by zero"},
		{text: `tasks.build.outputs.long.contains("b")`},
		{text: `inputs.target < 3`, err: "the types of its values do not fit together, as in a comparison of a string with a number"},
		{text: `[1, 2][inputs.count] == 1`, err: "the list has no item 3"},
		{text: `int(inputs.target) == 3`, err: "its value, a string, cannot become a number"},
		{text: `timestamp(inputs.target) > timestamp("2026-01-31T12:00:00Z")`, err: "a time such as 2026-01-31T12:00:00Z is expected"},
		{text: `"x".matches(env.STAGE + "(")`, err: "it is not a regular expression, or repeats too much"},
		{text: `tasks.build.outputs.long.matches("(a|b)*c")`, err: "its evaluation takes too long"},
		{text: `[1,2,3].all(a, [1,2,3].all(b, !tasks.build.outputs.long.contains("b")))`, err: "its evaluation takes too long"},
	}
	for _, tt := range tests {
		t.Run(condition.Shown(tt.text), func(t *testing.T) {
			t.Parallel()
			c, faults := condition.Compile(tt.text, tt.scope)
			require.Empty(t, faults)
			holds, _, err := c.Holds(t.Context(), values)
			if tt.err != "" {
				require.EqualError(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.holds, holds)
		})
	}
}

func TestCompile_faults(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"":                 "the expression is blank",
		"\xff":             "the expression is not valid UTF-8",
		"${{ success() }}": "a condition is an expression without {{ and }}: tasks.NAME.outputs.KEY is an output",
		strings.Repeat("a", condition.MaxBytes+1): "the expression has 2049 bytes; the limit is 2048",
		"tasks.build.status =":                    "column 20: = is no operator; == compares two values",
		"tasks.build.state == 'x'":                `column 12: there is no field "state"; a task has status and outputs, the run has id, name, group and counter`,
		"tasks.build.status == 1":                 "column 20: == cannot compare a string with a number; outputs and variables are strings, so the other value needs quotes",
		"success()":                               `column 8: there is no function "success"; tasks.NAME.status is the status of a task`,
		"env.STAGE":                               "the expression is a string; a condition is a boolean",
		"item == 'x'":                             "column 1: only the conditions of a task with foreach have item",
		"true &&\n  foo":                          `line 2, column 3: there is no "foo"; a string needs quotes, an input is inputs.foo, an environment variable is env.foo`,
		"tasks.size() > 1":                        `column 1: name a task: tasks.NAME or tasks["NAME"]`,
		"tasks[env.STAGE].status == 'x'":          `column 1: name a task: tasks.NAME or tasks["NAME"]`,
		"tasks.exists(t, t == 'x')":               `column 1: name a task: tasks.NAME or tasks["NAME"]`,
		"['x'].exists(tasks, tasks == 'x')":       "column 13: tasks is a variable of all conditions; choose another name for the variable of the loop",
		"'x'.matches('(')":                        "column 13: it is not a regular expression, or repeats too much",
	}
	for text, want := range tests {
		t.Run(condition.Shown(text), func(t *testing.T) {
			t.Parallel()
			_, faults := condition.Compile(text, condition.ScopeTask)
			require.NotEmpty(t, faults)
			require.Equal(t, want, faults[0].In(text))
		})
	}
	for _, text := range []string{
		strings.Repeat("(", 100) + "true" + strings.Repeat(")", 100),
		"[1].all(a, [1].all(b, [1].all(c, true)))",
		"[" + strings.Repeat("1,", 1000) + "1].size() == 1",
		"'x'.matches('(((a{10}){10}){10}){10}')",
	} {
		_, faults := condition.Compile(text, condition.ScopeTask)
		require.NotEmpty(t, faults, text)
	}
}

// TestCompile_words checks that common mistakes are explained in the words of the run
// file, and not in those of the library.
func TestCompile_words(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`tasks.a.status == "success" and true`:     "and is no operator; && is and, || is or, ! is not",
		`tasks.a.status == "success" & true`:       "& is no operator; && is and, || is or, ! is not",
		`not true`:                                 "",
		`tasks.a.status ==`:                        "it ends too early: a value or a closing bracket is missing",
		`tasks.a.status == "success`:               "the quotes that begin here are not closed",
		`(true`:                                    ") is missing at the end",
		`true)`:                                    `")" cannot stand here; before it, an operator such as == or && may be missing`,
		`$STAGE == "x"`:                            "a name has no $ before it; env.NAME is an environment variable",
		`input.x == "x"`:                           `there is no "input"; did you mean "inputs"?`,
		`github.ref == "x"`:                        `there is no "github"; a string needs quotes, an input is inputs.github, an environment variable is env.github`,
		`env.STAGE == prod`:                        `there is no "prod"; a string needs quotes, an input is inputs.prod, an environment variable is env.prod`,
		`env.STAGE.startswith("x")`:                `there is no function "startswith"; did you mean "startsWith"?`,
		`env.STAGE.startsWith(1)`:                  "startsWith cannot be called on a string with a number",
		`size() == 1`:                              "size cannot be called without a value",
		`env.STAGE && true`:                        "a string where a boolean is expected",
		`!env.STAGE`:                               "! does not accept a string",
		`env.STAGE + 1 == "x"`:                     "+ does not accept a string and a number",
		`"a" in env.STAGE`:                         "in looks for a value in a list or a map, and not for a string in a string",
		`env["A"]["B"] == "x"`:                     "a string and a string do not fit together as VALUE[KEY]",
		`run.counter.id == "x"`:                    "a number has no fields",
		`env.STAGE.exists(x, x == "a")`:            "a string has no items; all, exists, filter and map are of a list or a map",
		`has(tasks)`:                               "has() tests a name, as in has(env.NAME)",
		`[1].all(1, true)`:                         `the first value of a loop is the name of its variable, as in exists(x, x == "a")`,
		`[1].all(a, [1].all(b, [1].all(c, true)))`: "more than 2 loops (all, exists, filter, map) are in each other",
		`run.counter == 99999999999999999999`:      "a number, a time or a duration is too large",
		`env.STAGE == "\d"`:                        "",
		`if == "x"`:                                "",
		`Task{status: "x"}.status == "x"`:          "",
		`matrix.OS == "x"`:                         "only the conditions of a task with a matrix have matrix",
		`item_index == 1`:                          "only the conditions of a task with foreach have item_index",
		`"x".matches("(((a{10}){10}){10}){10}")`:   "it is not a regular expression, or repeats too much",
		`tasks.`:                                   "",
		`tasks.a.status == "x" && tasks.b.status == "y" "z"`: "",
		strings.Repeat("(", 100) + "true":                    "",
		"[" + strings.Repeat("1,", 1000) + "1].size() == 1":  "",
		`[1, 2`:           "",
		`{"a": 1`:         "",
		`env.A ? 1`:       "",
		`a.?b`:            "",
		`int("x") == "1"`: "",
	} {
		t.Run(condition.Shown(text), func(t *testing.T) {
			t.Parallel()
			_, faults := condition.Compile(text, condition.ScopeTask)
			require.NotEmpty(t, faults)
			if want != "" {
				require.Equal(t, want, faults[0].Detail)
			}
			for _, f := range faults {
				require.NotRegexp(t, `(?i)overload|token|EOF|undeclared|undefined|syntax error|mismatched|extraneous|viable|expecting|expression count|_[=<>!&|+?\[]|\bdyn\b|\bint\b|\bbool\b|unescape`, f.Detail)
				t.Log(f.In(text))
			}
		})
	}
}

// FuzzCompile checks that no expression panics, or costs far more than one of nested
// loops.
func FuzzCompile(f *testing.F) {
	for _, text := range []string{
		`tasks.a.outputs.k == "v" && env.A in ["b"]`, `[1,2].all(a, [3].exists(b, a == b))`, `'x'.matches('(a+)+$')`, `{'a': 1}.a == 1 ? true : false`,
		`timestamp("2026-01-01T00:00:00Z") > timestamp("2025-01-01T00:00:00Z")`, `duration("1h") == duration("60m")`, `b"x" + b"y" == b"xy"`, `((((([[[[{`,
	} {
		f.Add(text)
	}
	loops := strings.Repeat("[1].all(a, [1].exists(b, a == b)) && ", 12) + "true"
	compile := func(t *testing.T, text string) {
		t.Helper()
		c, faults := condition.Compile(text, condition.ScopeMatrix)
		if c != nil {
			_, _, _ = c.Holds(t.Context(), values)
		} else if len(faults) == 0 {
			t.Error("there is neither a condition nor a fault")
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		const times = 100
		cputime.AtMost(t, times, func() { compile(t, loops) }, func() { compile(t, text) })
	})
}

func TestCondition_Refs(t *testing.T) {
	t.Parallel()
	c, faults := condition.Compile(`tasks.a.status == "success" && tasks["b-1"].outputs.k == "v" && size(tasks.c.outputs) > 0 `+
		`&& has(env.A) && "B" in env && env.C == env["D"] && matrix.X == "1" && inputs.i == 1 && tasks.outputs.status == ""`, condition.ScopeMatrix)
	require.Empty(t, faults)
	var tasks, env []string
	for _, r := range c.Refs().Tasks {
		name := r.Name
		if r.Outputs {
			name += " outputs"
		}
		tasks = append(tasks, name)
	}
	for _, r := range c.Refs().Env {
		name := r.Name
		if r.Tested {
			name += " tested"
		}
		env = append(env, name)
	}
	require.Equal(t, []string{"a", "b-1 outputs", "c outputs", "outputs"}, tasks)
	require.Equal(t, []string{"A tested", "B tested", "C", "D"}, env)
	require.Len(t, c.Refs().Axes, 1)
	require.Len(t, c.Refs().Inputs, 1)
	require.False(t, c.Refs().Item)
	require.False(t, c.Refs().WholeEnv)
	for _, text := range []string{"env.size() > 0", "env.A == env[env.B]", "env == {}", "env.exists(k, k == 'A')", "annotations.branch in env"} {
		c, faults = condition.Compile(text, condition.ScopeTask)
		require.Empty(t, faults)
		require.True(t, c.Refs().WholeEnv, text)
	}

	c, faults = condition.Compile("item_index > 0", condition.ScopeForeach)
	require.Empty(t, faults)
	require.True(t, c.Refs().Item)
}
