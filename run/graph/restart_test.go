package graph_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/cputime"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/graph"
)

// diamond returns a graph: build, then the expansion test of two tasks, then
// deploy. lint has no dependencies, and report follows deploy.
func diamond() ([]run.Node, []string) {
	nodes := []run.Node{
		{Name: "build", First: 0, Width: 1},
		{Name: "test", First: 1, Width: 2, Depends: []run.Edge{{Node: 0}}},
		{Name: "deploy", First: 3, Width: 1, Depends: []run.Edge{{Node: 1}}},
		{Name: "lint", First: 4, Width: 1},
		{Name: "report", First: 5, Width: 1, Depends: []run.Edge{{Node: 2, On: run.MaskFailure}}},
	}
	return nodes, []string{"build", "test[N=1]", "test[N=2]", "deploy", "lint", "report"}
}

func TestKept(t *testing.T) {
	t.Parallel()
	const (
		ok, bad, stop, skip, off = run.StatusSuccess, run.StatusFailed, run.StatusStopped, run.StatusSkipped, run.StatusCancelled
	)
	tests := map[string]struct {
		status []run.Status
		from   run.RestartFrom
		tasks  []string
		want   []string // the tasks that are kept
		code   run.Code
	}{
		"from the start": {
			status: []run.Status{ok, ok, ok, ok, ok, skip}, from: run.RestartStart,
		},
		"from what failed": {
			status: []run.Status{ok, ok, bad, skip, ok, skip}, from: run.RestartFailed, want: []string{"build", "test[N=1]", "lint"},
		},
		"what depends on a failure runs again, though it succeeded": {
			status: []run.Status{ok, ok, ok, bad, ok, ok}, from: run.RestartFailed, want: []string{"build", "test[N=1]", "test[N=2]", "lint"},
		},
		"from what was stopped": {
			status: []run.Status{ok, stop, ok, skip, stop, skip}, from: run.RestartFailed, want: []string{"build", "test[N=2]"},
		},
		"a run that was cancelled": {
			status: []run.Status{off, off, off, off, off, off}, from: run.RestartFailed,
		},
		"nothing failed": {
			status: []run.Status{ok, ok, ok, ok, ok, ok}, from: run.RestartFailed, code: run.CodeWrongPhase,
		},
		"a chosen task, with what depends on it": {
			status: []run.Status{ok, ok, ok, ok, ok, skip}, tasks: []string{"deploy"}, want: []string{"build", "test[N=1]", "test[N=2]", "lint"},
		},
		"one of an expansion": {
			status: []run.Status{ok, ok, ok, ok, ok, skip}, tasks: []string{"test[N=2]"}, want: []string{"build", "test[N=1]", "lint"},
		},
		"an expansion as a whole": {
			status: []run.Status{ok, ok, ok, ok, ok, skip}, tasks: []string{"test"}, want: []string{"build", "lint"},
		},
		"failures that are not chosen stay": {
			status: []run.Status{ok, ok, bad, skip, ok, skip}, tasks: []string{"lint"}, want: []string{"build", "test[N=1]", "test[N=2]"},
		},
		"finally tasks run again": {
			status: []run.Status{ok, ok, ok, ok, bad, skip, ok}, from: run.RestartFailed, want: []string{"build", "test[N=1]", "test[N=2]", "deploy"},
		},
		"a finally task failed": {
			status: []run.Status{ok, ok, ok, ok, ok, ok, bad}, from: run.RestartFailed, want: []string{"build", "test[N=1]", "test[N=2]", "deploy", "lint", "report"},
		},
		"finally tasks run again after chosen tasks": {
			status: []run.Status{ok, ok, ok, ok, ok, skip, bad}, tasks: []string{"lint"}, want: []string{"build", "test[N=1]", "test[N=2]", "deploy"},
		},
		"only finally tasks": {
			status: []run.Status{ok, ok, ok, ok, ok, skip, ok}, tasks: []string{"tidy"}, want: []string{"build", "test[N=1]", "test[N=2]", "deploy", "lint"},
		},
		"a task that does not exist": {
			status: []run.Status{ok, ok, ok, ok, ok, skip}, tasks: []string{"lint", "tset"}, code: run.CodeInvalid,
		},
		"a part of a name": {
			status: []run.Status{ok, ok, ok, ok, ok, skip}, tasks: []string{"tes"}, code: run.CodeInvalid,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			nodes, names := diamond()
			if len(tt.status) > len(names) {
				nodes, names = append(nodes, run.Node{Name: "tidy", First: len(names), Width: 1, Finally: true}), append(names, "tidy")
			}
			keep, err := graph.Kept(nodes, tt.status, restartTasks(len(names), func(i int) string { return names[i] }), tt.from, tt.tasks)
			if tt.code != "" {
				require.Equal(t, tt.code, run.CodeOf(err), "%v", err)
				return
			}
			require.NoError(t, err)
			var got []string
			for i, k := range keep {
				require.Equal(t, k.Kept, k.Reason == "", "a task is kept, or has a reason to run: %v", k)
				if k.Kept {
					got = append(got, names[i])
				}
			}
			require.Equal(t, tt.want, got)
		})
	}
}

