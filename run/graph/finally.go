package graph

// IsFinally reports whether a task is a finally task: it begins when all others have
// ended.
func (g *Graph) IsFinally(task int) bool { return g.has(task) && g.nodes[g.nodeOf[task]].Finally }

// SkipFinally skips every finally task that Next has not returned as queued, as a
// forced stop of the run requires. It returns their numbers, ascending.
func (g *Graph) SkipFinally() []int {
	return g.end(byteSkipped, g.IsFinally, byteNotStarted, byteWaitingApproval, byteWaitingChangeGroup)
}

// FinallyBegan reports whether all tasks without finally are final, and a finally
// task is not.
func (g *Graph) FinallyBegan() bool { return g.unfinished == 0 && !g.Done() }

// countEnd counts the end of a task of a node. The last task that is no finally task
// lets Next decide the finally tasks.
func (g *Graph) countEnd(node int) {
	if g.nodes[node].Finally {
		return
	}
	if g.unfinished--; g.unfinished > 0 {
		return
	}
	for i, n := range g.nodes {
		if n.Finally {
			g.ready = append(g.ready, i)
		}
	}
}
