package spec_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

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
		want    map[string]string
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
			want:    map[string]string{"test[OS=bsd]": "changed environment.MODE", "test[OS=linux]": "changed environment.MODE"},
		},
		"the value of a secret":  {secret: "hunter3", want: every("changed secrets.TOKEN")},
		"a secret more":          {replace: []string{"secrets: {", "secrets: {MORE: x, "}, want: every("changed secrets.MORE")},
		"a secret as a file":     {replace: []string{"secrets: {", "secret_files: [TOKEN]\nsecrets: {"}, want: every("changed secret_files[0]")},
		"a secret of a provider": {replace: []string{"secrets: {", "secrets_from: {P: {provider: vault, name: x}}\nsecrets: {"}, want: every("changed secrets_from.P")},
		"a registry":             {replace: []string{"username: u", "username: v"}, want: every("changed registries.r.example.com.username")},
		"another group":          {replace: []string{"group: /apps/web", "group: /apps/other"}, want: every("changed group")},
		"an untrusted run":       {replace: []string{"group: /apps/web", "group: /apps/web\nuntrusted: true"}, want: every("changed untrusted")},
		"a value of an axis more": {
			replace: []string{"[bsd, linux]", "[bsd, linux, plan9]"}, want: map[string]string{"test[OS=plan9]": "new", "deploy": "dependency test"},
		},
		"a value of an axis less": {
			replace: []string{"[bsd, linux]", "[linux]"}, want: map[string]string{"deploy": "dependency test"},
		},
		"another value of an added variable": {
			replace: []string{"ARCH: arm", "ARCH: x86"}, want: map[string]string{"test[OS=linux]": "changed tasks.test.matrix"},
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
			text := beforeEdit
			for i := 0; i < len(tt.replace); i += 2 {
				require.Contains(t, text, tt.replace[i])
				text = strings.Replace(text, tt.replace[i], tt.replace[i+1], 1)
			}
			before, after := resolved(t, beforeEdit, nil), resolved(t, text, func(s *run.Spec) {
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
