package run

import "slices"

// Graph decides which tasks of a run start, wait or are skipped, from the
// statuses of the others. It is a pure function of those statuses: it has no
// clock, no randomness and no order but that of the task numbers, so that a
// workflow may use it and a replay reaches the same decisions.
//
// The rules:
//
//   - A task is decided when all tasks that it depends on are final. A
//     dependency holds if every task of the node it names has a status that
//     the dependency lists (success where it lists none). If all hold, the
//     task is queued, or waits for its approvals; else it is skipped, and the
//     skip cascades.
//   - A failure that is ignored is still a failure for the dependents: it
//     matches failure and not success. It merely leaves the run's result be.
//   - A stopped or cancelled task matches nothing.
//   - A task with skip set is skipped at once.
//   - With fail fast, from the first failure on that is not ignored, only
//     those tasks start that have a dependency which lists failure and whose
//     node has a failed task. All others are skipped, waiting ones included;
//     a task behind such a handler of failures is no exception.
//   - A task that was kept at a restart counts as it ended, for its dependents
//     and for the result. Fail fast alone looks away: who asks for tasks to be
//     run again wants them to run, whatever had failed before.
//
// A completion costs constant time for the task and for each dependency on its
// node, spread over all completions. A Graph is not safe for concurrent use.
type Graph struct {
	nodes    []Node
	failFast bool

	status []byte  // by task: Status.Byte, with approvedBit
	nodeOf []int32 // by task
	states []nodeState
	totals [statusCount]int

	ready    []int  // nodes to be looked at by Next
	approved []int  // tasks to be queued by Next
	final    int    // tasks
	failed   bool   // a failure that is not ignored
	fresh    bool   // such a failure of a task that was not kept
	kept     []byte // what Keep was given; nil for nothing
	grown    []Grown
}

// Decision is what follows for one task from the statuses of others.
type Decision struct {
	Task   int
	Status Status // queued, waiting_approval or skipped
	// Reason is a sentence, "" for queued.
	Reason string
}

const (
	statusCount = 9
	// approvedBit marks a task in Statuses that was approved and not yet
	// given out as queued.
	approvedBit = 0x80
)

// The bytes of the statuses, as Status.Byte tells them.
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
)

type nodeState struct {
	dependents []Edge // the edges on the node, turned round
	counts     [statusCount]int
	kept       int // failed tasks that were kept
	grown      bool

	open  int // edges whose node is not final
	met   int // edges that list failure, whose node is final and has a failed task
	unmet int // edges that list failure, whose node is not final
}

// NewGraph returns the graph of a plan's nodes with no task decided. It keeps
// nodes and does not change them. The error has CodeInvalid: a task number out
// of line, an edge to nowhere, a cycle.
func NewGraph(nodes []Node, failFast bool) (*Graph, error) {
	g := &Graph{nodes: nodes, failFast: failFast, states: make([]nodeState, len(nodes))}
	tasks := 0
	for i, n := range nodes {
		if n.First != tasks || n.Width < 1 || n.Width > MaxTasks {
			return nil, Errorf(CodeInvalid, "node %d has %d tasks from number %d on, which does not follow %d", i, n.Width, n.First, tasks)
		}
		tasks += n.Width
		for _, e := range n.Depends {
			if e.Node < 0 || e.Node >= len(nodes) {
				return nil, Errorf(CodeInvalid, "node %d depends on node %d, which does not exist", i, e.Node)
			}
			g.states[e.Node].dependents = append(g.states[e.Node].dependents, Edge{Node: i, On: e.On})
		}
	}
	g.nodeOf = make([]int32, tasks)
	for i, n := range nodes {
		for t := n.First; t < n.First+n.Width; t++ {
			g.nodeOf[t] = int32(i)
		}
	}
	if i, ok := g.cyclic(); ok {
		return nil, Errorf(CodeInvalid, "node %d depends on itself", i)
	}
	g.rebuild(make([]byte, tasks))
	return g, nil
}

// Len returns the number of tasks.
func (g *Graph) Len() int { return len(g.status) }

// Status returns the status of a task, not_started for a number out of range.
func (g *Graph) Status(task int) Status {
	if !g.has(task) {
		return StatusNotStarted
	}
	return StatusOf(g.at(task))
}

// Count returns the number of tasks that have the status.
func (g *Graph) Count(s Status) int { return g.totals[s.Byte()] }

// Set records a status that came from elsewhere, and reports whether it
// changed anything: a final status stands for good, and not_started and
// waiting_approval are the graph's own to give. What follows is told by Next.
func (g *Graph) Set(task int, s Status) bool {
	b := s.Byte()
	if !g.has(task) || b == byteNotStarted || b == byteWaitingApproval || g.at(task) == b || finalByte(g.at(task)) {
		return false
	}
	g.set(task, b)
	return true
}

// Next returns the decisions that follow from the statuses and were not given
// before, ascending by task. They are applied to the graph already, and skips
// have cascaded. It returns nil when there is none.
func (g *Graph) Next() []Decision {
	var out []Decision
	for len(g.ready) > 0 {
		last := len(g.ready) - 1
		node := g.ready[last]
		g.ready = g.ready[:last]
		out = g.decide(out, node)
	}
	for _, t := range g.approved {
		if g.status[t] == byteWaitingApproval|approvedBit {
			g.set(t, byteQueued)
			out = append(out, Decision{Task: t, Status: StatusQueued})
		}
	}
	g.approved = g.approved[:0]
	slices.SortFunc(out, func(a, b Decision) int { return a.Task - b.Task })
	return out
}

