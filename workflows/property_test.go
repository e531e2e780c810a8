package workflows_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// fate is the path of a task through dispatches and attempts, and its end.
type fate struct {
	path []behaviour
	end  run.Status
}

// draw returns a random plan, and a path for each of its nodes.
func draw(r *rand.Rand) (run.Plan, []fate) {
	nodes := make([]run.Node, 1+r.IntN(12))
	fates := make([]fate, len(nodes))
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
		n.IgnoreFailure = r.IntN(6) == 0
		n.Retry.MaxAttempts = r.IntN(3)
		nodes[i], fates[i] = n, drawFate(r, max(1, n.Retry.MaxAttempts))
	}
	return newPlan(nodes...), fates
}

func drawFate(r *rand.Rand, attempts int) fate {
	f := fate{end: run.StatusFailed}
	for range attempts {
		for r.IntN(3) == 0 {
			f.path = append(f.path, giveBack)
		}
		if r.IntN(3) > 0 {
			f.end = run.StatusSuccess
			if r.IntN(4) == 0 {
				f.path = append(f.path, silent("host-7")) // the adopting executor reports the success
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
func expect(t *testing.T, p run.Plan, fates []fate) (statuses []run.Status, result run.Result) {
	t.Helper()
	g, err := run.NewGraph(p.Nodes, p.FailFast)
	require.NoError(t, err)
	if p.Kept != nil {
		require.NoError(t, g.Keep(p.Kept))
	}
	for !g.Done() {
		for _, d := range g.Next() {
			if d.Status == run.StatusQueued {
				g.Set(d.Task, fates[g.NodeOf(d.Task)].end)
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
		for name, limits := range map[string]*contract.Limits{"inline": nil, "batches": {Inline: 1, Batch: 4}} {
			t.Run(fmt.Sprintf("%d_%s", seed, name), func(t *testing.T) {
				t.Parallel()
				p, fates := draw(rand.New(rand.NewPCG(seed, 1)))
				endsAsItsGraphSays(t, p, fates, limits)
			})
		}
	}
}

// The same holds for a restart that keeps some of the tasks.
func TestRun_restarted_ends_as_its_graph_says(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		for name, limits := range map[string]*contract.Limits{"inline": nil, "batches": {Inline: 1, Batch: 4}} {
			t.Run(fmt.Sprintf("%d_%s", seed, name), func(t *testing.T) {
				t.Parallel()
				r := rand.New(rand.NewPCG(seed, 2))
				p, fates := draw(r)
				ended, _ := expect(t, p, fates)
				g, err := run.NewGraph(p.Nodes, false)
				require.NoError(t, err)
				kept, err := run.Kept(p.Nodes, ended, g.Name, "", []string{g.Name(r.IntN(g.Len()))})
				require.NoError(t, err)
				p.Kept = run.KeptStatuses(ended, kept)
				for i := range fates {
					fates[i] = drawFate(r, max(1, p.Nodes[i].Retry.MaxAttempts))
				}
				endsAsItsGraphSays(t, p, fates, limits)
			})
		}
	}
}

func endsAsItsGraphSays(t *testing.T, p run.Plan, fates []fate, limits *contract.Limits) {
	t.Helper()
	w := newWorld(t, p)
	w.limits = limits
	g, err := run.NewGraph(p.Nodes, false)
	require.NoError(t, err)
	for task := range g.Len() {
		w.on(g.Name(task), fates[g.NodeOf(task)].path...)
		w.onAdopt(g.Name(task), answer(run.StatusSuccess, "", ""))
	}
	statuses, result := expect(t, p, fates)
	require.Equal(t, result, w.run().Result)
	require.Equal(t, statuses, w.statuses())
	seen := map[string]bool{}
	for _, request := range w.requests() {
		require.False(t, seen[request], "%s came twice", request)
		seen[request] = true
	}
}
