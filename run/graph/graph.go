// Package graph decides which tasks of a run start, wait or are skipped.
package graph

import (
	"slices"

	"github.com/drover-run/drover/run"
)

// Graph decides which tasks of a run start, wait or are skipped, from the
// statuses of the others. It is a pure function of those statuses: it has no
// clock, no randomness and no order but that of the task numbers, so that a
// workflow may use it and a replay reaches the same decisions.
//
// The rules:
//
//   - A task is decided when all tasks on which it depends are final. A dependency
//     holds if every task of the node that it names has a status that the dependency
//     lists (success if it lists none). If all dependencies hold, the task is queued,
//     after it has waited for its approvals and then for slots of its change groups, if it
//     needs any; else it is skipped, and the skip cascades.
//   - An allowed failure, the failure of a task with allow_failure, counts as a success
//     everywhere, as in GitLab CI: a dependency that lists success holds, one that
//     lists only failure does not, fail fast is not triggered, and the run's result
//     stays success. The status of the task stays failed: Warnings returns such tasks.
//   - A cancelled task matches nothing. A stopped task matches stopped alone; after a
//     stop of the whole run, the caller skips all tasks that have not begun.
//   - A task with skip set is skipped at once.
//   - With fail fast, after the first failure that is not allowed, a task starts only
//     if it has a dependency that lists failure and whose node has a failed task whose
//     failure is not allowed. All other tasks are skipped, including those that wait
//     for an approval and those that depend on such a handler of failures.
//   - A finally task is decided when, in addition, all other tasks are final. Fail fast
//     has no effect on it. After a stop of the run it starts, unless the caller skips
//     it by SkipFinally.
//   - A task that a restart kept counts with its old status, for its dependents and
//     for the result; a kept allowed failure stays allowed. Only fail fast ignores kept
//     failures: a client that restarts tasks wants them to run although others have
//     failed before.
//
// A completion costs constant time for the task and for each dependency on its node,
// spread over all completions. A Graph is not safe for concurrent use.
type Graph struct {
	nodes    []run.Node
	failFast bool

	status []byte  // by task: Status.Byte, with passedBit
	nodeOf []int32 // by task
	states []nodeState
	totals [statusCount]int

	ready        []int  // nodes that Next must evaluate
	passed       []int  // tasks whose wait is over, which Next must decide
	final        int    // tasks
	unfinished   int    // tasks that are not final, without the finally tasks
	failed       bool   // a failure that is not allowed
	newFailure   bool   // a failure that is not allowed, of a task that was not kept
	kept         []byte // the argument of Keep; nil for none
	dynamicTasks []DynamicTasks
}

// Decision is the next status of one task, derived from the statuses of others.
type Decision struct {
	Task   int
	Status run.Status // queued, waiting_approval, waiting_changegroup or skipped
	// Reason is a sentence, "" for queued and waiting_changegroup.
	Reason string
}

const (
	statusCount = 10
	// passedBit marks a task in Statuses whose wait for approvals, or for slots, is over and
	// that Next has not returned since.
	passedBit = 0x80
)

// The bytes of the statuses, as Status.Byte returns them.
const (
	byteNotStarted byte = iota
	byteWaitingApproval
	byteQueued
	byteRunning
	byteSuccess
	byteFailed
	byteSkipped
	byteCancelled
	byteStopped
	byteWaitingChangeGroup
)

type nodeState struct {
	dependents []run.Edge // the edges to the node, reversed
	counts     [statusCount]int
	kept       int // failed tasks that were kept
	expanded   bool

	next int // no task of the node before it waits to be decided, with MaxParallel

	open  int // edges whose node is not final
	met   int // edges that list failure, whose node is final and has a failure that is not allowed
	unmet int // edges that list failure, whose node is not final
}

