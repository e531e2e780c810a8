package run_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/graph"
)

func TestExpand(t *testing.T) {
	t.Parallel()
	steps := []run.Step{{Run: "true"}, {Run: "true"}}
	s := &run.Spec{
		Name: "n", Group: "/a/b", FailFast: true, Timeout: run.Duration(7),
		Tasks: map[string]*run.TaskSpec{
			"zero": {Steps: steps},
			"build": {
				Steps: steps, Matrix: map[string][]string{"OS": {"linux", "a/b"}, "GO": {"1.25", "1.26"}},
				Depends: []run.Depend{{Task: "zero", On: []run.Condition{run.OnSuccess, run.OnSkipped}}}, Approval: run.Approval{Approvers: 2},
			},
			"after": {Steps: steps[:1], Depends: []run.Depend{{Task: "build"}, {Task: "zero"}}, Skip: true, AllowFailure: true},
			"alone": {Steps: steps, Retry: run.Retry{MaxAttempts: 3}, OnLost: run.OnLostRetry},
		},
	}
	x, faults := run.Expand(s, func(name string, _ *run.TaskSpec) (string, error) {
		return map[bool]string{true: "docker", false: "shell"}[name == "build"], nil
	})
	require.Empty(t, faults)
	require.Equal(t, run.Plan{
		Priority: run.DefaultPriority, FailFast: true, Timeout: 7, Admission: run.AdmissionAuto, Group: "/a/b", Name: "n",
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
	_, faults := run.Expand(valid(), pool)
	require.Equal(t, []string{"tasks.build.pool unknown_pool", "tasks.test.image required"}, found(faults))
	require.Equal(t, "100%", faults[1].Detail)

	_, faults = run.Expand(valid(), func(string, *run.TaskSpec) (string, error) { return "", errors.New("password is hunter2") })
	require.Len(t, faults, 2)
	require.NotContains(t, faults[0].Detail, "hunter2")

	s := valid()
	s.Tasks["build"].Depends = []run.Depend{{Task: "test"}, {Task: "nowhere"}}
	s.Tasks["build"].Matrix = wide(101, 100)
	_, faults = run.Expand(s, nil)
	require.Equal(t, []string{"tasks over_limit", "tasks.build.depends[1].task unknown_dependency", "tasks.test.depends[0].task cycle"}, found(faults))
}

func TestSplitPlan(t *testing.T) {
	t.Parallel()
	names := make([]string, 3000)
	wideNode := run.Node{Name: "wide", First: 3000, Width: 3000, Axes: []run.Axis{{Name: "A"}, {Name: "B", Values: []string{"1"}}}}
	join := run.Node{Name: "join", First: 6000, Width: 1, Skip: true, Approvers: 2}
	p := run.Plan{Priority: 1, Group: "/a/b", Name: "n", Pools: []string{"a", "b"}, FailFast: true}
	for i := range names {
		p.Nodes = append(p.Nodes, run.Node{Name: fmt.Sprintf("task-%d", i), First: i, Width: 1})
		wideNode.Axes[0].Values = append(wideNode.Axes[0].Values, fmt.Sprint(i))
		join.Depends = append(join.Depends, run.Edge{Node: i})
	}
	p.Nodes = append(p.Nodes, wideNode, join)
	for _, size := range []int{1 << 10, 8 << 10, run.MaxPlanPage} {
		pages := run.SplitPlan(p, size)
		require.Greater(t, len(pages), 1)
		for i, page := range pages {
			b, err := json.Marshal(page)
			require.NoError(t, err)
			require.LessOrEqual(t, len(b), size)
			require.NotEmpty(t, page.Nodes)
			require.Equal(t, i == 0, page.Name != "", "the first has the header")
			require.NoError(t, json.Unmarshal(b, &pages[i]))
		}
		require.Empty(t, cmp.Diff(p, run.MergePlans(pages), cmpopts.EquateEmpty()))
	}
	require.Len(t, run.SplitPlan(run.Plan{Name: "n"}, 1000), 1, "a plan without tasks has a page too")
	require.Zero(t, run.MergePlans(nil))
}

func TestDefine(t *testing.T) {
	t.Parallel()
	header := &run.Spec{
		Name: "n", Group: "/a/b",
		Environment: map[string]string{"R": "run", "T": "run", "X": "run", "S": "run"},
		Secrets: map[string]run.Secret{
			"S": "secret", "PEM": "-----BEGIN\nabc  \n\n}\n-----END\n", "SHORT": "ab", "SPACED": " padded ", "SAME": "secret",
		},
		Registries: map[string]run.Registry{"ghcr.io": {Username: "u", PasswordSecret: "S"}},
	}
	task := &run.TaskSpec{
		Image: "x", Environment: map[string]string{"T": "task", "X": "task", "S": "task"}, Timeout: 5,
		Steps: []run.Step{{Name: "one", Run: "true", Environment: map[string]string{"Z": "step"}, Timeout: 3}, {Run: "false", When: run.WhenAlways}},
	}
	x := run.ExpandedTask{Name: "build[X=axis]", Spec: "build", Axis: map[string]string{"X": "axis", "S": "axis"}}
	key := run.Key{Run: "01k0000000000000000000000a", Task: 3, Attempt: 2, Dispatch: 1}
	d := run.Define(header, task, x, key, 17)
	require.Equal(t, run.Definition{
		Key: key, RunName: "n", RunGroup: "/a/b", RunCounter: 17, Task: "build[X=axis]", Image: "x", PullPolicy: run.PullIfNotPresent,
		Auth: map[string]run.Auth{"ghcr.io": {Username: "u", Password: "secret"}}, Shell: []string{"/bin/sh", "-e"},
		Environment: map[string]string{
			"R": "run", "T": "task", "X": "axis", "S": "secret", "PEM": "-----BEGIN\nabc  \n\n}\n-----END\n", "SHORT": "ab",
			"SPACED": " padded ", "SAME": "secret",
			"DROVER_RUN_ID": "01k0000000000000000000000a", "DROVER_RUN_COUNTER": "17", "DROVER_RUN_GROUP": "/a/b",
			"DROVER_TASK_NAME": "build[X=axis]", "DROVER_TASK_ATTEMPT": "2",
		},
		Secrets: []string{"-----BEGIN\nabc  \n\n}\n-----END\n", "-----BEGIN", " padded ", "-----END", "padded", "secret", "abc"},
		Steps: []run.StepDef{
			{Name: "one", Script: "true", Environment: map[string]string{"Z": "step"}, Timeout: 3, When: run.WhenOnSuccess},
			{Script: "false", When: run.WhenAlways},
		},
		Timeout: 5, Grace: run.StopGrace,
	}, d)
	require.Equal(t, "run", header.Environment["X"], "the specification is unchanged")
}

func TestPath(t *testing.T) {
	t.Parallel()
	p := run.Path("").Key("tasks").Key("build").Key("depends").Index(1).Key("task")
	require.Equal(t, run.Path("tasks.build.depends[1].task"), p)
	var chain []string
	for p != "" {
		p = p.Parent()
		chain = append(chain, string(p))
	}
	require.Equal(t, []string{"tasks.build.depends[1]", "tasks.build.depends", "tasks.build", "tasks", ""}, chain)
	require.Equal(t, run.Path(`a["x y"]`), run.Path("a").Key("x y"))
	long := run.Path("a").Key(strings.Repeat("é", 1000))
	require.Less(t, len(long), 220)
	require.Equal(t, run.Path("a"), long.Parent())
}
