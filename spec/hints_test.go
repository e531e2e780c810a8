package spec_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

// TestValidate_words_of_other_systems checks the hints for keys that other
// systems have: each names a key of Drover, and the place of it if that is
// elsewhere.
func TestValidate_words_of_other_systems(t *testing.T) {
	t.Parallel()
	for place, words := range map[string]map[string]string{
		minimal: {
			"jobs: {}": `"tasks"`, "stages: [a]": `"depends"`, "on: push": "no triggers", "env: {}": `"environment"`, "variables: {}": `"environment"`,
			"script: [a]": `"steps"`, "needs: [a]": `"depends"`, "image: a": "a key of a task", "services: {}": "a key of a task", "run: a": `"steps"`,
			"before_script: [a]": `"steps"`, "if: a": "no conditions", "default: {}": "anchors", "include: a": "anchors", "concurrency: a": `"changegroups"`,
			"schedule: a": "drover schedules", "depends: [a]": "a key of a task", "save_cache: {}": "a key of a step", "params: {}": `"inputs"`,
			"runs-on: a": `"pool"`, "cache: {}": `"restore_cache"`, "allow_failure: true": "it is a key of a task", "handlerOn: {}": `"depends"`,
		},
		minimal + "    ": {
			"needs: [a]": `use "depends"`, "depends_on: [a]": `use "depends"`, "dependsOn: [a]": `use "depends"`, "env: {}": `"environment"`, "script: [a]": `"steps"`,
			"run: a": `"steps"`, "condition: a": `"if"`, "rules: []": `"depends"`, "when: manual": `"skip"`, "runs-on: a": `"requires"`, "tags: [a]": `"pool"`,
			"container: a": `"image"`, "strategy: {}": `"matrix"`, "stage: a": `"depends"`, "artifacts: {}": `"save_artifacts"`, "cache: {}": `"save_cache"`,
			"timeout-minutes: 5": `"timeout"`, "continue-on-error: true": `"allow_failure"`, "uses: a": "no actions",
			"with: {}": "no actions", "before_script: [a]": `"steps"`, "after_script: [a]": `"when"`, "working-directory: a": `"working_dir"`,
			"outputs: {}": "$DROVER_OUTPUT", "secrets: {}": "a key of the run", "name: a": "is the name", "parallel: 2": `"matrix"`, "commands: [a]": `"steps"`,
		},
		minimal + "  b:\n    steps:\n    - run: a\n      ": {
			"script: a": `"run"`, "command: a": `"run"`, "env: {}": `"environment"`, "rules: []": `"if"`, "uses: a": `"run"`, "with: {}": `"run"`,
			"working-directory: a": `"working_dir"`, "shell: a": "a key of a task", "depends: [a]": "in order",
			"continue-on-error: true": "|| true", "artifacts: {}": `"save_artifacts"`, "id: a": `"name"`, "timeout_minutes: 3": `"timeout"`, "secrets: {}": "a key of the run",
			"persist_to_workspace: {}": `"save_workspace"`, "cache: {}": `"restore_cache"`,
		},
		minimal + "    services:\n    - name: s\n      image: i\n      ":                {"env: {}": `"environment"`, "ports: []": "localhost", "alias: a": `"aliases"`},
		minimal + "  b:\n    steps: [{run: b}]\n    depends:\n    - task: a\n      ":    {"job: a": `"task"`, "when: a": `"on"`, "status: a": `"on"`},
		minimal + "    retry:\n      ":                                                  {"max: 2": `"max_attempts"`, "limit: 2": `"max_attempts"`, "when: a": `"on"`, "intervalSec: 3": `"backoff"`},
		minimal + "    resources:\n      ":                                              {"cpus: 2": `"cpu"`, "mem: 2": `"memory"`, "limits: {}": `"cpu"`},
		minimal + "    volumes:\n    - path: /a\n      tmpfs: {}\n      ":               {"target: /a": `"path"`, "source: a": `"name"`, "type: bind": `"tmpfs"`, "hostPath: /a": `"host_path"`, "bind: /a": `"host_path"`, "ro: true": `"read_only"`},
		minimal + "  b:\n    steps:\n    - save_artifacts:\n        name: a\n        ":  {"expire_in: 1 week": `"retention"`, "retention-days: 3": `"retention"`, "path: a": `"paths"`},
		minimal + "  b:\n    steps:\n    - restore_cache:\n        keys: [a]\n        ": {"key: a": `"keys"`, "restore-keys: a": `"keys"`, "path: a": `"to"`},
		minimal + "  b:\n    steps:\n    - restore_workspace:\n        ":                {"at: a": `"to"`},
	} {
		for line, want := range words {
			_, err := spec.Validate([]byte(place+line+"\n"), spec.FormatYAML)
			found := faults(err)
			require.Len(t, found, 1, "%s%s", place, line)
			require.Equal(t, run.FaultUnknownField, found[0].Code, line)
			_, hint, ok := strings.Cut(found[0].Detail, "; ")
			require.True(t, ok, found[0].Detail)
			require.Contains(t, hint, want, line)
		}
	}
}

