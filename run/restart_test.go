package run_test

import (
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/drover-run/drover/run"
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
			keep, err := run.Kept(nodes, tt.status, func(i int) string { return names[i] }, tt.from, tt.tasks)
			if tt.code != "" {
				require.Equal(t, tt.code, run.CodeOf(err), "%v", err)
				return
			}
			require.NoError(t, err)
			var got []string
			for i, k := range keep {
				if k {
					got = append(got, names[i])
				}
			}
			require.Equal(t, tt.want, got)
		})
	}
}

// TestKept_is_closed checks Kept on random graphs. No task is kept that depends
// on a task that runs again because it was chosen or failed. All other tasks
// that ended are kept. Choosing more tasks never keeps more.
func TestKept_is_closed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		status := make([]run.Status, len(w.outcomes))
		for i := range status {
			status[i] = rapid.SampledFrom([]run.Status{run.StatusSuccess, run.StatusSuccess, run.StatusFailed, run.StatusStopped, run.StatusSkipped}).Draw(t, "status")
		}
		name := func(i int) string { return "t" + strconv.Itoa(i) }
		var tasks []string
		from := run.RestartFailed
		if rapid.Bool().Draw(t, "choose") {
			from = ""
			for range rapid.IntRange(1, 3).Draw(t, "chosen") {
				tasks = append(tasks, name(rapid.IntRange(0, len(status)-1).Draw(t, "task")))
			}
		}
		keep, err := run.Kept(w.nodes, status, name, from, tasks)
		if err != nil {
			require.Equal(t, run.CodeWrongPhase, run.CodeOf(err))
			require.NotContains(t, status, run.StatusFailed)
			require.NotContains(t, status, run.StatusStopped)
			return
		}
		again := func(i int) bool { // chosen, or failed
			if from == run.RestartFailed {
				return status[i] == run.StatusFailed || status[i] == run.StatusStopped
			}
			return slices.Contains(tasks, name(i))
		}
		node := func(i int) int {
			return slices.IndexFunc(w.nodes, func(n run.Node) bool { return i >= n.First && i < n.First+n.Width })
		}
		// depends computes the same as Kept, by recursion.
		var depends func(n int) bool
		depends = func(n int) bool {
			for _, e := range w.nodes[n].Depends {
				parent := w.nodes[e.Node]
				for i := parent.First; i < parent.First+parent.Width; i++ {
					if again(i) {
						return true
					}
				}
				if depends(e.Node) {
					return true
				}
			}
			return false
		}
		for i, k := range keep {
			want := status[i] != run.StatusSkipped && !again(i) && !depends(node(i))
			require.Equal(t, want, k, "task %d, %s", i, status[i])
		}
		if from == "" {
			more, err := run.Kept(w.nodes, status, name, "", append(tasks, name(0)))
			require.NoError(t, err)
			for i, k := range more {
				require.False(t, k && !keep[i], "choosing more tasks never keeps more")
			}
		}
	})
}

func TestKeptStatuses(t *testing.T) {
	t.Parallel()
	status := []run.Status{run.StatusSuccess, run.StatusFailed, run.StatusSkipped}
	require.Nil(t, run.KeptStatuses(status, []bool{false, false, false}))
	require.Equal(t, []byte{run.StatusNotStarted.Byte(), run.StatusFailed.Byte(), run.StatusNotStarted.Byte()},
		run.KeptStatuses(status, []bool{false, true, false}))
}
