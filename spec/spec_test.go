package spec_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

// full returns a file that sets every field; full.yaml and full.json have the
// same content.
func full(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return b
}

func fullSpec() *run.Spec {
	return &run.Spec{
		Name: "build-and-test", Group: "/project/42/branch/main", ChangeGroups: []string{"project-42"}, Priority: 3,
		Admission: run.AdmissionManual, Annotations: map[string]string{"commit": "4f2a", "number": "17"},
		Environment: map[string]string{"GOFLAGS": "-trimpath", "VERSION": "1.10", "DEBUG": "true", "HEX": "0x1F", "DAY": "2026-01-02"},
		Secrets:     map[string]run.Secret{"TOKEN": "hunter2", "PIN": "0042"},
		SecretFiles: []string{"PIN"},
		Registries:  map[string]run.Registry{"ghcr.io": {Username: "u", PasswordSecret: "TOKEN"}},
		Timeout:     run.Duration(2 * time.Hour), FailFast: run.FailFast{Running: run.FailFastStop}, SetupErrors: []string{"none"}, Untrusted: true,
		Tasks: map[string]*run.TaskSpec{
			"build": {
				Pool: "linux", Image: "golang:1.26", PullPolicy: run.PullAlways, Platform: "linux/amd64",
				Services:    []run.ServiceSpec{{Name: "db", Image: "postgres:16", Environment: map[string]string{"PORT": "5432"}, Command: []string{"postgres", "-c", "fsync=off"}}},
				Environment: map[string]string{"A": "b"}, WorkingDir: "/src", Shell: []string{"/bin/sh", "-e"}, User: "1000",
				Streams:    run.StreamsSplit,
				Privileged: true, Resources: run.Resources{CPU: "2", Memory: "4Gi", PIDs: 512},
				Volumes: []run.Volume{{Path: "/scratch", Tmpfs: &run.Tmpfs{Size: "64Mi"}}, {Path: "/tmp", Tmpfs: &run.Tmpfs{}}},
				Steps: []run.Step{
					{Run: "go build ./...\n"},
					{Name: "vet", Run: "go vet ./...", Environment: map[string]string{"X": "1"}, WorkingDir: "/src", Timeout: run.Duration(5 * time.Minute), When: run.WhenOnSuccess},
					{ArchiveStep: run.ArchiveStep{SaveWorkspace: &run.SaveWorkspace{ArchivePaths: run.ArchivePaths{Paths: []string{"bin/**"}, Root: "/src"}, To: "."}}},
					{ArchiveStep: run.ArchiveStep{RestoreWorkspace: &run.RestoreWorkspace{}}},
					{ArchiveStep: run.ArchiveStep{SaveCache: &run.SaveCache{ArchivePaths: run.ArchivePaths{Paths: []string{"/root/.cache", "!/root/.cache/tmp"}}, Key: "k", Scope: "/project/42"}}},
					{ArchiveStep: run.ArchiveStep{RestoreCache: &run.RestoreCache{Keys: []string{"a", "b"}, To: "/", Scope: "/project/42"}}},
					{ArchiveStep: run.ArchiveStep{SaveArtifacts: &run.SaveArtifacts{
						ArchivePaths: run.ArchivePaths{Paths: []string{"report"}, Root: "out"}, Name: "report", Retention: run.Duration(720 * time.Hour), JUnit: true,
					}}},
				},
				Depends:  []run.Depend{{Task: "checkout"}, {Task: "lint", On: []run.Condition{run.OnSuccess, run.OnSkipped}}},
				Approval: run.Approval{Approvers: 2}, AllowFailure: true, Skip: true, Timeout: run.Duration(30 * time.Minute),
				Retry:  run.Retry{MaxAttempts: 2, On: []run.RetryOn{run.RetryFailed, run.RetryStartFailed}, Backoff: run.Duration(5 * time.Second)},
				OnLost: run.OnLostRetry, Matrix: run.Matrix{Axes: map[string][]string{"GO": {"1.25", "1.26"}}}, Foreach: run.Foreach{List: "{{ x }}"},
			},
			"lint": {
				Requires: &run.Requires{Driver: "docker", OS: "linux", Arch: "amd64", Labels: map[string]string{"rack": "7"}},
				Steps:    []run.Step{{Run: "true"}}, Approval: run.Approval{Approvers: 1},
			},
		},
	}
}