// TestKept_reasons has a task with a reason of its own, and names why each other task runs.
func TestKept_reasons(t *testing.T) {
	t.Parallel()
	const ok, bad, stop, skip, off = run.StatusSuccess, run.StatusFailed, run.StatusStopped, run.StatusSkipped, run.StatusCancelled
	changed := run.RestartTask{Reason: run.RestartChanged, Detail: "steps[0].run"}
	tests := map[string]struct {
		status []run.Status
		own    map[string]run.RestartTask
		from   run.RestartFrom
		tasks  []string
		want   map[string]string
	}{
		"from failed": {
			[]run.Status{ok, ok, bad, skip, stop, skip, ok},
			nil, run.RestartFailed, nil,
			map[string]string{"test[N=2]": "failed", "deploy": "dependency test", "lint": "stopped", "report": "dependency deploy", "tidy": "finally"},
		},
		"a change": {
			[]run.Status{ok, ok, ok, ok, ok, skip, ok},
			map[string]run.RestartTask{"test[N=1]": changed},
			run.RestartFailed, nil,
			map[string]string{"test[N=1]": "changed steps[0].run", "deploy": "dependency test", "report": "dependency deploy", "tidy": "finally"},
		},
		"a change of what failed": {
			[]run.Status{ok, ok, ok, bad, ok, skip, ok},
			map[string]run.RestartTask{"deploy": changed},
			run.RestartFailed, nil,
			map[string]string{"deploy": "changed steps[0].run", "report": "dependency deploy", "tidy": "finally"},
		},
		"a new task, and one that never ran": {
			[]run.Status{ok, ok, ok, ok, run.StatusNotStarted, off, ok},
			map[string]run.RestartTask{"lint": {Reason: run.RestartNew}},
			run.RestartFailed, nil,
			map[string]string{"lint": "new", "report": "not_run", "tidy": "finally"},
		},
		"named tasks": {
			[]run.Status{ok, ok, bad, skip, ok, skip, bad},
			nil, "",
			[]string{"lint", "report"},
			map[string]string{"deploy": "skipped", "lint": "requested", "report": "requested", "tidy": "finally"},
		},
		"all": {
			[]run.Status{ok, ok, bad, skip, ok, skip, ok},
			map[string]run.RestartTask{"lint": {Reason: run.RestartNew}, "deploy": changed},
			run.RestartStart, nil,
			map[string]string{"build": "start", "test[N=1]": "start", "test[N=2]": "start", "deploy": "changed steps[0].run", "lint": "new", "report": "start", "tidy": "start"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			nodes, names := diamond()
			nodes, names = append(nodes, run.Node{Name: "tidy", First: len(names), Width: 1, Finally: true}), append(names, "tidy")
			tasks := restartTasks(len(names), func(i int) string { return names[i] })
			for i := range tasks {
				tasks[i].Reason, tasks[i].Detail = tt.own[names[i]].Reason, tt.own[names[i]].Detail
			}
			got, err := graph.Kept(nodes, tt.status, tasks, tt.from, tt.tasks)
			require.NoError(t, err)
			reasons := make(map[string]string)
			for i, task := range got {
				require.Equal(t, names[i], task.Name)
				require.Equal(t, task.Kept, task.Reason == "")
				if !task.Kept {
					reasons[task.Name] = strings.TrimSpace(string(task.Reason) + " " + task.Detail)
				}
			}
			require.Equal(t, tt.want, reasons)
		})
	}
}

func TestKeptStatuses(t *testing.T) {
	t.Parallel()
	status := []run.Status{run.StatusSuccess, run.StatusFailed, run.StatusSkipped}
	require.Nil(t, graph.KeptStatuses(status, make([]run.RestartTask, 3)))
	require.Equal(t, []byte{run.StatusNotStarted.Byte(), run.StatusFailed.Byte(), run.StatusNotStarted.Byte()},
		graph.KeptStatuses(status, []run.RestartTask{{}, {Kept: true}, {}}))
}

// A restart may name as many tasks as a request can hold.
func TestKept_cost(t *testing.T) {
	t.Parallel()
	status := make([]run.Status, run.MaxTasks)
	nodes := make([]run.Node, run.MaxTasks)
	for i := range nodes {
		status[i], nodes[i] = run.StatusSuccess, run.Node{Name: "t" + strconv.Itoa(i), First: i, Width: 1}
	}
	tasks := restartTasks(len(nodes), func(task int) string { return nodes[task].Name })
	named := make([]string, 500_000)
	for i := range named {
		named[i] = "x" + strconv.Itoa(i)
	}
	cputime.Linear(t, len(named)/8, func(n int) {
		_, err := graph.Kept(nodes, status, tasks, "", named[:n])
		var refused *run.Error
		require.ErrorAs(t, err, &refused)
		require.Len(t, refused.Faults, run.MaxFaults+1)
	})
}
