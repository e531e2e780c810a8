package spec_test

import (
	"errors"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/graph"
	"github.com/drover-run/drover/spec"
)

func TestExpand(t *testing.T) {
	t.Parallel()
	steps := []run.Step{{Run: "true"}, {Run: "true"}}
	s := &run.Spec{
		Name: "n", Group: "/a/b", FailFast: run.FailFast{Running: run.FailFastStop}, Timeout: run.Duration(7),
		Tasks: map[string]*run.TaskSpec{
			"zero": {Steps: steps},
			"build": {
				Steps: steps, Matrix: run.Matrix{Axes: map[string][]string{"OS": {"linux", "a/b"}, "GO": {"1.25", "1.26"}}},
				Depends: []run.Depend{{Task: "zero", On: []run.Condition{run.OnSuccess, run.OnSkipped}}}, Approval: run.Approval{Approvers: 2},
			},
			"after": {Steps: steps[:1], Depends: []run.Depend{{Task: "build"}, {Task: "zero"}}, Skip: true, AllowFailure: true},
			"alone": {Steps: steps, Retry: run.Retry{MaxAttempts: 3}, OnLost: run.OnLostRetry},
		},
	}
	x, faults := spec.Expand(s, func(name string, _ *run.TaskSpec) (string, error) {
		return map[bool]string{true: "docker", false: "shell"}[name == "build"], nil
	})
	require.Empty(t, faults)
	require.Equal(t, run.Plan{
		Priority: run.DefaultPriority, FailFast: true, StopRunning: true, Timeout: 7, Admission: run.AdmissionAuto, Group: "/a/b", Name: "n",
		Pools: []string{"shell", "docker"},
		Nodes: []run.Node{
			{Name: "alone", First: 0, Width: 1, Retry: run.Retry{MaxAttempts: 3}, OnLost: run.OnLostRetry, Steps: 2},
			{Name: "zero", First: 1, Width: 1, Steps: 2},
			{
				Name: "build", First: 2, Width: 4, Pool: 1, Approvers: 2, Steps: 2,
				Axes:    []run.Axis{{Name: "GO", Values: []string{"1.25", "1.26"}}, {Name: "OS", Values: []string{"linux", "a-b"}}},
				Depends: []run.Edge{{Node: 1, On: run.MaskSuccess | run.MaskSkipped}},
			},
			{Name: "after", First: 6, Width: 1, Depends: []run.Edge{{Node: 2}, {Node: 1}}, Skip: true, AllowFailure: true, Steps: 1},
		},
	}, x.Plan)
	require.Equal(t, run.ExpandedTask{
		Name: "build[GO=1.25,OS=a-b]", Node: 2, Spec: "build", Axis: map[string]string{"GO": "1.25", "OS": "a/b"}, Pool: "docker",
	}, x.Tasks[3])

	g, err := graph.New(x.Plan.Nodes, false)
	require.NoError(t, err)
	require.Equal(t, len(x.Tasks), g.Len())
	for i, task := range x.Tasks {
		require.Equal(t, g.Name(i), task.Name)
		require.Equal(t, g.NodeOf(i), task.Node)
	}
}

func TestExpand_Faults(t *testing.T) {
	t.Parallel()
	pool := func(name string, _ *run.TaskSpec) (string, error) {
		switch name {
		case "build":
			return "", run.Errorf(run.FaultUnknownPool, "there is no pool x")
		default:
			return "", run.InvalidError("faults", []run.Fault{{Path: "tasks.test.image", Code: run.FaultRequired, Detail: "100%"}})
		}
	}
	_, faults := spec.Expand(valid(), pool)
	require.Equal(t, []string{"tasks.build.pool unknown_pool", "tasks.test.image required"}, found(faults))
	require.Equal(t, "100%", faults[1].Detail)

	_, faults = spec.Expand(valid(), func(string, *run.TaskSpec) (string, error) { return "", errors.New("password is hunter2") })
	require.Len(t, faults, 2)
	require.NotContains(t, faults[0].Detail, "hunter2")

	s := valid()
	s.Tasks["build"].Depends = []run.Depend{{Task: "test"}, {Task: "nowhere"}}
	s.Tasks["build"].Matrix = wide(101, 100)
	_, faults = spec.Expand(s, nil)
	require.Equal(t, []string{"tasks over_limit", "tasks.build.depends[1].task unknown_dependency", "tasks.test.depends[0].task cycle"}, found(faults))
}

// TestValidateRun_too_many_label_sets asks executors for more different things than a
// run may: each is a queue of its own.
func TestValidateRun_too_many_label_sets(t *testing.T) {
	t.Parallel()
	s := &run.Spec{Name: "x", Group: "/a/b", Tasks: map[string]*run.TaskSpec{"plain": {Steps: []run.Step{{Run: "x"}}}}}
	for i := range run.MaxLabelSets {
		task := &run.TaskSpec{Steps: []run.Step{{Run: "x"}}}
		if i%2 == 0 {
			task.Resources.Memory = strconv.Itoa(100_000_001 + i)
		} else {
			task.Requires = &run.Requires{Labels: map[string]string{"host": strconv.Itoa(i)}}
		}
		s.Tasks["t"+strconv.Itoa(i)] = task
	}
	require.Empty(t, spec.ValidateRun(s))
	s.Tasks["same"] = &run.TaskSpec{Steps: []run.Step{{Run: "x"}}, Resources: run.Resources{Memory: "100000001"}}
	require.Empty(t, spec.ValidateRun(s), "equal sets count once")
	s.Tasks["more"] = &run.TaskSpec{Steps: []run.Step{{Run: "x"}}, Resources: run.Resources{Memory: "1"}}
	require.Equal(t, []string{"tasks over_limit"}, found(spec.ValidateRun(s)))
}