func TestRead_EveryField(t *testing.T) {
	t.Parallel()
	for name, format := range map[string]spec.Format{"full.yaml": spec.FormatYAML, "full.json": spec.FormatJSON} {
		got, err := spec.Read(full(t, name), format)
		require.NoError(t, err, name)
		require.Empty(t, cmp.Diff(fullSpec(), got), name)
	}
	// JSON is YAML as well.
	got, err := spec.Read(full(t, "full.json"), spec.FormatYAML)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(fullSpec(), got))
}

func TestRead_RoundTrip(t *testing.T) {
	t.Parallel()
	canonical, err := json.Marshal(fullSpec())
	require.NoError(t, err)
	require.NotContains(t, string(canonical), "hunter2")
	got, err := spec.Read(canonical, spec.FormatJSON)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(fullSpec(), got, cmpopts.IgnoreFields(run.Spec{}, "Secrets")))

	var plain run.Spec
	require.NoError(t, json.Unmarshal(canonical, &plain), "the canonical form is plain JSON")
	require.Empty(t, cmp.Diff(fullSpec(), &plain, cmpopts.IgnoreFields(run.Spec{}, "Secrets")))

	withSecrets, err := spec.Marshal(fullSpec())
	require.NoError(t, err)
	got, err = spec.Read(withSecrets, spec.FormatJSON)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(fullSpec(), got))
	bare, err := spec.Marshal(&run.Spec{})
	require.NoError(t, err)
	require.JSONEq(t, `{"name":"","group":"","tasks":null}`, string(bare))
}

// TestReadFleet_bounds checks the bounds of fields that are stored unchanged.
func TestReadFleet_bounds(t *testing.T) {
	t.Parallel()
	bomb := "a: &a [x, x, x, x, x, x, x, x, x, x]"
	for c := 'b'; c <= 'i'; c++ {
		bomb += fmt.Sprintf(", %c: &%c [%s*%c]", c, c, strings.Repeat(fmt.Sprintf("*%c, ", c-1), 9), c-1)
	}
	for text, want := range map[string]string{
		"plugin_config: {a: " + strings.Repeat("[", 200) + strings.Repeat("]", 200) + "}": "deeper than 100",
		"plugin_config: &s [*s]":        "deeper than 100",
		"plugin_config: {" + bomb + "}": "with its aliases written out",
	} {
		_, err := spec.ReadFleet([]byte(text), spec.FormatYAML)
		var invalid *run.Error
		require.ErrorAs(t, err, &invalid)
		require.Contains(t, invalid.Faults[0].Detail, want)
	}
}

// TestRead_KnowsEveryType fails if package run gets a type that the reader does
// not support.
func TestRead_KnowsEveryType(t *testing.T) {
	t.Parallel()
	var walk func(typ reflect.Type)
	walk = func(typ reflect.Type) {
		if typ == reflect.TypeFor[time.Time]() {
			return
		}
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			walk(typ.Elem())
		case reflect.Struct:
			for field := range typ.Fields() {
				if !field.Anonymous { // its fields are listed instead
					require.NotEmpty(t, field.Tag.Get("json"), "%s.%s", typ, field.Name)
				}
				walk(field.Type)
			}
		case reflect.String, reflect.Bool, reflect.Int, reflect.Uint8, reflect.Float64:
		default:
			require.Equal(t, reflect.TypeFor[run.Duration](), typ)
		}
	}
	walk(reflect.TypeFor[run.Spec]())
	walk(reflect.TypeFor[run.ScheduleSpec]())
	walk(reflect.TypeFor[run.Scaling]())
}

// minimal is a valid specification that ends with the lines of a task.
const minimal = `name: n
group: /a/b
tasks:
  a:
    steps: [{run: "true"}]
`

