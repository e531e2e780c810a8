package spec_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/cputime"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/inputs"
	"github.com/drover-run/drover/spec"
)

const beforeEdit = `# a deployment
name: release
group: /apps/web
environment: {COMMIT: abc, MODE: fast}
secrets: {TOKEN: hunter2}
registries: {r.example.com: {username: u, password_secret: TOKEN}}
inputs: {target: {default: test}}
tasks:
  build:
    steps: [{run: make}, {run: make check, timeout: 1m}]
  test:
    depends: [build]
    environment: {MODE: slow}
    matrix: {OS: [bsd, linux], include: [{OS: linux, ARCH: arm}]}
    steps: [{run: make test}]
  lint:
    steps: [{run: make lint}]
  deploy:
    depends: [{task: test}, lint]
    environment: {TARGET: '{{ input "target" }}'}
    steps: [{run: deploy, when: always}]
`

// TestChanges edits a specification: each task is without a reason to run, or has one.
func TestChanges(t *testing.T) {
	t.Parallel()
	every := func(reason string) map[string]string {
		return map[string]string{"build": reason, "lint": reason, "test[OS=bsd]": reason, "test[OS=linux]": reason, "deploy": reason}
	}
	tests := map[string]struct {
		replace []string // pairs of old and new texts
		values  map[string]string
		secret  string
		// The first of the replaced texts are already in the old specification; onBoth: all.
		onBothFirst int
		onBoth      bool
		want        map[string]string
	}{
		"nothing": {},
		"form, order and comments": {replace: []string{
			"# a deployment", "# another comment", "depends: [{task: test}, lint]", "depends: [lint, {task: test, on: [success]}]",
			"steps: [{run: make lint}]", "steps:\n      - run: |-\n          make lint", "timeout: 1m", "timeout: 60s",
		}},
		"what steers the run": {replace: []string{
			"name: release", "name: other\npriority: 1\ntimeout: 1h\nfail_fast: true\nchangegroups: [g]\nannotations: {a: b}",
		}},
		"the step of one task": {
			replace: []string{"run: deploy", "run: deploy -v"}, want: map[string]string{"deploy": "changed tasks.deploy.steps[0].run"},
		},
		"another key of a step": {
			replace: []string{"timeout: 1m", "timeout: 2m"}, want: map[string]string{"build": "changed tasks.build.steps[1].timeout"},
		},
		"one step less": {
			replace: []string{", {run: make check, timeout: 1m}", ""}, want: map[string]string{"build": "changed tasks.build.steps[1]"},
		},
		"one step more": {
			replace: []string{"{run: make lint}", "{run: make lint}, {run: make vet}"}, want: map[string]string{"lint": "changed tasks.lint.steps[1]"},
		},
		"a key that was absent": {
			replace: []string{"  lint:\n", "  lint:\n    image: golang\n"}, want: map[string]string{"lint": "changed tasks.lint.image"},
		},
		"an input": {
			values: map[string]string{"target": "production"}, want: map[string]string{"deploy": "changed tasks.deploy.environment.TARGET"},
		},
		"the default of an input, in its place": {
			replace: []string{"{default: test}", "{default: live}"}, want: map[string]string{"deploy": "changed tasks.deploy.environment.TARGET"},
		},
		"a reference replaced by its value": {replace: []string{`'{{ input "target" }}'`, "test"}},
		"a variable of the run": {
			replace: []string{"COMMIT: abc", "COMMIT: abd"}, want: every("changed environment.COMMIT"),
		},
		"a variable that one task sets itself": {
			replace: []string{", MODE: fast", ", MODE: safe"},
			want:    map[string]string{"build": "changed environment.MODE", "lint": "changed environment.MODE", "deploy": "changed environment.MODE"},
		},
		"a variable of a task": {
			replace: []string{"MODE: slow", "MODE: slower"},
			want:    map[string]string{"test[OS=bsd]": "changed tasks.test.environment.MODE", "test[OS=linux]": "changed tasks.test.environment.MODE"},
		},
		"a variable less": {
			replace: []string{"    environment: {MODE: slow}\n", ""},
			want:    map[string]string{"test[OS=bsd]": "changed tasks.test.environment.MODE", "test[OS=linux]": "changed tasks.test.environment.MODE"},
		},
		"the value of a secret":       {secret: "hunter3", want: every("changed secrets.TOKEN")},
		"a secret more":               {replace: []string{"secrets: {", "secrets: {MORE: x, "}, want: every("changed secrets.MORE")},
		"a secret as a file":          {replace: []string{"secrets: {", "secret_files: [TOKEN]\nsecrets: {"}, want: every("changed secret_files[0]")},
		"a secret of a provider":      {replace: []string{"secrets: {", "secrets_from: {P: {provider: vault, name: x}}\nsecrets: {"}, want: every("changed secrets_from.P")},
		"a registry":                  {replace: []string{"username: u", "username: v"}, want: every("changed registries.r.example.com.username")},
		"another group":               {replace: []string{"group: /apps/web", "group: /apps/other"}, want: every("changed group")},
		"a run that cannot be set up": {replace: []string{"group: /apps/web", "group: /apps/web\nsetup_errors: [no]"}, want: every("changed setup_errors[0]")},
		"a variable that becomes that of the run": {
			replace: []string{"MODE: fast}", "MODE: slow}", "    environment: {MODE: slow}\n", ""},
			want:    map[string]string{"build": "changed environment.MODE", "lint": "changed environment.MODE", "deploy": "changed environment.MODE"},
		},
		"an untrusted run": {replace: []string{"group: /apps/web", "group: /apps/web\nuntrusted: true"}, want: every("changed untrusted")},
		"a value of an axis more": {
			replace: []string{"[bsd, linux]", "[bsd, linux, plan9]"}, want: map[string]string{"test[OS=plan9]": "new", "deploy": "dependency test"},
		},
		"a value of an axis less": {
			replace: []string{"[bsd, linux]", "[linux]"}, want: map[string]string{"deploy": "dependency test"},
		},
		"another value of an added variable": {
			replace: []string{"ARCH: arm", "ARCH: x86"}, want: map[string]string{"test[OS=linux]": "changed tasks.test.matrix"},
		},
		"an input of a task with a condition": {
			replace: []string{"  lint:\n", "  lint:\n    if: inputs.target == \"test\"\n"}, onBoth: true, values: map[string]string{"target": "live"},
			want: map[string]string{"lint": "changed input_values.target", "deploy": "changed tasks.deploy.environment.TARGET"},
		},
		"an input of a step with a condition": {
			replace: []string{"{run: make lint}", "{run: make lint, if: inputs.target == \"test\"}"}, onBoth: true, values: map[string]string{"target": "live"},
			want: map[string]string{"lint": "changed input_values.target", "deploy": "changed tasks.deploy.environment.TARGET"},
		},
		"the name of a run with a condition": {
			replace: []string{"  lint:\n", "  lint:\n    if: run.name == \"x\"\n", "name: release", "name: x"}, onBothFirst: 2, want: map[string]string{"lint": "changed name"},
		},
		"an annotation of a run with a condition": {
			replace: []string{"  lint:\n", "  lint:\n    if: annotations[\"a\"] == \"b\"\n", "name: release", "name: release\nannotations: {a: b}"}, onBothFirst: 2,
			want: map[string]string{"lint": "changed annotations.a"},
		},
		"a variable that an axis overrides": {
			replace: []string{"MODE: slow}", "MODE: slow, OS: x}"}, want: map[string]string{},
		},
		"a new task": {
			replace: []string{"  lint:\n", "  docs: {steps: [{run: make docs}]}\n  lint:\n"}, want: map[string]string{"docs": "new"},
		},
		"a task less": {
			replace: []string{"  lint:\n    steps: [{run: make lint}]\n", "", ", lint]", "]"}, want: map[string]string{"deploy": "changed tasks.deploy.depends"},
		},
		"a renamed task": {
			replace: []string{"  lint:\n", "  vet:\n", ", lint]", ", vet]"}, want: map[string]string{"vet": "new", "deploy": "changed tasks.deploy.depends"},
		},
		"another condition of a dependency": {
			replace: []string{"{task: test}", "{task: test, on: [success, failure]}"}, want: map[string]string{"deploy": "changed tasks.deploy.depends"},
		},
		"a matrix less": {
			replace: []string{"    matrix: {OS: [bsd, linux], include: [{OS: linux, ARCH: arm}]}\n", ""}, want: map[string]string{"test": "new", "deploy": "dependency test"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old, text := beforeEdit, beforeEdit
			for i := 0; i < len(tt.replace); i += 2 {
				require.Contains(t, text, tt.replace[i])
				text = strings.Replace(text, tt.replace[i], tt.replace[i+1], 1)
				if tt.onBoth || i < tt.onBothFirst {
					old = text
				}
			}
			before, after := resolved(t, old, nil), resolved(t, text, func(s *run.Spec) {
				s.InputValues = tt.values
				if tt.secret != "" {
					s.Secrets["TOKEN"] = run.Secret(tt.secret)
				}
			})
			got, names := make(map[string]string), []string{}
			for _, task := range spec.Changes(before, after) {
				names = append(names, task.Name)
				require.False(t, task.Kept)
				if task.Reason != "" {
					got[task.Name] = strings.TrimSpace(fmt.Sprint(task.Reason, " ", task.Detail))
				}
			}
			if tt.want == nil {
				tt.want = map[string]string{}
			}
			require.Equal(t, tt.want, got)
			require.Len(t, names, len(after.Tasks), "in the order of the tasks")
			for i, x := range after.Tasks {
				require.Equal(t, x.Name, names[i])
			}
			require.NotContains(t, fmt.Sprint(got), "hunter")
		})
	}
}