// Approve lets a task that waits for approval start: the following Next tells
// it as queued. It reports whether the task was waiting and not approved yet.
func (g *Graph) Approve(task int) bool {
	if !g.has(task) || g.status[task] != byteWaitingApproval {
		return false
	}
	g.status[task] |= approvedBit
	g.approved = append(g.approved, task)
	return true
}

// SkipUnstarted skips every task that was not given out as queued: what a stop
// of the run means for them. It returns their numbers, ascending. Queued and
// running tasks are left to the caller.
func (g *Graph) SkipUnstarted() []int {
	return g.end(byteSkipped, byteNotStarted, byteWaitingApproval)
}

// CancelAll makes every task cancelled that no executor has, and returns their
// numbers, ascending.
func (g *Graph) CancelAll() []int {
	return g.end(byteCancelled, byteNotStarted, byteWaitingApproval, byteQueued)
}

// FailingFast reports whether fail fast has set in: tasks that Unwanted names
// are to be withdrawn.
func (g *Graph) FailingFast() bool { return g.failFast && g.fresh }

// MayStart reports whether a queued task may begin, or begin anew: false only
// once fail fast forbids it.
func (g *Graph) MayStart(task int) bool {
	return g.has(task) && (!g.FailingFast() || g.handlesFailure(int(g.nodeOf[task])))
}

// Unwanted returns the tasks that were given out as queued and that fail fast
// forbids to begin, ascending. The caller withdraws those that no executor has
// taken, and sets them skipped.
func (g *Graph) Unwanted() []int {
	if !g.FailingFast() || g.totals[byteQueued] == 0 {
		return nil
	}
	var out []int
	for i, n := range g.nodes {
		if g.states[i].counts[byteQueued] == 0 || g.handlesFailure(i) {
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

// Result returns failed from the first failure on that is not ignored; else
// unknown until all tasks are final; and then success (also if all were
// skipped), stopped if a task was stopped, or unknown if one was cancelled.
// That a run was stopped or timed out between tasks is for the caller to know.
func (g *Graph) Result() Result {
	switch {
	case g.failed:
		return ResultFailed
	case !g.Done() || g.totals[byteCancelled] > 0:
		return ResultUnknown
	case g.totals[byteStopped] > 0:
		return ResultStopped
	}
	return ResultSuccess
}

// Statuses returns the state of the graph, one byte a task: the status's Byte,
// plus 128 where a task was approved and Next has not told it yet.
func (g *Graph) Statuses() []byte { return slices.Clone(g.status) }

// Keep puts a new graph in the state of a run that was restarted: one byte a
// task, as Status.Byte tells it, not_started for those that are to run. It
// holds for a Restore that comes after, too. The error has CodeInvalid, and the
// graph is then unchanged.
func (g *Graph) Keep(statuses []byte) error {
	if len(statuses) != len(g.status) {
		return Errorf(CodeInvalid, "what is kept has %d tasks, the graph %d", len(statuses), len(g.status))
	}
	for t, b := range statuses {
		if b >= statusCount || b != byteNotStarted && !finalByte(b) {
			return Errorf(CodeInvalid, "task %d is to be kept in state %d, which is not final", t, b)
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

// Kept reports whether a task was kept, and so ended before the run began.
func (g *Graph) Kept(task int) bool {
	return task >= 0 && task < len(g.kept) && finalByte(g.kept[task])
}

// Restore puts the graph in the state that Statuses returned: decisions that
// were given are not given again, and those that were not are. The error has
// CodeInvalid, and the graph is then unchanged.
func (g *Graph) Restore(statuses []byte) error {
	if len(statuses) != len(g.status) {
		return Errorf(CodeInvalid, "the state has %d tasks, the graph %d", len(statuses), len(g.status))
	}
	for t, b := range statuses {
		if g.stands(t) && b != byteSuccess {
			return Errorf(CodeInvalid, "the state of task %d is %d, but the tasks that it stands for are there", t, b)
		}
		if b >= statusCount && b != byteWaitingApproval|approvedBit {
			return Errorf(CodeInvalid, "the state of task %d is %d, which is no status", t, b)
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

func (g *Graph) at(task int) byte { return g.status[task] &^ approvedBit }

func finalByte(b byte) bool { return b >= byteSuccess }

// rebuild takes over the statuses and derives everything else from them.
func (g *Graph) rebuild(statuses []byte) {
	g.status = statuses
	g.totals, g.final, g.failed, g.fresh = [statusCount]int{}, 0, false, false
	g.ready, g.approved = g.ready[:0], g.approved[:0]
	for i := range g.states {
		st := &g.states[i]
		st.counts, st.open, st.met, st.unmet = [statusCount]int{}, len(g.nodes[i].Depends), 0, 0
		for _, e := range g.nodes[i].Depends {
			if e.On&MaskFailure != 0 {
				st.unmet++
			}
		}
	}
	for t, b := range statuses {
		if g.stands(t) {
			g.totals[b]++
			g.final++
			continue
		}
		g.states[g.nodeOf[t]].counts[b&^approvedBit]++
		if b&approvedBit != 0 {
			g.approved = append(g.approved, t)
		}
	}
	for i, n := range g.nodes {
		st := &g.states[i]
		for b, count := range st.counts {
			g.totals[b] += count
			if finalByte(byte(b)) {
				g.final += count
			}
		}
		if failed := st.counts[byteFailed]; failed > 0 && !n.IgnoreFailure {
			g.failed = true
			g.fresh = g.fresh || failed > st.kept
		}
		if g.nodeFinal(i) {
			g.settle(i)
		}
	}
	g.lookAtAll()
}