func TestValidate_OK(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"minimal":                  minimal,
		"with a mark":              "---\n" + minimal + "...\n",
		"byte order mark":          "\ufeff" + minimal,
		"nothing where optional":   minimal + "    environment:\n    retry:\n    depends: null\n    matrix: ~\n    pool:\n    timeout:\n",
		"anchor and alias":         minimal + "  b: &b\n    environment: {X: &x 1}\n    steps: [{run: c}]\n  c: *b\n",
		"merge":                    minimal + "  b: &b\n    timeout: 1s\n    steps: [{run: c}]\n  c:\n    <<: *b\n    timeout: 2s\n",
		"merge of several":         minimal + "  b: &b\n    steps: [{run: c}]\n  c:\n    <<: [*b, {timeout: 2s}]\n",
		"no approval":              minimal + "    approval: false\n",
		"duration of nothing":      minimal + "    timeout: 0s\n",
		"a key that is true":       minimal + "    environment: {true: a, null: b}\n",
		"condition that YAML knew": minimal + "  b: {steps: [{run: c}], depends: [{task: a, on: [failure]}]}\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := spec.Validate([]byte(text), spec.FormatYAML)
			require.NoError(t, err, "%+v", faults(err))
		})
	}
	s, err := spec.Read([]byte(minimal+"  b: &b\n    timeout: 1s\n    steps: [{run: c}]\n  c:\n    <<: *b\n    timeout: 2s\n"), spec.FormatYAML)
	require.NoError(t, err)
	require.Equal(t, 2*time.Second, s.Tasks["c"].Timeout.Std(), "the map's own entries take precedence")
	require.Equal(t, "c", s.Tasks["c"].Steps[0].Run)
}

func faults(err error) []run.Fault {
	if e, ok := errors.AsType[*run.Error](err); ok {
		return e.Faults
	}
	return nil
}

// formatFaults formats faults as "line path code".
func formatFaults(err error) []string {
	var out []string
	for _, f := range faults(err) {
		out = append(out, fmt.Sprintf("%d %s %s", f.Line, f.Path, f.Code))
	}
	return out
}

