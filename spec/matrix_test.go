package spec_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/graph"
	"github.com/drover-run/drover/spec"
)

// expanded returns the names and the variables of the tasks of a matrix in YAML.
func expanded(t *testing.T, matrix string) (names []string, axes []map[string]string) {
	t.Helper()
	s, err := spec.Validate([]byte("name: n\ngroup: /a/b\ntasks:\n  t:\n    steps: [{run: x}]\n    matrix: "+matrix+"\n"), spec.FormatYAML)
	require.NoError(t, err, "%v", faults(err))
	x, expandFaults := spec.Expand(s, nil)
	require.Empty(t, expandFaults)
	g, err := graph.New(x.Plan.Nodes, false)
	require.NoError(t, err)
	merged, err := graph.New(run.MergePlans(run.SplitPlan(x.Plan, 300)).Nodes, false)
	require.NoError(t, err)
	for i, task := range x.Tasks {
		require.Equal(t, task.Name, g.Name(i))
		require.Equal(t, task.Name, merged.Name(i))
		names, axes = append(names, task.Name), append(axes, task.Axis)
	}
	require.Equal(t, len(names), g.Len())

	text, err := json.Marshal(s.Tasks["t"].Matrix)
	require.NoError(t, err)
	var back run.Matrix
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, s.Tasks["t"].Matrix, back)
	return names, axes
}

// TestExpand_include has the example of GitHub's documentation of matrices.
func TestExpand_include(t *testing.T) {
	t.Parallel()
	names, axes := expanded(t, `{fruit: [apple, pear], animal: [cat, dog], include: [{color: green}, {color: pink, animal: cat},
      {fruit: apple, shape: circle}, {fruit: banana}, {fruit: banana, animal: cat}]}`)
	require.Equal(t, []string{
		"t[animal=cat,fruit=apple]", "t[animal=cat,fruit=pear]", "t[animal=dog,fruit=apple]", "t[animal=dog,fruit=pear]",
		"t[fruit=banana]", "t[animal=cat,fruit=banana]",
	}, names)
	require.Equal(t, []map[string]string{
		{"fruit": "apple", "animal": "cat", "color": "pink", "shape": "circle"},
		{"fruit": "pear", "animal": "cat", "color": "pink"},
		{"fruit": "apple", "animal": "dog", "color": "green", "shape": "circle"},
		{"fruit": "pear", "animal": "dog", "color": "green"},
		{"fruit": "banana"},
		{"fruit": "banana", "animal": "cat"},
	}, axes)
}

func TestExpand_exclude(t *testing.T) {
	t.Parallel()
	names, _ := expanded(t, `{OS: [linux, darwin, windows], GO: [1.25, 1.26], exclude: [{OS: darwin, GO: 1.25}, {OS: windows}]}`)
	require.Equal(t, []string{"t[GO=1.25,OS=linux]", "t[GO=1.26,OS=linux]", "t[GO=1.26,OS=darwin]"}, names)

	names, axes := expanded(t, `{OS: [linux], exclude: [{OS: linux}], include: [{OS: linux, X: 1}]}`)
	require.Equal(t, []string{"t[OS=linux,X=1]"}, names, "what exclude removes, include adds again")
	require.Equal(t, []map[string]string{{"OS": "linux", "X": "1"}}, axes)

	names, _ = expanded(t, `{include: [{A: 1}, {A: 2, B: x/y}]}`)
	require.Equal(t, []string{"t[A=1]", "t[A=2,B=x-y]"}, names, "without axes")

	names, _ = expanded(t, `{OS: [linux], include: , exclude: }`)
	require.Equal(t, []string{"t[OS=linux]"}, names)
}

func TestValidate_matrix_items(t *testing.T) {
	t.Parallel()
	many := ""
	for i := range run.MaxMatrixItems + 1 {
		many += fmt.Sprintf("{A: %d, B: 1}, ", i+10)
	}
	keys := ""
	for i := range run.MaxMatrixKeys + 1 {
		keys += fmt.Sprintf("K%d: 1, ", i)
	}
	for matrix, want := range map[string][]string{
		`{A: [1], exclude: [{AA: 1}]}`:                     {`exclude[0].AA bad_value "AA" is not an axis of the matrix; did you mean "A"?`},
		`{OS: [linux], exclude: [{OS: linus}]}`:            {`exclude[0].OS bad_value "linus" is none of the values of the axis OS; did you mean "linux"?`},
		`{A: [1], exclude: [{A: 1}]}`:                      {"exclude contradiction the items remove all combinations"},
		`{A: [1], exclude: [{}]}`:                          {"exclude[0] required the item is empty, and would remove all combinations"},
		`{A: [1], include: [{}]}`:                          {"include[0] required the item is empty"},
		`{A: [1], include: [{a-b: 1, DROVER_X: 1}]}`:       {"include[0].DROVER_X reserved", "include[0].a-b bad_format"},
		`{A: [1], include: [{A: 2}, {A: 2}]}`:              {`include[1] duplicate there is already a task "t[A=2]"`},
		`{A: [1, 2/3], include: [{A: 2-3}]}`:               {`include[0] duplicate there is already a task "t[A=2-3]"`},
		`{A: [1], include: [` + many + `]}`:                {"include over_limit there are 101 items"},
		`{A: [1], exclude: [` + many + `]}`:                {"exclude over_limit there are 101 items"},
		`{A: [1], include: [{` + keys + `}]}`:              {"include over_limit the items add 21 keys"},
		`{A: [1], include: [{B: '{{ output "a" "b" }}'}]}`: {"include[0].B not_supported"},
		`{A: [1], include: [linux]}`:                       {"include[0] wrong_type"},
		`{A: [1], include: {A: 2}}`:                        {"include wrong_type"},
		`{A: [1], exclude: [{A: [1]}]}`:                    {"exclude[0].A wrong_type"},
	} {
		_, err := spec.Validate([]byte("name: n\ngroup: /a/b\ntasks:\n  t:\n    steps: [{run: x}]\n    matrix: "+matrix+"\n"), spec.FormatYAML)
		got := faults(err)
		require.Len(t, got, len(want), "%s: %v", matrix, got)
		for i, f := range got {
			require.Contains(t, f.Path+" "+string(f.Code)+" "+f.Detail, "tasks.t.matrix."+want[i], matrix)
		}
	}
}

func TestValidate_outputs_of_included_tasks(t *testing.T) {
	t.Parallel()
	const text = `name: n
group: /a/b
tasks:
  t: {matrix: {A: [1, 2], exclude: [{A: 2}], include: [{A: 3, B: x}]}, steps: [{run: x}]}
  u:
    depends: [t]
    environment: {ONE: '{{ output "t[A=1]" "k" }}', THREE: '{{ output "t[A=3,B=x]" "k" }}', TWO: '{{ output "t[A=2]" "k" }}', ALL: '{{ output "t" "k" }}'}
    steps: [{run: x}]
`
	_, err := spec.Validate([]byte(text), spec.FormatYAML)
	require.Equal(t, []string{"7 tasks.u.environment.ALL bad_value", "7 tasks.u.environment.TWO bad_value"}, formatFaults(err))
}
