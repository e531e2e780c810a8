package graph

import (
	"slices"

	"github.com/drover-run/drover/run"
)

// DynamicTasks names the tasks that were created from the list of a foreach task:
// Width tasks with consecutive numbers from First.
type DynamicTasks struct {
	Task  int `json:"task"`
	First int `json:"first"`
	Width int `json:"width"`
}

// AwaitsDynamicTasks reports whether a task is a foreach task whose dynamic tasks were not
// added yet.
func (g *Graph) AwaitsDynamicTasks(task int) bool {
	return g.has(task) && g.nodes[g.nodeOf[task]].Foreach && !g.states[g.nodeOf[task]].expanded
}

// AddDynamicTasks adds the dynamic tasks of a foreach task. The foreach task becomes a
// success and does not count for its node any more: dependents of the node
// depend on the new tasks. The next call of Next decides the new tasks; they
// need no further approval.
//
// Before a Restore, the caller must add all dynamic tasks that the graph had when the
// state was taken, in order. The error has CodeInvalid, and the graph is then
// unchanged.
func (g *Graph) AddDynamicTasks(x DynamicTasks) error {
	switch {
	case !g.AwaitsDynamicTasks(x.Task):
		return run.Errorf(run.CodeInvalid, "task %d is not a foreach task whose tasks are still to be added", x.Task)
	case finalByte(g.at(x.Task)):
		return run.Errorf(run.CodeInvalid, "task %d is %s", x.Task, g.Status(x.Task))
	case x.First != len(g.status):
		return run.Errorf(run.CodeInvalid, "the tasks of task %d begin with number %d, which does not follow %d", x.Task, x.First, len(g.status)-1)
	case x.Width < 1 || x.First+x.Width > run.MaxTasks:
		return run.Errorf(run.CodeInvalid, "task %d has %d dynamic tasks", x.Task, x.Width)
	}
	if g.dynamicTasks == nil {
		g.nodes = slices.Clone(g.nodes) // the caller owns the slice
	}
	g.dynamicTasks = append(g.dynamicTasks, x)
	node := g.nodeOf[x.Task]
	n, st, old := &g.nodes[node], &g.states[node], g.at(x.Task)
	n.First, n.Width, st.expanded, st.next = x.First, x.Width, true, 0

	st.counts[old]--
	g.totals[old]--
	g.status[x.Task] = byteSuccess
	g.totals[byteSuccess]++
	g.final++

	if !n.Finally {
		g.unfinished += x.Width - 1 // the foreach task was one of them
	}

	st.counts[byteNotStarted] += x.Width
	g.totals[byteNotStarted] += x.Width
	for range x.Width {
		g.status, g.nodeOf = append(g.status, byteNotStarted), append(g.nodeOf, node)
	}
	g.ready = append(g.ready, int(node))
	return nil
}

// DynamicTasks returns the dynamic tasks, in the order in which they were added.
func (g *Graph) DynamicTasks() []DynamicTasks { return slices.Clone(g.dynamicTasks) }

// isExpandedForeach reports whether a task is a foreach task whose dynamic tasks were
// added.
func (g *Graph) isExpandedForeach(task int) bool {
	node := g.nodeOf[task]
	return g.states[node].expanded && task < g.nodes[node].First
}

// nameIn returns the name of a task of a node.
func (g *Graph) nameIn(node, task int) string {
	n := g.nodes[node]
	switch i := task - n.First; {
	case !g.states[node].expanded:
		return n.TaskName(i)
	case i < 0:
		return n.Name // the foreach task itself
	default:
		return run.ItemName(n.Name, i)
	}
}
