package inputs_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/inputs"
)

func spec(change func(s *run.Spec)) *run.Spec {
	s := &run.Spec{
		Name: `deploy {{ input "target" }}`, Group: "/a/b",
		Environment: map[string]string{"A": `{{- input "workers" -}} x`, "B": "b"},
		Inputs: map[string]run.Input{
			"target":  {Type: run.InputChoice, Options: []string{"staging", "production"}, Required: true},
			"workers": {Type: run.InputNumber, Default: new("1.50")},
			"dry":     {Type: run.InputBoolean},
			"note":    {Pattern: "[a-z]*"},
		},
		InputValues: map[string]string{"target": "staging"},
		Tasks: map[string]*run.TaskSpec{"a": {
			Image: "app:`", Pool: `{{ input "note" }}`, Environment: map[string]string{"C": `{{ input "dry" }}{{ output "b" "c" }}`},
			Services: []run.ServiceSpec{{Name: "db", Image: "db:{{ input `target` }}", Environment: map[string]string{"D": `{{input "target"}}`}}},
			Steps: []run.Step{
				{Name: `for {{ input "target" }}`, Run: `echo {{ input "target" }}`, Environment: map[string]string{"E": `{{ input "workers" }}`}},
				{ArchiveStep: run.ArchiveStep{SaveCache: &run.SaveCache{Key: `k-{{ input "target" }}-{{ os }}`}}},
				{ArchiveStep: run.ArchiveStep{RestoreCache: &run.RestoreCache{Keys: []string{"k", `{{ input "target" }}`}}}},
			},
		}},
	}
	if change != nil {
		change(s)
	}
	return s
}

func TestResolve(t *testing.T) {
	t.Parallel()
	s := spec(nil)
	require.Empty(t, inputs.Check(s, inputs.MissingFault))
	got, replaced, faults := inputs.Resolve(s, inputs.MissingFault)
	require.Empty(t, faults)
	require.True(t, replaced)
	require.Equal(t, spec(nil), s, "the source stays as it is")
	require.Equal(t, "deploy staging", got.Name)
	require.Equal(t, map[string]string{"A": "1.50x", "B": "b"}, got.Environment)
	require.Equal(t, map[string]string{"target": "staging", "workers": "1.50", "dry": "false", "note": ""}, got.InputValues)
	require.Equal(t, map[string]any{"target": "staging", "workers": 1.5, "dry": false, "note": ""}, got.TypedInputs())
	a := got.Tasks["a"]
	require.Empty(t, a.Pool)
	require.Equal(t, `false{{ output "b" "c" }}`, a.Environment["C"])
	require.Equal(t, run.ServiceSpec{Name: "db", Image: "db:staging", Environment: map[string]string{"D": "staging"}}, a.Services[0])
	require.Equal(t, "for staging", a.Steps[0].Name)
	require.Equal(t, `echo {{ input "target" }}`, a.Steps[0].Run, "a script is not changed")
	require.Equal(t, "1.50", a.Steps[0].Environment["E"])
	require.Equal(t, "k-staging-{{ os }}", a.Steps[1].SaveCache.Key)
	require.Equal(t, []string{"k", "staging"}, a.Steps[2].RestoreCache.Keys)

	again, replaced, faults := inputs.Resolve(got, inputs.MissingFault)
	require.Empty(t, faults)
	require.False(t, replaced)
	require.Equal(t, got, again)
}

func TestResolve_stand_ins(t *testing.T) {
	t.Parallel()
	s := spec(func(s *run.Spec) { s.InputValues = nil })
	require.NotEmpty(t, inputs.Check(s, inputs.MissingFault))
	require.Empty(t, inputs.Check(s, inputs.MissingStandIn))
	got, _, faults := inputs.Resolve(s, inputs.MissingStandIn)
	require.Empty(t, faults)
	require.Equal(t, "deploy staging", got.Name, "the first option")
}