func TestForeignWords_name_keys(t *testing.T) {
	t.Parallel()
	known := make(map[string]bool)
	for _, p := range keysOfSchema() {
		known[p[strings.LastIndexByte(p, '.')+1:]] = true
	}
	for typ, words := range spec.ForeignWords() {
		for word, hint := range words {
			require.NotContains(t, spec.FieldsOf(typ), word, "%s has this key", typ)
			for _, m := range regexp.MustCompile(`"([^"]*)"`).FindAllStringSubmatch(hint, -1) {
				require.True(t, known[m[1]], "%s: the hint for %s names %q, which is no key", typ, word, m[1])
			}
		}
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	task := "name: n\ngroup: /a/b\ntasks:\n  p: {steps: [{run: p}]}\n  a:\n    depends: [p]\n    "
	steps := "\n    steps: [{run: a}]\n"
	for name, c := range map[string]struct{ text, path, detail string }{
		"output in a script":         {task + "steps:\n    - run: |\n        echo {{ output \"p\" \"k\" }}\n", "tasks.a.steps[0].run", `{{ output "task" "key" }} is not expanded here`},
		"without spaces":             {task + "steps:\n    - run: 'echo {{output `p` `k`}}'\n", "tasks.a.steps[0].run", "set a variable"},
		"trimmed":                    {task + "steps:\n    - run: 'echo {{- output `p` `k` -}}'\n", "tasks.a.steps[0].run", "set a variable"},
		"expression in a script":     {task + "steps:\n    - run: echo ${{ inputs.name }}\n", "tasks.a.steps[0].run", "${{ }} is not expanded"},
		"expression in variables":    {task + "environment: {A: '${{ github.sha }}'}" + steps, "tasks.a.environment.A", "${{ }} is not expanded"},
		"expression in secrets":      {minimal + "secrets: {A: '${{ secrets.A }}'}\n", "secrets.A", "${{ }} is not expanded"},
		"dollar before an output":    {task + "environment: {A: '${{ output \"p\" \"k\" }}'}" + steps, "tasks.a.environment.A", "the dollar sign before {{ stays"},
		"dollar before a call":       {task + "steps: [{restore_cache: {keys: ['${{ env \"A\" }}']}}]\n", "tasks.a.steps[0].restore_cache.keys[0]", "the dollar sign before {{ stays"},
		"key function in a script":   {task + "steps: [{run: 'echo {{ sha256 \"go.sum\" }}'}]\n", "tasks.a.steps[0].run", "templates of cache keys"},
		"key function in a variable": {task + "environment: {A: '{{ env \"B\" }}'}" + steps, "tasks.a.environment.A", "templates of cache keys"},
		"output in a name":           {minimal + "    working_dir: '/{{ output \"p\" \"k\" }}'\n", "tasks.a.working_dir", "set a variable"},
		"output in a glob":           {task + "steps: [{save_artifacts: {name: n, paths: ['{{ output \"p\" \"k\" }}']}}]\n", "tasks.a.steps[0].save_artifacts.paths[0]", "set a variable"},
		"output in an annotation":    {minimal + "annotations: {a: '{{ output \"p\" \"k\" }}'}\n", "annotations.a", "set a variable"},
		"outputs":                    {task + "environment: {A: '{{ outputs \"p\" \"k\" }}'}" + steps, "tasks.a.environment.A", `an output is named as {{ output "task" "key" }}`},
		"outputs of a task":          {task + "environment: {A: '{{ tasks.p.outputs.k }}'}" + steps, "tasks.a.environment.A", `an output is named as {{ output "task" "key" }}`},
		"outputs in a script":        {task + "steps: [{run: 'echo {{ outputs \"p\" \"k\" }}'}]\n", "tasks.a.steps[0].run", `an output is named as {{ output "task" "key" }}`},
		"an unknown variable":        {task + "steps: [{run: 'test $DROVER_ATTEMPT = 1 || test $DROVER_ATTEMPT = 2'}]\n", "tasks.a.steps[0].run", `Drover sets no variable DROVER_ATTEMPT; did you mean "DROVER_TASK_ATTEMPT"?`},
		"a mistyped variable":        {task + "steps: [{run: 'echo a >> \"${DROVER_OUTPUTS}\"'}]\n", "tasks.a.steps[0].run", `did you mean "DROVER_OUTPUT"?`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := spec.Validate([]byte(c.text), spec.FormatYAML)
			require.NoError(t, err, "%v", faults(err))
			got := spec.Warnings([]byte(c.text), spec.FormatYAML)
			require.Len(t, got, 1)
			require.Equal(t, c.path, got[0].Path)
			require.Contains(t, got[0].Detail, c.detail)
			require.Contains(t, []run.Code{run.FaultNotExpanded, run.FaultUnknownVariable}, got[0].Code)
			require.Positive(t, got[0].Line)
		})
	}
	for name, text := range map[string]string{
		"expanded":              string(full(t, "every-key.yaml")),
		"another template":      task + "steps: [{run: \"docker inspect -f '{{ .State.Pid }}' a\"}]\n",
		"braces":                task + "steps: [{run: 'echo ${A} {{}} {{ outputs }} {{ json .env }} {{ env.A }}'}]\n",
		"variables":             task + "steps: [{run: 'echo $DROVER_RUN_ID ${DROVER_TASK_ATTEMPT} $DROVER_TOKEN $DROVER_GATEWAY__LISTEN $DROVERX'}]\n",
		"a variable of its own": task + "steps: [{run: 'DROVER_X=1; echo $DROVER_X; read DROVER_Y; echo ${DROVER_Y}'}]\n",
		"key of a cache":        task + "steps: [{save_cache: {key: '{{ env \"A\" }}-{{ year }}'}}]\n",
		"input that is no YAML": "a: [",
		"input that is no map":  "a",
	} {
		require.Empty(t, spec.Warnings([]byte(text), spec.FormatYAML), name)
	}
	many := spec.Warnings([]byte(minimal+"secrets:\n"+strings.Repeat("  A: '${{ a }}'\n", 2)+"changegroups: ["+strings.Repeat("'${{ a }}',", 2*run.MaxFaults)+"]\n"), spec.FormatYAML)
	require.Len(t, many, run.MaxFaults)
}