func TestValidate_Faults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want []string
		hint string // in the first detail
	}{
		"not a map":               {"[a]", []string{"1  wrong_type"}, "a list where a specification"},
		"a string":                {"hello", []string{"1  wrong_type"}, ""},
		"empty map":               {"{}", []string{"1 name required", "1 group required", "1 tasks required"}, ""},
		"unknown field":           {minimal + "    stesp: 1\n", []string{"6 tasks.a.stesp unknown_field"}, `did you mean "steps"?`},
		"renamed field":           {minimal + "    ignore_failure: true\n", []string{"6 tasks.a.ignore_failure unknown_field"}, `it is called "allow_failure" now`},
		"renamed field elsewhere": {minimal + "ignore_failure: true\n", []string{"6 ignore_failure unknown_field"}, `there is no field "ignore_failure" here`},
		"unknown top field":       {minimal + "envronment: 1\n", []string{"6 envronment unknown_field"}, `did you mean "environment"?`},
		"case counts":             {minimal + "Timeout: 1s\n", []string{"6 Timeout unknown_field"}, `did you mean "timeout"?`},
		"duplicate key":           {minimal + "name: m\n", []string{"6 name duplicate"}, "in line 1"},
		"duplicate task":          {minimal + "  a: {}\n", []string{"6 tasks.a duplicate"}, ""},
		"duplicate variable":      {minimal + "environment: {A: 1, A: 2}\n", []string{"6 environment.A duplicate"}, ""},
		"unquoted name":           {strings.Replace(minimal, "name: n", "name: 42", 1), []string{"1 name wrong_type"}, "put it in quotes"},
		"list as a name":          {strings.Replace(minimal, "name: n", "name: [a]", 1), []string{"1 name wrong_type"}, "a list where a string is expected"},
		"string as a map":         {minimal + "environment: A=b\n", []string{"6 environment wrong_type"}, "a string where a map is expected"},
		"list as a map":           {minimal + "environment: [A=b]\n", []string{"6 environment wrong_type"}, ""},
		"map as a list":           {minimal + "changegroups: {a: b}\n", []string{"6 changegroups wrong_type"}, ""},
		"variable without value":  {minimal + "environment:\n  A:\n  B: x\n", []string{"7 environment.A wrong_type"}, `write "" for an empty one`},
		"map as a variable":       {minimal + "environment: {A: {b: c}}\n", []string{"6 environment.A wrong_type"}, ""},
		"secret as a map":         {minimal + "secrets: {A: {hunter2: c}}\n", []string{"6 secrets.A wrong_type"}, ""},
		"secret of a registry":    {minimal + "secrets: {A: [hunter2]}\nregistries: {ghcr.io: {username: u, password_secret: A}}\n", []string{"6 secrets.A wrong_type"}, ""},
		"strange tag":             {minimal + "environment: {A: !secret hunter2}\n", []string{"6 environment.A wrong_type"}, `a value with the tag "!secret"`},
		"number as a duration":    {minimal + "    timeout: 90\n", []string{"6 tasks.a.timeout wrong_type"}, "such as 90s"},
		"bad duration":            {minimal + "    timeout: 90 seconds\n", []string{"6 tasks.a.timeout bad_format"}, `"90 seconds" is not a duration`},
		"negative duration":       {minimal + "    timeout: -5s\n", []string{"6 tasks.a.timeout out_of_range"}, ""},
		"word as a bool":          {minimal + "    skip: yes\n", []string{"6 tasks.a.skip wrong_type"}, "a string where true or false is expected"},
		"word as a number":        {minimal + "priority: high\n", []string{"6 priority wrong_type"}, "whole number"},
		"fraction":                {minimal + "priority: 1.5\n", []string{"6 priority wrong_type"}, ""},
		"no priority":             {minimal + "priority: 0\n", []string{"6 priority out_of_range"}, ""},
		"high priority":           {minimal + "priority: 6\n", []string{"6 priority out_of_range"}, ""},
		"huge number":             {minimal + "priority: 99999999999999999999\n", []string{"6 priority wrong_type"}, ""},
		"large number":            {minimal + "priority: 9999999999\n", []string{"6 priority out_of_range"}, ""},
		"hexadecimal":             {minimal + "    resources: {pids: 0x10}\n", []string{"6 tasks.a.resources.pids out_of_range"}, ""},
		"approval":                {minimal + "    approval: 2\n", []string{"6 tasks.a.approval wrong_type"}, ""},
		"approval by none":        {minimal + "    approval: {approvers: 0}\n", []string{"6 tasks.a.approval.approvers out_of_range"}, ""},
		"no units":                {minimal + "    changegroups: [g, {name: h, units: 0}]\n", []string{"6 tasks.a.changegroups[1].units out_of_range"}, "1 to 1000"},
		"negative units":          {minimal + "    changegroups: [{units: -1, name: h}]\n", []string{"6 tasks.a.changegroups[0].units out_of_range"}, "1 to 1000"},
		"word as units":           {minimal + "    changegroups: [{name: h, units: all}]\n", []string{"6 tasks.a.changegroups[0].units wrong_type"}, ""},
		"approval by":             {minimal + "    approval: {aprovers: 2}\n", []string{"6 tasks.a.approval.aprovers unknown_field"}, ""},
		"dependency as a list":    {minimal + "    depends: [[a]]\n", []string{"6 tasks.a.depends[0] wrong_type"}, ""},
		"dependency as a number":  {minimal + "    depends: [1]\n", []string{"6 tasks.a.depends[0] wrong_type"}, "put it in quotes"},
		"depends as a string":     {minimal + "    depends: b\n", []string{"6 tasks.a.depends wrong_type"}, "a string where a list is expected"},
		"null dependency":         {minimal + "    depends: [~]\n", []string{"6 tasks.a.depends[0] wrong_type"}, "nothing where"},
		"unknown dependency":      {minimal + "    depends:\n      - {task: a, on: [success]}\n      - bb\n", []string{"7 tasks.a.depends[0].task cycle", "8 tasks.a.depends[1].task unknown_dependency"}, ""},
		"indexes stay":            {minimal + "    depends:\n      - 1\n      - bb\n", []string{"7 tasks.a.depends[0] wrong_type", "8 tasks.a.depends[1].task unknown_dependency"}, ""},
		"empty task":              {minimal + "  b:\n", []string{"6 tasks.b required"}, ""},
		"task without steps":      {minimal + "  b:\n    timeout: 1s\n", []string{"6 tasks.b.steps required"}, ""},
		"empty steps":             {minimal + "  b:\n    timeout: 1s\n    steps: []\n", []string{"8 tasks.b.steps required"}, ""},
		"empty step":              {minimal + "  b:\n    steps:\n      - run: a\n      - {}\n", []string{"9 tasks.b.steps[1] required"}, ""},
		"null step":               {minimal + "  b:\n    steps:\n      -\n", []string{"8 tasks.b.steps[0] wrong_type"}, ""},
		"step as a string":        {minimal + "  b:\n    steps: [go test]\n", []string{"7 tasks.b.steps[0] wrong_type"}, ""},
		"two kinds":               {minimal + "  b:\n    steps:\n      - run: a\n        save_cache: {}\n", []string{"8 tasks.b.steps[0] contradiction", "9 tasks.b.steps[0].save_cache.key required"}, ""},
		"archive without value":   {minimal + "  b:\n    steps:\n      - save_artifacts:\n", []string{"8 tasks.b.steps[0].save_artifacts.name required"}, ""},
		"task is a list":          {minimal + "  b: []\n", []string{"6 tasks.b wrong_type"}, ""},
		"dependents of a bad one": {minimal + "    depends: [b]\n  b: []\n", []string{"7 tasks.b wrong_type"}, ""},
		"empty axis":              {minimal + "    matrix: {A: []}\n", []string{"6 tasks.a.matrix.A required"}, ""},
		"axis without values":     {minimal + "    matrix:\n      A:\n", []string{"7 tasks.a.matrix.A required"}, ""},
		"axis as a string":        {minimal + "    matrix: {A: b}\n", []string{"6 tasks.a.matrix.A wrong_type"}, ""},
		"foreach":                 {minimal + "    foreach: '{{ output \"a\" \"b\" }}'\n", []string{"6 tasks.a.foreach unknown_dependency"}, ""},
		"an input beside others":  {minimal + "    depends: [bild]\nenvironment: {Z: '{{ input \"foo\" }}'}\n", []string{"6 tasks.a.depends[0].task unknown_dependency", "7 environment.Z unknown_input"}, ""},
		"an input badly declared": {minimal + "environment: {Z: '{{ input \"foo\" }}'}\ninputs: {foo: [1]}\n", []string{"7 inputs.foo wrong_type"}, ""},
		"foreach without a list":  {minimal + "    foreach: {min: 1}\n", []string{"6 tasks.a.foreach.list required"}, ""},
		"foreach with a list":     {minimal + "    foreach: {list: [a], min: x}\n", []string{"6 tasks.a.foreach.list wrong_type", "6 tasks.a.foreach.min wrong_type"}, ""},
		"foreach of a list":       {minimal + "    foreach: [a]\n", []string{"6 tasks.a.foreach wrong_type"}, ""},
		"change groups":           {minimal + "changegroups: [a, a]\n", []string{"6 changegroups[1] duplicate"}, ""},
		"output template":         {minimal + "    environment:\n      A: '{{ output \"a\" \"b\" }}'\n", []string{"7 tasks.a.environment.A unknown_dependency"}, ""},
		"group of one element":    {strings.Replace(minimal, "/a/b", "/a", 1), []string{"2 group bad_format"}, ""},
		"key as a list":           {minimal + "? [a]\n: b\n", []string{"6  wrong_type"}, "a list where a key"},
		"merge of a string":       {minimal + "<<: a\n", []string{"6  wrong_type"}, "a string where a map to merge"},
		"merge of itself":         {"&a\n" + minimal + "<<: *a\n", []string{"1  over_limit"}, "merge keys"},
		"tasks within tasks":      {"tasks: &a\n  b: *a\nname: n\ngroup: /a/b\n", []string{"2 tasks.b.b unknown_field", "2 tasks.b.steps required"}, ""},
		"NUL in a script":         {minimal + "  b: {steps: [{run: \"a\\0b\"}]}\n", []string{"6 tasks.b.steps[0].run bad_format"}, ""},
		"key with a line break":   {minimal + "environment:\n  \"a\\nb\": c\n", []string{`7 environment["a\nb"] bad_format`}, ""},
		"all at once": {
			"name: 1\ngrup: /a/b\ntasks:\n  A:\n    steps: [{run: x, when: now}]\n    image: Bad\n  b:\n    depends: [c]\n",
			[]string{
				"1 group required", "1 name wrong_type", "2 grup unknown_field", "4 tasks.A bad_format", "5 tasks.A.steps[0].when bad_value",
				"6 tasks.A.image bad_format", "7 tasks.b.steps required", "8 tasks.b.depends[0].task unknown_dependency",
			},
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := spec.Validate([]byte(c.text), spec.FormatYAML)
			require.Equal(t, run.CodeInvalid, run.CodeOf(err))
			require.ElementsMatch(t, c.want, formatFaults(err), "%v", faults(err))
			require.Contains(t, faults(err)[0].Detail, c.hint)
			for _, f := range faults(err) {
				require.NotContains(t, f.Detail+f.Path, "hunter2")
			}
		})
	}
}