// TestChanges_pool has a task for which another pool was chosen, without another text.
func TestChanges_pool(t *testing.T) {
	t.Parallel()
	before, after := resolved(t, beforeEdit, nil), resolved(t, beforeEdit, nil)
	for i := range after.Tasks {
		if after.Tasks[i].Name == "lint" {
			after.Tasks[i].Pool = "other"
		}
	}
	for _, task := range spec.Changes(before, after) {
		want := run.RestartTask{Name: task.Name}
		if task.Name == "lint" {
			want.Reason, want.Detail = run.RestartChanged, "tasks.lint.pool"
		}
		require.Equal(t, want, task)
	}
}

// TestChanges_cost has many tasks and many variables: the cost grows with their sum.
func TestChanges_cost(t *testing.T) {
	t.Parallel()
	of := func(n int, value string) spec.Expanded {
		s := &run.Spec{Name: "n", Group: "/a/b", Environment: map[string]string{}, Tasks: map[string]*run.TaskSpec{}}
		for i := range n {
			s.Environment[fmt.Sprintf("V%d", i)] = value
			s.Tasks[fmt.Sprintf("t%d", i)] = &run.TaskSpec{Steps: []run.Step{{Run: "true", If: "inputs.x"}}, Environment: map[string]string{"A": value}}
		}
		s.Inputs = map[string]run.Input{"x": {Default: new(value)}}
		axis := run.Matrix{Axes: map[string][]string{"V0": nil, "V1": {"a"}}}
		for i := range n {
			axis.Axes["V0"] = append(axis.Axes["V0"], fmt.Sprint(i))
		}
		s.Tasks["wide"] = &run.TaskSpec{Steps: []run.Step{{Run: "true"}}, Matrix: axis}
		s.Tasks["join"] = &run.TaskSpec{Steps: []run.Step{{Run: "true"}}, Depends: []run.Depend{{Task: "wide"}}}
		x, faults := spec.Expand(s, nil)
		require.Empty(t, faults)
		return spec.Expanded{Spec: s, Expansion: x}
	}
	for _, value := range []string{"same", "other"} {
		before, after := map[int]spec.Expanded{}, map[int]spec.Expanded{}
		cputime.Linear(t, 500, func(n int) {
			if _, ok := before[n]; !ok {
				before[n], after[n] = of(n, "same"), of(n, value)
			}
			require.Len(t, spec.Changes(before[n], after[n]), 2*n+1)
		})
	}
}

func resolved(t *testing.T, text string, change func(s *run.Spec)) spec.Expanded {
	t.Helper()
	s, err := spec.Read([]byte(text), spec.FormatYAML)
	require.NoError(t, err)
	if change != nil {
		change(s)
	}
	require.Empty(t, spec.ValidateRun(s))
	s, _, faults := inputs.Resolve(s, inputs.MissingFault)
	require.Empty(t, faults)
	x, faults := spec.Expand(s, nil)
	require.Empty(t, faults)
	return spec.Expanded{Spec: s, Expansion: x}
}