func TestResolve_faults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"no name":        {`{{ input }}`, "bad_format an input is named as"},
		"no quotes":      {`{{ input target }}`, "bad_format an input is named as"},
		"after one":      {`{{ input "target" }} {{ input }}`, "bad_format an input is named as"},
		"unknown":        {`{{ input "targt" }}`, `unknown_input there is no input "targt"; did you mean "target"?`},
		"broken string":  {`{{ input "\q" }}`, "bad_format"},
		"two parameters": {`{{ input "target" "x" }}`, "bad_format an input is named as"},
	} {
		_, _, faults := inputs.Resolve(spec(func(s *run.Spec) { s.Environment["A"] = c.text }), inputs.MissingFault)
		require.Len(t, faults, 1, name)
		require.Equal(t, "environment.A", faults[0].Path)
		require.Contains(t, string(faults[0].Code)+" "+faults[0].Detail, c.want, name)
	}
	for _, text := range []string{`{{ inputs.target }}`, `{{ inputX "a" }}`, `input "a"`, `{{ x }}`} {
		got, _, faults := inputs.Resolve(spec(func(s *run.Spec) { s.Environment["A"] = text }), inputs.MissingFault)
		require.Empty(t, faults)
		require.Equal(t, text, got.Environment["A"], "it is no reference")
	}
}

func TestResolve_bounds_the_text(t *testing.T) {
	t.Parallel()
	s := spec(func(s *run.Spec) {
		s.Inputs["note"], s.InputValues["note"] = run.Input{}, strings.Repeat("x", run.MaxInputBytes)
		for i := range 100 {
			s.Environment[fmt.Sprintf("V%d", i)] = strings.Repeat(`{{ input "note" }}`, 100)
		}
	})
	require.Empty(t, inputs.Check(s, inputs.MissingFault))
	_, _, faults := inputs.Resolve(s, inputs.MissingFault)
	require.Len(t, faults, 1)
	require.Equal(t, run.FaultOverLimit, faults[0].Code)
}

func TestCheck(t *testing.T) {
	t.Parallel()
	declare := func(in run.Input) func(*run.Spec) {
		return func(s *run.Spec) { s.Inputs["x"] = in }
	}
	give := func(name, value string) func(*run.Spec) {
		return func(s *run.Spec) { s.InputValues[name] = value }
	}
	for name, c := range map[string]struct {
		change func(*run.Spec)
		want   string
	}{
		"missing":                {func(s *run.Spec) { s.InputValues = nil }, `input_values.target required the input "target" is required: one of staging, production`},
		"unknown":                {give("worker", "1"), `input_values.worker unknown_input there is no input "worker"; did you mean "workers"?`},
		"no option":              {give("target", "prod"), `input_values.target bad_value "prod" is none of the options staging, production`},
		"no number":              {give("workers", "many"), `input_values.workers wrong_type "many" is not a number`},
		"number not of JSON":     {give("workers", "0x10"), "input_values.workers wrong_type"},
		"infinite":               {give("workers", "1e999"), "input_values.workers wrong_type"},
		"no boolean":             {give("dry", "yes"), `input_values.dry wrong_type "yes" is neither true nor false`},
		"pattern":                {give("note", "ab\n"), "input_values.note bad_format"},
		"part of the pattern":    {give("note", "abC"), "input_values.note bad_format"},
		"long with a pattern":    {give("note", strings.Repeat("a", 1025)), "input_values.note over_limit"},
		"long":                   {give("target", strings.Repeat("a", run.MaxInputBytes+1)), "input_values.target over_limit"},
		"template":               {give("note", "{{ x }}"), "input_values.note bad_value a value is plain text"},
		"NUL":                    {give("target", "a\x00"), "input_values.target bad_format"},
		"default is a secret":    {declare(run.Input{Default: new("${{ secrets.TOKEN }}")}), "inputs.x.default bad_value an input is shown to all readers"},
		"name":                   {func(s *run.Spec) { s.Inputs["a-b"] = run.Input{} }, "inputs.a-b bad_format"},
		"type":                   {declare(run.Input{Type: "nmber"}), `inputs.x.type bad_value "nmber" is none of string, number, boolean, choice; did you mean "number"?`},
		"default of another":     {declare(run.Input{Type: run.InputNumber, Default: new("a")}), "inputs.x.default wrong_type"},
		"required and default":   {declare(run.Input{Required: true, Default: new("a")}), "inputs.x.required contradiction"},
		"number without default": {declare(run.Input{Type: run.InputNumber}), "inputs.x required"},
		"choice without options": {declare(run.Input{Type: run.InputChoice, Required: true}), "inputs.x.options required"},
		"options of a string":    {declare(run.Input{Options: []string{"a"}}), "inputs.x.options contradiction"},
		"same options":           {declare(run.Input{Type: run.InputChoice, Required: true, Options: []string{"a", "a"}}), "inputs.x.options[1] duplicate"},
		"default is no option":   {declare(run.Input{Type: run.InputChoice, Default: new("b"), Options: []string{"a"}}), "inputs.x.default bad_value"},
		"bad pattern":            {declare(run.Input{Pattern: "("}), "inputs.x.pattern bad_format"},
		"pattern of a number":    {declare(run.Input{Type: run.InputNumber, Required: true, Pattern: "1"}), "inputs.x.pattern contradiction"},
		"pattern that repeats":   {declare(run.Input{Required: true, Pattern: "(a{100}){10}"}), "inputs.x.pattern over_limit"},
		"empty is no match":      {declare(run.Input{Pattern: "a+"}), "inputs.x required"},
		"many":                   {func(s *run.Spec) { addInputs(s, run.MaxInputs) }, "inputs over_limit"},
	} {
		faults := inputs.Check(spec(c.change), inputs.MissingFault)
		require.Len(t, faults, 1, "%s: %v", name, faults)
		require.Contains(t, faults[0].Path+" "+string(faults[0].Code)+" "+faults[0].Detail, c.want, name)
	}
	require.Empty(t, inputs.Check(spec(declare(run.Input{Type: run.InputNumber, Default: new("-1e3")})), inputs.MissingFault))
	require.Empty(t, inputs.Check(spec(give("workers", "0")), inputs.MissingFault))
}