func TestValidate_JSONFaults(t *testing.T) {
	t.Parallel()
	text := "{\"name\": \"n\",\n \"group\": \"/a/b\",\n \"tasks\": {\"a\":\n  {\"steps\": [{\"run\": 1},\n {\"rum\": \"x\"}],\n \"steps\": []}}, \"environment\": {\"A\": 1.50, \"B\": true, \"C\": null}}"
	_, err := spec.Validate([]byte(text), spec.FormatJSON)
	require.Equal(t, []string{
		"4 tasks.a.steps[0].run wrong_type", "5 tasks.a.steps[1].rum unknown_field", "6 tasks.a.steps duplicate", "6 environment.C wrong_type",
	}, formatFaults(err), "both steps are empty because of other faults")
}

func TestRead_Refuses(t *testing.T) {
	t.Parallel()
	bomb := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s*%c]\n", c, c, strings.Repeat(fmt.Sprintf("*%c, ", c-1), 9), c-1)
	}
	script := strings.Repeat("x", 100_000)
	for name, c := range map[string]struct {
		text   string
		format spec.Format
		code   run.Code
		line   int
		detail string
	}{
		"nothing":              {"", spec.FormatYAML, run.CodeUnreadable, 0, "empty"},
		"blank":                {" \n\n", spec.FormatYAML, run.CodeUnreadable, 0, "empty"},
		"comment":              {"# nothing\n", spec.FormatYAML, run.CodeUnreadable, 0, "empty"},
		"no JSON":              {"", spec.FormatJSON, run.CodeUnreadable, 0, "empty"},
		"broken YAML":          {"name: n\ngroup: [a\ntasks: {}\n", spec.FormatYAML, run.CodeUnreadable, 2, "begin a list or a map"},
		"broken block":         {"name: n\ngroup: /a/b\n- x\n", spec.FormatYAML, run.CodeUnreadable, 3, "cannot be mixed at one indentation"},
		"colon too many":       {"name: n\ngroup: a: b\n", spec.FormatYAML, run.CodeUnreadable, 2, "would begin another key"},
		"tab":                  {"name: n\n\tgroup: a\n", spec.FormatYAML, run.CodeUnreadable, 2, "a tab is part of the indentation"},
		"unknown anchor":       {"name: *x\n", spec.FormatYAML, run.CodeUnreadable, 1, "they stand for an anchor"},
		"two documents":        {"name: n\n---\nname: m\n", spec.FormatYAML, run.CodeUnreadable, 2, "second document"},
		"broken JSON":          {"{\n\"name\": \"n\",\n}", spec.FormatJSON, run.CodeUnreadable, 3, "it is not JSON: the last item of a map is followed by a comma"},
		"JSON that ends":       {"{\n\"name\": ", spec.FormatJSON, run.CodeUnreadable, 2, "ends too early"},
		"JSON and more":        {"{}\n{}", spec.FormatJSON, run.CodeUnreadable, 2, "after the end"},
		"JSON and junk":        {"{}\n\nx", spec.FormatJSON, run.CodeUnreadable, 3, "there is more after the end"},
		"YAML as JSON":         {"name: n", spec.FormatJSON, run.CodeUnreadable, 1, "it is not JSON: a value is expected"},
		"key that is a number": {"{1: 2}", spec.FormatJSON, run.CodeUnreadable, 1, "it is not JSON: a key in double quotes is expected"},
		"deep JSON":            {strings.Repeat("[", 1000) + strings.Repeat("]", 1000), spec.FormatJSON, run.CodeUnreadable, 1, "deeper than 100"},
		"deep YAML":            {strings.Repeat("[", 20_000), spec.FormatYAML, run.CodeUnreadable, 1, "nested too deeply"},
		"not UTF-8":            {"name: n\ngroup: \xff\n", spec.FormatYAML, run.CodeUnreadable, 2, "UTF-8"},
		"very many values":     {"[" + strings.Repeat("1,", 1_000_001) + "1]", spec.FormatJSON, run.CodeTooLarge, 0, "more than 1000000 values"},
		"very many lines":      {strings.Repeat("a:\n", 1_000_001), spec.FormatYAML, run.CodeTooLarge, 0, "the limit is 1000000"},
		"control character":    {"name: \x01\n", spec.FormatYAML, run.CodeUnreadable, 1, "control character"},
		"too large":            {strings.Repeat(" ", run.MaxRequestBytes+1), spec.FormatYAML, run.CodeTooLarge, 0, "the limit is 8388608"},
		"another format":       {"a = 1", "toml", run.CodeUnsupportedMedia, 0, "toml"},
		"alias bomb":           {bomb, spec.FormatYAML, run.CodeInvalid, 1, "no field"},
		"many aliases":         {"tasks: {a: {steps: [&s {run: " + script + "}" + strings.Repeat(", *s", 200) + "]}}", spec.FormatYAML, run.CodeInvalid, 1, "with its aliases written out"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, read := range []func([]byte, spec.Format) (*run.Spec, error){spec.Read, spec.Validate} {
				s, err := read([]byte(c.text), c.format)
				require.Nil(t, s)
				require.Equal(t, c.code, run.CodeOf(err), "%v", err)
				if f := faults(err); len(f) > 0 {
					require.Contains(t, f[0].Detail, c.detail)
					require.Equal(t, c.line, f[0].Line)
				} else {
					require.Contains(t, err.Error(), c.detail)
				}
			}
		})
	}
}

