package spec_test

import (
	"flag"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/cputime"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/graph"
	"github.com/drover-run/drover/spec"
)

const (
	costBytes = 512 << 10 // of an input
	// costTimes is how often an input of any content may cost what a plain file of the
	// same length costs.
	costTimes = 20
	// costCounter is replaced by the number of the repetition.
	costCounter = "%"
	maxCostUnit = 2 << 10
)

// costSeed is an input with two parts that are repeated.
type costSeed struct{ head, first, middle, second, tail string }

const costTask = "name: n\ngroup: /a/b\n"

// costSeeds returns inputs whose cost once grew with the square of their
// length, and inputs that are expensive for the YAML library.
func costSeeds() map[string]costSeed {
	steps := "steps: [{run: x}]"
	values := make([]string, 100)
	for i := range values {
		values[i] = "x" + strconv.Itoa(i)
	}
	axis := "[" + strings.Join(values, ", ") + "]"
	matrix := costTask + "tasks:\n  m: {" + steps + ", matrix: {A: " + axis + ", B: " + axis + "}}\n" +
		"  r:\n    depends: [m]\n    " + steps + "\n    environment:\n      A: '"
	return map[string]costSeed{
		"unknown outputs":       {costTask + "tasks:\n", "  t%: {" + steps + "}\n", "  r:\n    " + steps + "\n    environment:\n      A: '", `{{output "x%" "k"}}`, "'\n"},
		"outputs of a matrix":   {matrix, "", "", `{{output "m[A=x1,B=y]" "k"}}`, "'\n"},
		"known outputs":         {matrix, "", "", `{{output "m[A=x1,B=x99]" "k"}}`, "'\n"},
		"outputs of many axes":  {costTask + "tasks:\n  m:\n    " + steps + "\n    matrix:\n", "      A%: [a]\n", "  r:\n    depends: [m]\n    " + steps + "\n    environment:\n      A: '", `{{output "m[A0=a]" "k"}}`, "'\n"},
		"change groups":         {costTask + "changegroups:\n", "- c%\n", "", "", "tasks: {t: {" + steps + "}}\n"},
		"registries":            {costTask + "secrets:\n", "  S%: x\n", "registries:\n", "  h%: {username: u, password_secret: S1}\n", "tasks: {t: {" + steps + "}}\n"},
		"secret files":          {costTask + "secrets:\n", "  S%: x\n", "secret_files:\n", "- S%\n", "tasks: {t: {" + steps + "}}\n"},
		"unknown secrets":       {costTask + "secrets:\n", "  ABCDEFGHIJKLMNOPQRSTUVWXYZABCD%: x\n", "secret_files:\n", "- ABCDEFGHIJKLMNOPQRSTUVWXYZABCDX%\n", "tasks: {t: {" + steps + "}}\n"},
		"retries":               {costTask + "tasks:\n  t:\n    " + steps + "\n    retry:\n      on:\n", "      - o%\n", "", "", "\n"},
		"conditions":            {costTask + "tasks:\n  a: {" + steps + "}\n  t:\n    " + steps + "\n    depends:\n    - task: a\n      on:\n", "      - o%\n", "", "", "\n"},
		"if of tasks":           {costTask + "tasks:\n", "  t%: {" + steps + ", if: 'env.A% == \"x\"'}\n", "", "", "\n"},
		"if of steps":           {costTask + "environment: {A: b}\ntasks:\n  t:\n    steps:\n", "    - {run: x, if: env.A == \"%\"}\n", "", "", "\n"},
		"one if of all tasks":   {costTask + "tasks:\n  a: {" + steps + "}\n", "  t%: {" + steps + ", depends: [a], if: 'tasks.a.status == \"success\" && tasks.a.outputs.k == \"1\"'}\n", "", "", "\n"},
		"long conditions":       {costTask + "tasks:\n", "  t%: {" + steps + ", if: '" + strings.Repeat("1 == % && ", 180) + "true'}\n", "", "", "\n"},
		"nested conditions":     {costTask + "tasks:\n", "  t%: {" + steps + ", if: '" + strings.Repeat("(", 45) + "true" + strings.Repeat(")", 45) + " && % > 1'}\n", "", "", "\n"},
		"broken conditions":     {costTask + "tasks:\n", "  t%: {" + steps + ", if: '" + strings.Repeat("([{", 300) + "%'}\n", "", "", "\n"},
		"loops of conditions":   {costTask + "tasks:\n", "  t%: {" + steps + ", if: '" + strings.Repeat("[1].all(a, [1].exists(b, a == b)) && ", 12) + "% > 1'}\n", "", "", "\n"},
		"dependencies":          {costTask + "tasks:\n  a: {" + steps + "}\n  ? ", "long", "\n  : " + steps + "\n    depends:\n", "    - a\n", "\n"},
		"paths":                 {costTask + "tasks:\n  t:\n    steps:\n    - save_artifacts:\n        name: a\n        root: /", "x/", "\n        paths:\n", "        - /%\n", "\n"},
		"unknown fields":        {costTask, "environments%: x\n", "", "", "tasks: {t: {" + steps + "}}\n"},
		"aliases":               {"a: &a [", "b%,", "b]\nc: [", "*a,", "*a]\n"},
		"merges":                {costTask + "environment:\n  <<: &a {", "b%: c,", "b: c}\n", "", "tasks:\n  t: {" + steps + ", environment: {<<: [*a, *a, *a, *a, *a]}}\n"},
		"flow lists":            {"a: ", "[", "", "]", "\n"},
		"flow maps":             {"a: ", "{a: ", "", "}", "\n"},
		"block lists":           {"a:\n", "- ", "", "", "\n"},
		"explicit keys":         {"", "? ", "", "", "\n"},
		"comments":              {costTask, "# comment %\n", "", "", "tasks: {t: {" + steps + "}}\n"},
		"comments in a list":    {costTask + "tasks:\n  t:\n    steps:\n", "    # c%\n", "    - run: x\n", "      # d%\n", "    - run: y\n"},
		"comments of items":     {costTask + "tasks:\n  t:\n    steps:\n", "    - run: x # c%\n", "", "    # d%\n    - run: x\n", "\n"},
		"blank lines":           {costTask + "tasks: {t: {steps: [{run: \"", "\n \n", "", "", "\"}]}}\n"},
		"folded text":           {costTask + "tasks:\n  t:\n    steps:\n    - run: >-\n", "        x%\n\n", "", "          y\n", "\n"},
		"plain text":            {costTask + "description: ", "x ", "", "y%\n  ", "\n"},
		"anchors":               {costTask + "environment:\n", "  A%: &a% b\n", "", "  B%: *a1\n", "tasks: {t: {" + steps + "}}\n"},
		"tags":                  {"", "%TAG !a% !b\n", "---\n", "- !a1!x y\n", "\n"},
		"numbers":               {costTask + "priority: 1", "0", "", "_", "\ntasks: {t: {" + steps + "}}\n"},
		"durations":             {costTask + "timeout: ", "1h", "", "1ns", "\ntasks: {t: {" + steps + "}}\n"},
		"cache keys":            {costTask + "tasks:\n  t:\n    steps:\n", "    - restore_cache: {keys: ['{{ env \"A\" | sha256 }}']}\n", "", "    - save_cache: {key: '{{ ((((((((env \"A\")))))))) }}'}\n", "\n"},
		"braces of outputs":     {costTask + "tasks:\n  t:\n    " + steps + "\n    environment:\n      A: '", "{{ output `", "", "{{output `t` `k`}}", "'\n"},
		"a chain":               {costTask + "tasks:\n  t0: {" + steps + "}\n", "  t%: {" + steps + ", depends: [t0]}\n", "  z: {" + steps + "}\n", "  y%: {" + steps + ", depends: [z, z]}\n", "\n"},
		"globs":                 {costTask + "tasks:\n  t:\n    steps:\n    - save_artifacts:\n        name: a\n        paths: ['", "{a,", "', '", "[", "']\n"},
		"services":              {costTask + "tasks:\n  t:\n    " + steps + "\n    services:\n", "    - {name: s%, image: a}\n", "", "    - {name: s, image: a-a-a-a-a-a-a}\n", "\n"},
		"an image":              {costTask + "tasks:\n  t:\n    " + steps + "\n    image: a", "-a", "", "/a", "!\n"},
		"approval":              {costTask + "tasks:\n", "  t%: {" + steps + ", approval: true, foreach: '{{output \"t\" \"k\"}}'}\n", "", "  u%: {" + steps + ", matrix: {A: [1,2,3], B: [1]}}\n", "\n"},
		"plugin configurations": {costTask + "tasks: {t: {steps: [{run: x, save_cache: {key: ", "[", "", "]", "}}]}}\n"},
	}
}

