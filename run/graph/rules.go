package graph

import (
	"fmt"
	"slices"

	"github.com/drover-run/drover/run"
)

// set changes the status of a task, and records the nodes that Next must
// decide.
func (g *Graph) set(task int, b byte) {
	node := int(g.nodeOf[task])
	st, old := &g.states[node], g.at(task)
	g.status[task] = b
	st.counts[old]--
	g.totals[old]--
	st.counts[b]++
	g.totals[b]++
	if !finalByte(b) {
		return
	}
	g.final++
	g.countEnd(node)
	if g.nodeFinal(node) {
		g.updateDependents(node)
	} else if g.nodes[node].MaxParallel > 0 {
		g.ready = append(g.ready, node)
	}
	if b == byteFailed && !g.newFailure && !g.nodes[node].AllowFailure {
		g.failed, g.newFailure = true, true
		if g.failFast {
			g.evaluateAll()
		}
	}
}

// updateDependents updates the dependents of a node that has become final.
func (g *Graph) updateDependents(node int) {
	failure := g.states[node].counts[byteFailed] > 0 && !g.nodes[node].AllowFailure
	for _, e := range g.states[node].dependents {
		st := &g.states[e.Node]
		st.open--
		if e.On&run.MaskFailure != 0 {
			st.unmet--
			if failure {
				st.met++
			}
		}
		if st.open == 0 || g.FailingFast() && g.neverHandles(e.Node) {
			g.ready = append(g.ready, e.Node)
		}
	}
}

// evaluateAll makes Next evaluate every node. Next ignores those that it cannot
// decide yet.
func (g *Graph) evaluateAll() {
	for i := range g.nodes {
		g.ready = append(g.ready, i)
	}
}

// end sets the tasks that have one of the statuses in from to the final status
// to. only selects the tasks; nil selects all.
func (g *Graph) end(to byte, only func(task int) bool, from ...byte) []int {
	var out []int
	for t := range g.status {
		if slices.Contains(from, g.at(t)) && (only == nil || only(t)) {
			g.set(t, to)
			out = append(out, t)
		}
	}
	return out
}

func (g *Graph) nodeFinal(node int) bool {
	final := 0
	for _, count := range g.states[node].counts[byteSuccess : byteStopped+1] {
		final += count
	}
	return final == g.nodes[node].Width
}

// decide appends the decisions on a node's tasks that can be made now.
func (g *Graph) decide(out []Decision, node int) []Decision {
	n, st := g.nodes[node], &g.states[node]
	if st.counts[byteNotStarted]+st.counts[byteWaitingApproval]+st.counts[byteWaitingChangeGroup] == 0 {
		return out
	}
	to, reason, waiting := byteQueued, "", false
	switch {
	case n.Skip:
		to, reason = byteSkipped, "skip is set"
	case !n.Finally && g.FailingFast() && g.neverHandles(node):
		to, reason, waiting = byteSkipped, "fail_fast is set and a task has failed", true
	case st.open > 0 || n.Finally && g.unfinished > 0:
		return out
	default:
		if cause := g.mismatch(node); cause != "" {
			to, reason = byteSkipped, cause
		} else if n.Approvers > 0 && !st.expanded { // the foreach task was approved already
			to, reason = byteWaitingApproval, waitReason(n.Approvers)
		} else if needsSlots(n, *st) {
			to = byteWaitingChangeGroup // the records know for what
		}
	}
	if to != byteSkipped && n.MaxParallel > 0 {
		return g.decideSome(out, node, Decision{Status: run.StatusOf(to), Reason: reason})
	}
	for t := n.First; t < n.First+n.Width; t++ {
		if at := g.at(t); at == byteNotStarted || waiting && waits(at) {
			g.set(t, to)
			out = append(out, Decision{Task: t, Status: run.StatusOf(to), Reason: reason})
		}
	}
	return out
}

// decideSome appends a decision for as many tasks of a node as may begin beside those that have
// begun and not ended. Next decides the others when these end.
func (g *Graph) decideSome(out []Decision, node int, to Decision) []Decision {
	n, st := g.nodes[node], &g.states[node]
	open := n.Width - st.counts[byteNotStarted]
	for _, count := range st.counts[byteSuccess : byteStopped+1] {
		open -= count
	}
	for ; st.next < n.Width && open < n.MaxParallel; st.next++ {
		t := n.First + st.next
		if g.at(t) != byteNotStarted {
			continue
		}
		g.set(t, to.Status.Byte())
		open++
		to.Task = t
		out = append(out, to)
	}
	return out
}

// needsSlots reports whether the tasks of a node need slots of change groups. A foreach task
// itself needs none: the tasks of its list do.
func needsSlots(n run.Node, st nodeState) bool {
	return n.ChangeGroups && (!n.Foreach || st.expanded)
}

func waitReason(approvers int) string {
	if approvers == 1 {
		return "waits for an approval"
	}
	return fmt.Sprintf("waits for %d approvals", approvers)
}

// mismatch returns why a dependency of a node does not hold, "" if all hold.
// All nodes on which it depends must be final.
func (g *Graph) mismatch(node int) string {
	for _, e := range g.nodes[node].Depends {
		mask := e.On.OrDefault()
		parent := g.nodes[e.Node]
		for b := byteSuccess; b <= byteStopped; b++ {
			if g.states[e.Node].counts[b] == 0 || mask&outcomeOf(parent, b) != 0 {
				continue
			}
			for i := range parent.Width {
				if g.at(parent.First+i) == b {
					return fmt.Sprintf("needs %s of %s, %s", mask, g.nameIn(e.Node, parent.First+i), which(parent, b))
				}
			}
		}
	}
	return ""
}

// which describes the status of a task of a node that does not meet a dependency.
func which(n run.Node, b byte) string {
	if b == byteFailed && n.AllowFailure {
		return "whose failure is allowed"
	}
	return "which is " + string(run.StatusOf(b))
}

// handlesFailure reports whether a node has a dependency that lists failure and
// that a failure meets. The nodes on which it depends must be final.
func (g *Graph) handlesFailure(node int) bool { return g.states[node].met > 0 }

// neverHandles reports whether handlesFailure can no longer become true.
func (g *Graph) neverHandles(node int) bool {
	return g.states[node].met == 0 && g.states[node].unmet == 0
}

// cyclic returns a node that depends on itself, directly or not, and whether
// there is one.
func (g *Graph) cyclic() (int, bool) {
	open := make([]int, len(g.nodes))
	var free []int
	for i, n := range g.nodes {
		if open[i] = len(n.Depends); open[i] == 0 {
			free = append(free, i)
		}
	}
	for len(free) > 0 {
		last := len(free) - 1
		node := free[last]
		free = free[:last]
		for _, d := range g.states[node].dependents {
			if open[d.Node]--; open[d.Node] == 0 {
				free = append(free, d.Node)
			}
		}
	}
	i := slices.IndexFunc(open, func(n int) bool { return n > 0 })
	return i, i >= 0
}

// outcomeOf returns the condition that a task of a node with a final status meets,
// 0 for none.
func outcomeOf(n run.Node, b byte) run.OnMask {
	switch b {
	case byteSuccess:
		return run.MaskSuccess
	case byteFailed:
		if n.AllowFailure {
			return run.MaskSuccess
		}
		return run.MaskFailure
	case byteSkipped:
		return run.MaskSkipped
	case byteStopped:
		return run.MaskStopped
	}
	return 0
}