// New returns the graph of a plan's nodes with no task decided. It keeps a
// reference to nodes and does not change them. The error has CodeInvalid: task
// numbers with a gap, an edge to an unknown node, or a cycle.
func New(nodes []run.Node, failFast bool) (*Graph, error) {
	g := &Graph{nodes: nodes, failFast: failFast, states: make([]nodeState, len(nodes))}
	tasks := 0
	for i, n := range nodes {
		if n.First != tasks || n.Width < 1 || n.Width > run.MaxTasks {
			return nil, run.Errorf(run.CodeInvalid, "node %d has %d tasks from number %d on, which does not follow %d", i, n.Width, n.First, tasks)
		}
		tasks += n.Width
		for _, e := range n.Depends {
			if e.Node < 0 || e.Node >= len(nodes) {
				return nil, run.Errorf(run.CodeInvalid, "node %d depends on node %d, which does not exist", i, e.Node)
			}
			if nodes[e.Node].Finally && !n.Finally {
				return nil, run.Errorf(run.CodeInvalid, "node %d depends on node %d, which is a finally node", i, e.Node)
			}
			g.states[e.Node].dependents = append(g.states[e.Node].dependents, run.Edge{Node: i, On: e.On})
		}
	}
	g.nodeOf = make([]int32, tasks)
	for i, n := range nodes {
		for t := n.First; t < n.First+n.Width; t++ {
			g.nodeOf[t] = int32(i)
		}
	}
	if i, ok := g.cyclic(); ok {
		return nil, run.Errorf(run.CodeInvalid, "node %d depends on itself", i)
	}
	g.rebuild(make([]byte, tasks))
	return g, nil
}

// Len returns the number of tasks.
func (g *Graph) Len() int { return len(g.status) }

// Status returns the status of a task, not_started for a number out of range.
func (g *Graph) Status(task int) run.Status {
	if !g.has(task) {
		return run.StatusNotStarted
	}
	return run.StatusOf(g.at(task))
}

// Count returns the number of tasks that have the status.
func (g *Graph) Count(s run.Status) int { return g.totals[s.Byte()] }

// Set records the status of a task that was determined outside of the graph,
// and reports whether it changed anything. It does not change a final status,
// and it rejects not_started and the statuses of waits, which only the graph itself
// sets. Next returns the decisions that follow.
func (g *Graph) Set(task int, s run.Status) bool {
	b := s.Byte()
	if !g.has(task) || b == byteNotStarted || waits(b) || g.at(task) == b || finalByte(g.at(task)) {
		return false
	}
	g.set(task, b)
	return true
}

// Next returns the new decisions that follow from the statuses, ascending by
// task. It returns each decision once. The decisions are applied to the graph
// already, and skips have cascaded. It returns nil if there is none.
func (g *Graph) Next() []Decision {
	var out []Decision
	for len(g.ready) > 0 {
		last := len(g.ready) - 1
		node := g.ready[last]
		g.ready = g.ready[:last]
		out = g.decide(out, node)
	}
	for _, t := range g.passed {
		if g.status[t]&passedBit == 0 {
			continue
		}
		to, node := byteQueued, g.nodeOf[t]
		if g.at(t) == byteWaitingApproval && needsSlots(g.nodes[node], g.states[node]) {
			to = byteWaitingChangeGroup
		}
		g.set(t, to)
		out = append(out, Decision{Task: t, Status: run.StatusOf(to)})
	}
	g.passed = g.passed[:0]
	slices.SortFunc(out, func(a, b Decision) int { return a.Task - b.Task })
	return out
}

// Approve approves a task that waits for approval: the next call of Next
// returns it as queued, or as waiting for slots. It reports whether the task was waiting
// and not approved yet.
func (g *Graph) Approve(task int) bool { return g.pass(task, byteWaitingApproval) }

// Grant ends the wait of a task for slots of its change groups: the next call of Next
// returns it as queued. It reports whether the task was waiting for them.
func (g *Graph) Grant(task int) bool { return g.pass(task, byteWaitingChangeGroup) }

func (g *Graph) pass(task int, from byte) bool {
	if !g.has(task) || g.status[task] != from {
		return false
	}
	g.status[task] |= passedBit
	g.passed = append(g.passed, task)
	return true
}