// FuzzCost repeats parts of an input: reading and checking it must not cost far more
// than a plain run file of the same length.
func FuzzCost(f *testing.F) {
	if flag.Lookup("test.fuzz").Value.String() != "" { // else TestValidate_cost checks these, in parallel
		for _, s := range costSeeds() {
			f.Add(s.head, s.first, s.middle, s.second, s.tail, false)
		}
	}
	f.Add(`{"name":"n","group":"/a/b","tasks":{`, `"t%":{"steps":[{"run":"x"}]},`, `"r":{"steps":[{"run":"x"}],"environment":{"A":"`, `{{output \"x%\" \"k\"}}`, `"}}}}`, true)
	f.Add(`{"a":`, `[`, ``, `]`, `}`, true)
	f.Add(`{"a":[`, `{},`, `{`, `"a%":1,`, `"b":1}]}`, true)
	f.Fuzz(func(t *testing.T, head, first, middle, second, tail string, isJSON bool) {
		if len(head)+len(middle)+len(tail) > costBytes/2 || len(first) > maxCostUnit || len(second) > maxCostUnit {
			t.Skip("the parts are too long")
		}
		format := spec.FormatYAML
		if isJSON {
			format = spec.FormatJSON
		}
		data := costSeed{head, first, middle, second, tail}.data(costBytes)
		plain := plainCost().data(costBytes)
		cputime.AtMost(t, costTimes, func() { checkInput(t, plain, spec.FormatYAML) }, func() { checkInput(t, data, format) })
	})
}