func addInputs(s *run.Spec, n int) {
	for i := range n {
		s.Inputs[fmt.Sprintf("i%d", i)] = run.Input{}
	}
}

func TestPlain(t *testing.T) {
	t.Parallel()
	require.Equal(t, `a-x-{{ os }}`, inputs.Plain(`a-{{ input "b" }}-{{ os }}`))
	require.Equal(t, `{{ input }}`, inputs.Plain(`{{ input }}`))
}

func TestCheck_patterns(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]string{
		"(":                        "`(`: ) is missing",
		"a)(b":                     "`a)(b`: ) has no ( before it",
		"[a":                       "`[a`: ] is missing",
		"[z-a]":                    "`z-a`: a range in [ ] begins after its end, or has no such name",
		"[[:word]]":                "",
		"[[:nope:]]":               "`[:nope:]`: a range in [ ] begins after its end, or has no such name",
		`a\q`:                      "`\\q`: \\ is not followed by a character that it escapes; \\\\ is the character itself",
		`a\`:                       "it ends with a \\; \\\\ is the character itself",
		"*a":                       "`*`: a repetition has nothing before it; \\ before it makes it a plain character",
		"a**":                      "`**`: one repetition follows another",
		"a{2,1}":                   "`{2,1}`: a repetition has at most 1000 times, and the lower number first",
		"a{1001}":                  "`{1001}`: a repetition has at most 1000 times, and the lower number first",
		"(?=a)":                    "`(?=`: lookarounds and back references are not supported; (?: begins a group",
		"(?P<n":                    "`(?P<n`: a group with a name is written as (?P<name>...)",
		"(?:[a-z]+-){2}[0-9]{1,8}": "",
	} {
		found := inputs.Check(&run.Spec{Inputs: map[string]run.Input{"x": {Pattern: pattern, Required: true}}}, inputs.MissingStandIn)
		if want == "" {
			require.Empty(t, found, pattern)
			continue
		}
		require.Len(t, found, 1, pattern)
		require.Equal(t, "it is not a regular expression: "+want, found[0].Detail, pattern)
	}
}
