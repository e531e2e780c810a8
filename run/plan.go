package run

import "strings"

// Plan is the part of a run that the run workflow loads: the graph as numbers,
// and the policies, but no script, environment or secret. It is loaded in
// pages, which SplitPlan creates and MergePlans joins: a page may end within a
// node.
type Plan struct {
	Priority  int       `json:"priority"`
	FailFast  bool      `json:"fail_fast,omitempty"`
	Timeout   Duration  `json:"timeout,omitempty"`
	Admission Admission `json:"admission,omitempty"`
	Group     string    `json:"group"`
	Name      string    `json:"name"`
	Pools     []string  `json:"pools"` // Node.Pool is an index into Pools
	Nodes     []Node    `json:"nodes"`
	// Kept has, in a restarted run, the statuses of the tasks that keep their
	// results: a byte a task as in Graph.Statuses, 0 (not started) for tasks
	// that run again. Empty if all tasks run.
	Kept []byte `json:"kept,omitempty"`
}

// Node is a task of the specification, or an expansion of it: Width tasks with
// consecutive numbers from First.
type Node struct {
	Name         string `json:"n"`
	First        int    `json:"f"`
	Width        int    `json:"w"`
	Axes         []Axis `json:"x,omitempty"` // sorted by name; empty unless expanded
	Pool         int    `json:"p,omitempty"`
	Depends      []Edge `json:"d,omitempty"`
	Skip         bool   `json:"s,omitempty"`
	AllowFailure bool   `json:"i,omitempty"`
	Approvers    int    `json:"a,omitempty"`
	Retry        Retry  `json:"r,omitzero"`
	OnLost       OnLost `json:"l,omitempty"`
	Steps        int    `json:"-"`
	// Foreach says that the node has one foreach task, which is replaced by
	// tasks created from a list: see Graph.AddDynamicTasks.
	Foreach bool `json:"e,omitempty"`
}

// Axis is one dimension of a matrix.
type Axis struct {
	Name   string   `json:"n"`
	Values []string `json:"v"`
}

// Edge is a dependency on all tasks of a node.
type Edge struct {
	Node int    `json:"n"`           // index into Plan.Nodes
	On   OnMask `json:"o,omitempty"` // 0 means success
}

// OnMask is a set of conditions.
type OnMask uint8

// The bits of an OnMask.
const (
	MaskSuccess OnMask = 1 << iota
	MaskFailure
	MaskSkipped
)

// TaskName returns the name of the i-th task of the node: the axes sorted by
// name form the suffix, and the last axis varies fastest.
func (n Node) TaskName(i int) string {
	if len(n.Axes) == 0 {
		return n.Name
	}
	picks := make([]string, len(n.Axes))
	for a := len(n.Axes) - 1; a >= 0; a-- {
		axis := n.Axes[a]
		if len(axis.Values) == 0 {
			continue
		}
		picks[a] = axis.Name + "=" + shown(axis.Values[i%len(axis.Values)])
		i /= len(axis.Values)
	}
	return n.Name + "[" + strings.Join(picks, ",") + "]"
}

// shown returns the value of an axis as it appears in task names.
func shown(value string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x80 && (isAlphanumeric(byte(r)) || strings.ContainsRune("._-", r)) {
			return r
		}
		return '-'
	}, value)
}

func isAlphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