// plainCost returns a run file of tasks and their steps.
func plainCost() costSeed {
	return costSeed{costTask + "tasks:\n", "  t%: {steps: [{run: make}]}\n", "  z:\n    steps:\n", "    - run: make -C dir%\n", "\n"}
}

// TestValidate_cost compares the costs of inputs with those of longer ones.
func TestValidate_cost(t *testing.T) {
	t.Parallel()
	for name, s := range costSeeds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cputime.Linear(t, costBytes/8, func(bytes int) { checkInput(t, s.data(bytes), spec.FormatYAML) })
		})
	}
}

// checkInput reads and checks an input, and expands it if it is valid.
func checkInput(t *testing.T, data []byte, format spec.Format) {
	t.Helper()
	read, err := spec.Validate(data, format)
	if err != nil {
		checkError(t, err)
		return
	}
	x, faults := spec.Expand(read, nil)
	require.Empty(t, faults)
	_, err = graph.New(run.MergePlans(run.SplitPlan(x.Plan, run.MaxPlanPage)).Nodes, read.FailFast.Running != "")
	require.NoError(t, err)
}

// data returns the input with both parts repeated to equal lengths, in so many bytes.
func (s costSeed) data(bytes int) []byte {
	var b strings.Builder
	maxLen := (bytes - len(s.head) - len(s.middle) - len(s.tail)) / 2
	repeat := func(unit string) {
		for i, from := 0, b.Len(); unit != "" && b.Len()-from < maxLen; i++ {
			b.WriteString(strings.ReplaceAll(unit, costCounter, strconv.Itoa(i)))
		}
	}
	b.WriteString(s.head)
	repeat(s.first)
	b.WriteString(s.middle)
	repeat(s.second)
	b.WriteString(s.tail)
	return []byte(b.String())
}