// SkipUnstarted skips every task that Next has not returned as queued, as a
// stop of the run requires, except the finally tasks. It returns their numbers,
// ascending. The caller stops queued and running tasks.
func (g *Graph) SkipUnstarted() []int {
	ordinary := func(task int) bool { return !g.IsFinally(task) }
	return g.end(byteSkipped, ordinary, byteNotStarted, byteWaitingApproval, byteWaitingChangeGroup)
}

// CancelAll cancels every task that no executor holds, and returns their
// numbers, ascending.
func (g *Graph) CancelAll() []int {
	return g.end(byteCancelled, nil, byteNotStarted, byteWaitingApproval, byteWaitingChangeGroup, byteQueued)
}

// FailingFast reports whether fail fast has taken effect: the caller must
// withdraw the tasks that TasksToWithdraw returns.
func (g *Graph) FailingFast() bool { return g.failFast && g.newFailure }

// MayStart reports whether a queued task may start, or start another attempt:
// it is false only if fail fast forbids it.
func (g *Graph) MayStart(task int) bool {
	return g.has(task) && (!g.FailingFast() || g.nodes[g.nodeOf[task]].Finally || g.handlesFailure(int(g.nodeOf[task])))
}

// TasksToWithdraw returns the queued tasks that fail fast forbids to start, ascending.
// The caller withdraws those that no executor has claimed, and sets them
// skipped.
func (g *Graph) TasksToWithdraw() []int {
	if !g.FailingFast() || g.totals[byteQueued] == 0 {
		return nil
	}
	var out []int
	for i, n := range g.nodes {
		if n.Finally || g.states[i].counts[byteQueued] == 0 || g.handlesFailure(i) {
			continue
		}
		for t := n.First; t < n.First+n.Width; t++ {
			if g.at(t) == byteQueued {
				out = append(out, t)
			}
		}
	}
	return out
}

// Done reports whether every task is final.
func (g *Graph) Done() bool { return g.final == len(g.status) }

// Result returns failed after the first failure that is not allowed; else
// unknown until all tasks are final; and then success (also if all were
// skipped, or failed with their failure allowed), stopped if a task was stopped,
// or unknown if one was cancelled. The caller must track whether the run was
// stopped or timed out between tasks.
func (g *Graph) Result() run.Result {
	switch {
	case g.failed:
		return run.ResultFailed
	case !g.Done() || g.totals[byteCancelled] > 0:
		return run.ResultUnknown
	case g.totals[byteStopped] > 0:
		return run.ResultStopped
	}
	return run.ResultSuccess
}

// Warnings returns the failed tasks whose failure is allowed, ascending. A run
// with the result success that has any succeeded with warnings.
func (g *Graph) Warnings() []int {
	if g.totals[byteFailed] == 0 {
		return nil
	}
	var out []int
	for t := range g.status {
		if g.at(t) == byteFailed && g.nodes[g.nodeOf[t]].AllowFailure {
			out = append(out, t)
		}
	}
	return out
}

// Statuses returns the state of the graph, one byte a task: the status's Byte,
// plus 128 if the wait of the task is over and Next has not returned it since. A task that waits
// for slots is in the state before that wait, so that Next returns the wait once more after
// Restore, and workers of an earlier version can restore it.
func (g *Graph) Statuses() []byte {
	out := slices.Clone(g.status)
	for t, b := range out {
		if b&^passedBit != byteWaitingChangeGroup {
			continue
		}
		out[t] = byteNotStarted
		if node := g.nodeOf[t]; g.nodes[node].Approvers > 0 && !g.states[node].expanded {
			out[t] = byteWaitingApproval | passedBit
		}
	}
	return out
}