func TestParser_Extra(t *testing.T) {
	t.Parallel()
	var token string
	p := spec.Parser{Extra: map[string]*string{"changegroup_token": &token}}
	_, err := p.Validate([]byte(minimal+"changegroup_token: abc\n"), spec.FormatYAML)
	require.NoError(t, err)
	require.Equal(t, "abc", token)
	_, err = p.Validate([]byte(minimal+"changegroup_token: [a]\n"), spec.FormatYAML)
	require.Equal(t, []string{"6 changegroup_token wrong_type"}, formatFaults(err))
	_, err = p.Validate([]byte(minimal+"changegroup_tokem: a\n    changegroup_token: b"), spec.FormatYAML)
	require.Equal(t, run.CodeUnreadable, run.CodeOf(err))
	_, err = p.Validate([]byte(minimal+"    changegroup_token: b"), spec.FormatYAML)
	require.Equal(t, []string{"6 tasks.a.changegroup_token unknown_field"}, formatFaults(err), "at the top only")
	_, err = spec.Read([]byte(minimal+"changegroup_token: abc\n"), spec.FormatYAML)
	require.Equal(t, []string{"6 changegroup_token unknown_field"}, formatFaults(err))
}

func TestDetect(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]spec.Format{
		"run.yaml": spec.FormatYAML, "a/b.YML": spec.FormatYAML, "x.json": spec.FormatJSON,
		"application/json": spec.FormatJSON, "application/json; charset=utf-8": spec.FormatJSON, "application/vnd.drover+json": spec.FormatJSON,
		"application/yaml": spec.FormatYAML, "text/yaml; charset=utf-8": spec.FormatYAML, "application/x-yaml": spec.FormatYAML,
		"": "", "-": "", "run.toml": "", "text/plain": "", "application/x-www-form-urlencoded": "",
	} {
		got, ok := spec.Detect(name)
		require.Equal(t, want, got, name)
		require.Equal(t, want != "", ok, name)
	}
}

