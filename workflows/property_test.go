package workflows_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/graph"
)

// taskOutcome is the path of a task through dispatches and attempts, and its end.
type taskOutcome struct {
	path []behaviour
	end  run.Status
}

// randomPlan returns a random plan, and a path for each of its nodes.
func randomPlan(r *rand.Rand) (run.Plan, []taskOutcome) {
	nodes := make([]run.Node, 1+r.IntN(12))
	outcomes := make([]taskOutcome, len(nodes))
	for i := range nodes {
		n := wide(fmt.Sprintf("n%d", i), 1+r.IntN(3))
		if n.Width == 1 {
			n.Axes = nil
		}
		for d := range i {
			if r.IntN(4) == 0 {
				n.Depends = append(n.Depends, run.Edge{Node: d, On: run.OnMask(r.IntN(8))})
			}
		}
		n.Skip = r.IntN(12) == 0
		n.AllowFailure = r.IntN(6) == 0
		n.Retry.MaxAttempts = r.IntN(3)
		nodes[i], outcomes[i] = n, randomOutcome(r, max(1, n.Retry.MaxAttempts))
	}
	return newPlan(nodes...), outcomes
}

func randomOutcome(r *rand.Rand, attempts int) taskOutcome {
	f := taskOutcome{end: run.StatusFailed}
	for range attempts {
		for r.IntN(3) == 0 {
			f.path = append(f.path, requeueTask)
		}
		if r.IntN(3) > 0 {
			f.end = run.StatusSuccess
			if r.IntN(4) == 0 {
				f.path = append(f.path, loseContact("host-7")) // the adopting executor reports the success
			} else {
				f.path = append(f.path, succeed)
			}
			return f
		}
		f.path = append(f.path, failStep)
	}
	return f
}

// expect returns the expected end of a plan, computed from the graph alone.
func expect(t *testing.T, p run.Plan, outcomes []taskOutcome) (statuses []run.Status, result run.Result) {
	t.Helper()
	g, err := graph.New(p.Nodes, p.FailFast)
	require.NoError(t, err)
	if p.Kept != nil {
		require.NoError(t, g.Keep(p.Kept))
	}
	for !g.Done() {
		for _, d := range g.Next() {
			if d.Status == run.StatusQueued {
				g.Set(d.Task, outcomes[g.NodeOf(d.Task)].end)
			}
		}
	}
	for task := range g.Len() {
		statuses = append(statuses, g.Status(task))
	}
	return statuses, g.Result()
}

// For any graph and any faults, a run ends as its graph requires, in one
// execution and in batches alike, and no attempt starts twice.
func TestRun_ends_as_its_graph_says(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		for name, limits := range map[string]*contract.Limits{"inline": nil, "batches": {InlineTasks: 1, BatchTasks: 4}} {
			t.Run(fmt.Sprintf("%d_%s", seed, name), func(t *testing.T) {
				t.Parallel()
				p, outcomes := randomPlan(rand.New(rand.NewPCG(seed, 1)))
				endsAsItsGraphSays(t, p, outcomes, limits)
			})
		}
	}
}

// The same holds for a restart that keeps some of the tasks.
func TestRun_restarted_ends_as_its_graph_says(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		for name, limits := range map[string]*contract.Limits{"inline": nil, "batches": {InlineTasks: 1, BatchTasks: 4}} {
			t.Run(fmt.Sprintf("%d_%s", seed, name), func(t *testing.T) {
				t.Parallel()
				r := rand.New(rand.NewPCG(seed, 2))
				p, outcomes := randomPlan(r)
				ended, _ := expect(t, p, outcomes)
				g, err := graph.New(p.Nodes, false)
				require.NoError(t, err)
				tasks := make([]run.RestartTask, g.Len())
				for i := range tasks {
					tasks[i].Name = g.Name(i)
				}
				kept, err := graph.Kept(p.Nodes, ended, tasks, "", []string{g.Name(r.IntN(g.Len()))})
				require.NoError(t, err)
				p.Kept = graph.KeptStatuses(ended, kept)
				for i := range outcomes {
					outcomes[i] = randomOutcome(r, max(1, p.Nodes[i].Retry.MaxAttempts))
				}
				endsAsItsGraphSays(t, p, outcomes, limits)
			})
		}
	}
}

func endsAsItsGraphSays(t *testing.T, p run.Plan, outcomes []taskOutcome, limits *contract.Limits) {
	t.Helper()
	w := newWorkflowEnv(t, p)
	w.limits = limits
	g, err := graph.New(p.Nodes, false)
	require.NoError(t, err)
	for task := range g.Len() {
		w.on(g.Name(task), outcomes[g.NodeOf(task)].path...)
		w.onAdopt(g.Name(task), answer(run.StatusSuccess, "", ""))
	}
	statuses, result := expect(t, p, outcomes)
	require.Equal(t, result, w.run().Result)
	require.Equal(t, statuses, w.statuses())
	seen := map[string]bool{}
	for _, request := range w.requests() {
		require.False(t, seen[request], "%s came twice", request)
		seen[request] = true
	}
}
