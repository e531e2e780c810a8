package spec_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

// withIf returns a specification in which the task c, which depends on b and so on a,
// has a condition.
func withIf(text string) *run.Spec {
	steps := []run.Step{{Run: "x"}}
	on := func(name string) []run.Depend { return []run.Depend{{Task: name}} }
	return &run.Spec{
		Name: "n", Group: "/a/b", Environment: map[string]string{"STAGE": "test"}, Secrets: map[string]run.Secret{"TOKEN": "x"},
		Inputs:      map[string]run.Input{"x": {Type: run.InputNumber, Default: new("1")}},
		SecretsFrom: map[string]run.SecretRef{"DB": {Provider: "p", Name: "n"}},
		Tasks: map[string]*run.TaskSpec{
			"a":    {Steps: steps},
			"b":    {Steps: steps, Depends: on("a")},
			"c":    {Steps: steps, Depends: append(on("b"), on("m")...), If: text, Environment: map[string]string{"OUT": `{{ output "a" "k" }}`}},
			"m":    {Steps: steps, Matrix: run.Matrix{Axes: map[string][]string{"OS": {"linux", "plan9"}}}},
			"late": {Steps: steps, Depends: on("c")},
		},
	}
}

func TestValidateRun_conditions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"true":                                    "",
		`tasks.a.status == "success"`:             "",
		`tasks.b.outputs.k.startsWith("x")`:       "",
		`tasks["m[OS=linux]"].status == "x"`:      "",
		`env.STAGE == "test"`:                     "",
		`has(env.OTHER) && env.OTHER == "x"`:      "",
		`"OTHER" in env && env.OTHER == "x"`:      "",
		`inputs.x == 1 && annotations.y == "z"`:   "",
		`inputs.z == 1`:                           `bad_value column 1: there is no input "z"`,
		`run.counter > 3 && run.name != ""`:       "",
		"tasks.a.status = 1":                      "bad_format column 16: = is no operator; == compares two values",
		"1 + 1":                                   "bad_format the expression is a number; a condition is a boolean",
		`tasks.A.status == "x"`:                   `unknown_dependency column 1: there is no task "A"`,
		`true && tasks.late.status == "x"`:        `unknown_dependency column 9: the task does not depend on "late", directly or through others, so that may not have ended yet`,
		`tasks.c.status == "x"`:                   "unknown_dependency column 1: the condition of a task cannot read the task itself",
		`tasks.m.status == "x"`:                   `bad_value column 1: "m" is an expansion: name one of its tasks in full, as in tasks["m[...]"]`,
		`env.TOKEN == "x"`:                        `bad_value column 1: "TOKEN" is a secret, and conditions cannot read secrets`,
		`has(env.DB)`:                             `bad_value column 5: "DB" is a secret, and conditions cannot read secrets`,
		`env.OUT == "x"`:                          `bad_value column 1: the value of "OUT" has an output in it; read the output itself, as tasks.NAME.outputs.KEY`,
		`env.NONE == "x"`:                         `bad_value column 1: neither the run nor the task sets the variable "NONE"; has(env.NAME) tests for one that only some runs set`,
		`env.DROVER_RUN_ID == "x"`:                `bad_value column 1: Drover sets "DROVER_RUN_ID" when the task begins; conditions have run, matrix and item instead`,
		`matrix.OS == "x"`:                        "bad_format column 1: only the conditions of a task with a matrix have matrix",
		"true &&\n  tasks.late.status == \"x\"\n": `unknown_dependency line 2, column 3: the task does not depend on "late", directly or through others, so that may not have ended yet`,
	} {
		for _, at := range []string{"tasks.c.if", "tasks.c.steps[0].if"} {
			s := withIf(text)
			if c := s.Tasks["c"]; at != "tasks.c.if" {
				c.If, c.Steps = "", []run.Step{{Run: "x", If: text, Environment: map[string]string{"OWN": "x"}}}
			}
			faults := spec.ValidateRun(s)
			if want == "" {
				require.Empty(t, faults, text)
				continue
			}
			require.NotEmpty(t, faults, text)
			require.Equal(t, at+" "+want, faults[0].Path+" "+string(faults[0].Code)+" "+faults[0].Detail)
		}
	}

	s := withIf("")
	s.Tasks["m"].If = `matrix.OS == "linux" && env.OS == "linux" && matrix.ARCH == "x"`
	s.Tasks["c"].Steps[0].If = `env.OWN == "x"`
	s.Tasks["late"].Steps = []run.Step{{Run: "x", If: `env.OWN == "x"`, Environment: map[string]string{"OWN": "x"}}}
	require.Equal(t, []string{"tasks.a.steps[0].if bad_value", "tasks.b.steps[0].if bad_value", "tasks.c.steps[0].if bad_value", "tasks.m.if bad_value", "tasks.m.steps[0].if bad_value"},
		found(spec.ValidateRun(s)), "the tasks have one list of steps in common")
}

func TestValidateRun_too_many_conditions(t *testing.T) {
	t.Parallel()
	s := withIf("")
	for i := range run.MaxConditions + 10 {
		s.Tasks["t"+strconv.Itoa(i)] = &run.TaskSpec{Steps: []run.Step{{Run: "x"}}, If: "run.counter > " + strconv.Itoa(i)}
	}
	require.Len(t, found(spec.ValidateRun(s)), 1)
	for _, task := range s.Tasks {
		task.If = "run.counter > 1"
	}
	require.Empty(t, spec.ValidateRun(s), "equal conditions count once")
	s = withIf(strings.Repeat("true && ", 300) + "true")
	require.Equal(t, []string{"tasks.c.if bad_format"}, found(spec.ValidateRun(s)))
}