func TestValidate_TenThousandTasks(t *testing.T) {
	t.Parallel()
	if testing.Short() { // so too under the race detector, which slows it down
		t.Skip("a long test of one goroutine")
	}
	text := large()
	s, err := spec.Validate([]byte(text), spec.FormatYAML)
	require.NoError(t, err)
	require.Len(t, s.Tasks, 10_000)
	_, err = spec.Validate([]byte(text+"  t9999: {steps: [{run: x}]}\n"), spec.FormatYAML)
	require.Equal(t, []string{"3 tasks over_limit"}, formatFaults(err))
}

// large is a valid specification of 10,000 tasks.
func large() string {
	var b strings.Builder
	b.WriteString(minimal)
	for i := range 9_999 {
		fmt.Fprintf(&b, "  t%d: {steps: [{run: x}], depends: [a]}\n", i)
	}
	return b.String()
}

func BenchmarkValidate(b *testing.B) {
	yaml := []byte(large())
	s, err := spec.Read(yaml, spec.FormatYAML)
	require.NoError(b, err)
	json, err := spec.Marshal(s)
	require.NoError(b, err)
	for format, data := range map[spec.Format][]byte{spec.FormatYAML: yaml, spec.FormatJSON: json} {
		b.Run(string(format), func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				_, err := spec.Validate(data, format)
				require.NoError(b, err)
			}
		})
	}
}
