package spec_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

func TestValidate_finally(t *testing.T) {
	t.Parallel()
	const head = "name: n\ngroup: /a/b\ntasks:\n"
	for name, tc := range map[string]struct {
		tasks  string
		faults []string
	}{
		"one":   {tasks: "  a: {steps: [{run: 'true'}]}\n  z: {finally: true, steps: [{run: 'true'}]}\n"},
		"false": {tasks: "  a: {finally: false, steps: [{run: 'true'}]}\n"},
		"one after the other": {
			tasks: "  a: {steps: [{run: 'true'}]}\n  y: {finally: true, steps: [{run: 'true'}]}\n  z: {finally: true, depends: [y], steps: [{run: 'true'}]}\n",
		},
		"reads all other tasks": {
			tasks: "  a: {steps: [{run: 'true'}]}\n  b: {depends: [a], steps: [{run: 'true'}]}\n" +
				"  z: {finally: true, if: tasks.b.status != \"success\", environment: {X: '{{ output \"a\" \"k\" }}'}, steps: [{run: 'true'}]}\n",
		},
		"all": {
			tasks: "  z: {finally: true, steps: [{run: 'true'}]}\n", faults: []string{"tasks required"},
		},
		"depends on another task": {
			tasks:  "  a: {steps: [{run: 'true'}]}\n  z: {finally: true, depends: [a], steps: [{run: 'true'}]}\n",
			faults: []string{"tasks.z.depends[0].task contradiction"},
		},
		"another task depends on it": {
			tasks:  "  a: {depends: [{task: z, on: [failure]}], steps: [{run: 'true'}]}\n  b: {steps: [{run: 'true'}]}\n  z: {finally: true, steps: [{run: 'true'}]}\n",
			faults: []string{"tasks.a.depends[0].task contradiction"},
		},
		"another task reads it": {
			tasks:  "  a: {if: tasks.z.status == \"failed\", steps: [{run: 'true'}]}\n  z: {finally: true, steps: [{run: 'true'}]}\n",
			faults: []string{"tasks.a.if unknown_dependency"},
		},
		"reads one that may begin later": {
			tasks: "  a: {steps: [{run: 'true'}]}\n  y: {finally: true, steps: [{run: 'true'}]}\n" +
				"  z: {finally: true, if: tasks.y.status == \"failed\", steps: [{run: 'true'}]}\n",
			faults: []string{"tasks.z.if unknown_dependency"},
		},
		"approval": {
			tasks:  "  a: {steps: [{run: 'true'}]}\n  z: {finally: true, approval: true, steps: [{run: 'true'}]}\n",
			faults: []string{"tasks.z.approval contradiction"},
		},
		"foreach": {
			tasks:  "  a: {steps: [{run: 'true'}]}\n  z: {finally: true, foreach: '{{ output \"a\" \"k\" }}', steps: [{run: 'true'}]}\n",
			faults: []string{"tasks.z.foreach contradiction"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := spec.Validate([]byte(head+tc.tasks), spec.FormatYAML)
			if tc.faults == nil {
				require.NoError(t, err)
				return
			}
			refused := new(run.Error)
			require.ErrorAs(t, err, &refused)
			require.Equal(t, tc.faults, found(refused.Faults), "%v", refused.Faults)
		})
	}
}

func TestExpand_finally(t *testing.T) {
	t.Parallel()
	steps := []run.Step{{Run: "true"}}
	minutes := func(n int) run.Duration { return run.Duration(time.Duration(n) * time.Minute) }
	x, faults := spec.Expand(&run.Spec{Name: "n", Group: "/a/b", Tasks: map[string]*run.TaskSpec{
		"a":    {Steps: steps, CleanupTimeout: minutes(100)},
		"b":    {Steps: steps, Depends: []run.Depend{{Task: "a"}}},
		"aa":   {Steps: steps, Finally: true, Matrix: run.Matrix{Axes: map[string][]string{"N": {"1", "2"}}}},
		"ab":   {Steps: steps, Finally: true, Depends: []run.Depend{{Task: "aa"}}, CleanupTimeout: minutes(7)},
		"long": {Steps: steps, Finally: true, CleanupTimeout: minutes(11)},
	}}, nil)
	require.Empty(t, faults)
	var names []string
	for _, task := range x.Tasks {
		names = append(names, task.Name)
	}
	require.Equal(t, []string{"a", "b", "aa[N=1]", "aa[N=2]", "long", "ab"}, names, "the finally tasks are the last")
	require.Equal(t, minutes(12), x.Plan.FinallyTimeout, "those that follow each other add up")
	for _, n := range x.Plan.Nodes {
		require.Equal(t, n.Name != "a" && n.Name != "b", n.Finally, n.Name)
	}

	x, faults = spec.Expand(&run.Spec{Name: "n", Group: "/a/b", Tasks: map[string]*run.TaskSpec{"a": {Steps: steps}}}, nil)
	require.Empty(t, faults)
	require.Zero(t, x.Plan.FinallyTimeout)
}