// Keep puts a new graph in the state of a restarted run: one byte a task, as
// Status.Byte returns it, not_started for tasks that are to run. A later
// Restore does not discard it. The error has CodeInvalid, and the graph is then
// unchanged.
func (g *Graph) Keep(statuses []byte) error {
	if len(statuses) != len(g.status) {
		return run.Errorf(run.CodeInvalid, "the kept state has %d tasks, the graph %d", len(statuses), len(g.status))
	}
	for t, b := range statuses {
		if b >= statusCount || b != byteNotStarted && !finalByte(b) {
			return run.Errorf(run.CodeInvalid, "task %d is to be kept in state %d, which is not final", t, b)
		}
	}
	g.kept = slices.Clone(statuses)
	for i, n := range g.nodes {
		g.states[i].kept = 0
		for t := n.First; t < n.First+n.Width; t++ {
			if g.kept[t] == byteFailed {
				g.states[i].kept++
			}
		}
	}
	g.rebuild(slices.Clone(statuses))
	return nil
}

// Kept reports whether a task was kept, that is, ended before the run began.
func (g *Graph) Kept(task int) bool {
	return task >= 0 && task < len(g.kept) && finalByte(g.kept[task])
}

// Restore puts the graph in the state that Statuses returned: Next returns
// again only the decisions that it had not returned before, and the waits for slots. The error has
// CodeInvalid, and the graph is then unchanged.
func (g *Graph) Restore(statuses []byte) error {
	if len(statuses) != len(g.status) {
		return run.Errorf(run.CodeInvalid, "the state has %d tasks, the graph %d", len(statuses), len(g.status))
	}
	for t, b := range statuses {
		if g.isExpandedForeach(t) && b != byteSuccess {
			return run.Errorf(run.CodeInvalid, "the state of task %d is %d, but its dynamic tasks were added", t, b)
		}
		if b >= byteWaitingChangeGroup && b != byteWaitingApproval|passedBit {
			return run.Errorf(run.CodeInvalid, "the state of task %d is %d, which is not a status", t, b)
		}
	}
	g.rebuild(slices.Clone(statuses))
	return nil
}

// NodeOf returns the index of a task's node, -1 for a number out of range.
func (g *Graph) NodeOf(task int) int {
	if !g.has(task) {
		return -1
	}
	return int(g.nodeOf[task])
}

// Name returns the name of a task with the suffix of its expansion, "" for a
// number out of range.
func (g *Graph) Name(task int) string {
	if !g.has(task) {
		return ""
	}
	return g.nameIn(int(g.nodeOf[task]), task)
}

func (g *Graph) has(task int) bool { return task >= 0 && task < len(g.status) }

func (g *Graph) at(task int) byte { return g.status[task] &^ passedBit }

func finalByte(b byte) bool { return b >= byteSuccess && b <= byteStopped }

func waits(b byte) bool { return b == byteWaitingApproval || b == byteWaitingChangeGroup }

// rebuild sets the statuses and derives all other fields from them.
func (g *Graph) rebuild(statuses []byte) {
	g.status = statuses
	g.totals, g.final, g.unfinished, g.failed, g.newFailure = [statusCount]int{}, 0, 0, false, false
	g.ready, g.passed = g.ready[:0], g.passed[:0]
	for i := range g.states {
		st := &g.states[i]
		st.next = 0
		st.counts, st.open, st.met, st.unmet = [statusCount]int{}, len(g.nodes[i].Depends), 0, 0
		for _, e := range g.nodes[i].Depends {
			if e.On&run.MaskFailure != 0 {
				st.unmet++
			}
		}
	}
	for t, b := range statuses {
		if g.isExpandedForeach(t) {
			g.totals[b]++
			g.final++
			continue
		}
		g.states[g.nodeOf[t]].counts[b&^passedBit]++
		if b&passedBit != 0 {
			g.passed = append(g.passed, t)
		}
	}
	for i, n := range g.nodes {
		st := &g.states[i]
		for b, count := range st.counts {
			g.totals[b] += count
			switch {
			case finalByte(byte(b)):
				g.final += count
			case !n.Finally:
				g.unfinished += count
			}
		}
		if failed := st.counts[byteFailed]; failed > 0 && !n.AllowFailure {
			g.failed = true
			g.newFailure = g.newFailure || failed > st.kept
		}
		if g.nodeFinal(i) {
			g.updateDependents(i)
		}
	}
	g.evaluateAll()
}
