package run

import (
	"encoding/json"
	"slices"
	"strings"
)

// Plan is the part of a run that the run workflow loads: the graph as numbers,
// and the policies, but no script, environment or secret. It is loaded in
// pages, which SplitPlan creates and MergePlans joins: a page may end within a
// node.
type Plan struct {
	Priority int  `json:"priority"`
	FailFast bool `json:"fail_fast,omitempty"`
	// StopRunning says that fail fast also stops running tasks. Plans of versions
	// without it let them continue.
	StopRunning bool      `json:"stop_running,omitempty"`
	Timeout     Duration  `json:"timeout,omitempty"`
	Admission   Admission `json:"admission,omitempty"`
	Group       string    `json:"group"`
	Name        string    `json:"name"`
	Pools       []string  `json:"pools"` // Node.Pool is an index into Pools
	Nodes       []Node    `json:"nodes"`
	// Kept has, in a restarted run, the statuses of the tasks that keep their
	// results: a byte a task as in Graph.Statuses, 0 (not started) for tasks
	// that run again. Empty if all tasks run.
	Kept []byte `json:"kept,omitempty"`
	// FinallyTimeout is how long the finally tasks may take after a stop or the
	// timeout of the run. 0 if the run has none.
	FinallyTimeout Duration `json:"finally_timeout,omitempty"`
}

// Node is a task of the specification, or an expansion of it: Width tasks with
// consecutive numbers from First.
type Node struct {
	Name  string `json:"n"`
	First int    `json:"f"`
	Width int    `json:"w"`
	Axes  []Axis `json:"x,omitempty"` // sorted by name; empty unless expanded
	// Names are the suffixes of the names of the tasks, without brackets, if the
	// tasks are not all combinations of axes. There are no Axes then.
	Names        []string `json:"m,omitempty"`
	Pool         int      `json:"p,omitempty"`
	Depends      []Edge   `json:"d,omitempty"`
	Skip         bool     `json:"s,omitempty"`
	AllowFailure bool     `json:"i,omitempty"`
	Approvers    int      `json:"a,omitempty"`
	// ChangeGroups says that the tasks need slots of change groups, which the records know.
	ChangeGroups bool `json:"g,omitempty"`
	// MaxParallel is how many of the tasks may have begun and not ended at once; 0 is no limit.
	MaxParallel int    `json:"q,omitempty"`
	Retry       Retry  `json:"r,omitzero"`
	OnLost      OnLost `json:"l,omitempty"`
	Steps       int    `json:"-"`
	// Foreach says that the node has one foreach task, which is replaced by
	// tasks created from a list: see Graph.AddDynamicTasks.
	Foreach bool `json:"e,omitempty"`
	// If says that the node has a condition, which the records evaluate.
	If bool `json:"c,omitempty"`
	// Labels identifies the labels that the executor of its tasks must have itself: see
	// LabelsID. "" for none.
	Labels string `json:"b,omitempty"`
	// Finally says that the tasks of the node are decided when all tasks of nodes
	// without it are final.
	Finally bool `json:"y,omitempty"`
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
	MaskStopped
)

// TaskName returns the name of the i-th task of the node: the axes sorted by
// name form the suffix, and the last axis varies fastest.
func (n Node) TaskName(i int) string {
	if i < len(n.Names) {
		return n.Name + "[" + n.Names[i] + "]"
	}
	if len(n.Axes) == 0 {
		return n.Name
	}
	picks := make([]string, len(n.Axes))
	for a := len(n.Axes) - 1; a >= 0; a-- {
		axis := n.Axes[a]
		if len(axis.Values) == 0 {
			continue
		}
		picks[a] = axis.Name + "=" + ShownValue(axis.Values[i%len(axis.Values)])
		i /= len(axis.Values)
	}
	return n.Name + "[" + strings.Join(picks, ",") + "]"
}

// ShownValue returns the value of an axis as it appears in task names.
func ShownValue(value string) string {
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

// ExpandedTask is one task after expansion.
type ExpandedTask struct {
	Name string            // with its suffix: build[GO=1.25]
	Node int               // index into Plan.Nodes
	Spec string            // key in Spec.Tasks
	Axis map[string]string // the values of its axes
	Pool string
	// Labels are the labels that its executor must have itself: see LabelsText.
	Labels string
}

// Mask returns the set of the conditions, 0 for none.
func Mask(conditions []Condition) OnMask {
	var m OnMask
	for _, c := range conditions {
		switch c {
		case OnSuccess:
			m |= MaskSuccess
		case OnFailure:
			m |= MaskFailure
		case OnSkipped:
			m |= MaskSkipped
		case OnStopped:
			m |= MaskStopped
		}
	}
	return m
}

// OrDefault returns the mask, and MaskSuccess if it is empty.
func (m OnMask) OrDefault() OnMask {
	if m == 0 {
		return MaskSuccess
	}
	return m
}

// String returns the conditions of the mask, as in "success or skipped".
func (m OnMask) String() string {
	var words []string
	for _, c := range []struct {
		mask OnMask
		word Condition
	}{{MaskSuccess, OnSuccess}, {MaskFailure, OnFailure}, {MaskSkipped, OnSkipped}, {MaskStopped, OnStopped}} {
		if m.OrDefault()&c.mask != 0 {
			words = append(words, string(c.word))
		}
	}
	return strings.Join(words, " or ")
}

// MaxPlanPage is the greatest size of a page of a plan as JSON, in bytes.
const MaxPlanPage = 64 << 10

// SplitPlan splits a plan into pages whose JSON has at most maxBytes each. The
// first page always exists and has the header fields; all pages have nodes. A
// node that is too large for one page continues on the next ones; MergePlans
// joins its parts.
func SplitPlan(p Plan, maxBytes int) []Plan {
	header := p
	header.Nodes = []Node{}
	pages := []Plan{header}
	size, empty := jsonSize(header), jsonSize(Plan{Nodes: []Node{}})
	for _, n := range p.Nodes {
		for _, part := range parts(n, maxBytes-empty) {
			partSize := jsonSize(part) + 1 // and a comma
			if size+partSize > maxBytes {
				pages = append(pages, Plan{Nodes: []Node{}})
				size = empty
			}
			last := &pages[len(pages)-1]
			last.Nodes = append(last.Nodes, part)
			size += partSize
		}
	}
	return pages
}

// MergePlans joins all pages of a plan, in order.
func MergePlans(pages []Plan) Plan {
	if len(pages) == 0 {
		return Plan{}
	}
	p := pages[0]
	p.Nodes = nil
	for _, page := range pages {
		for _, n := range page.Nodes {
			if last := len(p.Nodes) - 1; last >= 0 && p.Nodes[last].First == n.First {
				p.Nodes[last] = continued(p.Nodes[last], n)
				continue
			}
			p.Nodes = append(p.Nodes, n)
		}
	}
	return p
}

// parts splits a node whose JSON has more than maxBytes: the first part has all
// fields but the lists, each other part has a piece of one list.
func parts(n Node, maxBytes int) []Node {
	if jsonSize(n)+1 <= maxBytes {
		return []Node{n}
	}
	bare := Node{Name: n.Name, First: n.First, Width: n.Width}
	room := maxBytes - jsonSize(bare) - len(`,"x":[],"d":[],`)
	head := n
	head.Axes, head.Names, head.Depends = nil, nil, nil
	out := []Node{head}
	for names := range chunks(n.Names, room) {
		part := bare
		part.Names = names
		out = append(out, part)
	}
	for _, axis := range n.Axes {
		room := room - jsonSize(Axis{Name: axis.Name, Values: []string{}})
		for values := range chunks(axis.Values, room) {
			part := bare
			part.Axes = []Axis{{Name: axis.Name, Values: values}}
			out = append(out, part)
		}
	}
	for edges := range chunks(n.Depends, room) {
		part := bare
		part.Depends = edges
		out = append(out, part)
	}
	return out
}

// chunks yields the list in pieces of at most maxBytes as JSON, or of one item.
func chunks[T any](list []T, maxBytes int) func(func([]T) bool) {
	return func(yield func([]T) bool) {
		start, size := 0, 0
		for i, item := range list {
			n := jsonSize(item) + 1
			if i > start && size+n > maxBytes {
				if !yield(list[start:i]) {
					return
				}
				start, size = i, 0
			}
			size += n
		}
		if start < len(list) {
			yield(list[start:])
		}
	}
}

// continued appends the lists of a part to those of the node.
func continued(n, part Node) Node {
	n.Depends = slices.Concat(n.Depends, part.Depends)
	n.Names = slices.Concat(n.Names, part.Names)
	n.Axes = slices.Clone(n.Axes)
	for _, axis := range part.Axes {
		if last := len(n.Axes) - 1; last >= 0 && n.Axes[last].Name == axis.Name {
			n.Axes[last].Values = slices.Concat(n.Axes[last].Values, axis.Values)
			continue
		}
		n.Axes = append(n.Axes, axis)
	}
	return n
}

func jsonSize(v any) int {
	b, err := json.Marshal(v)
	if err != nil {
		return 0 // plans hold nothing that cannot be marshalled
	}
	return len(b)
}

// Upcoming counts the tasks of a pool that wait only for running tasks: not for
// a task that has not begun, and not for an approval or for slots of change groups. It leaves out tasks that not every
// executor of the pool may run.
func Upcoming(p Plan, pool string, status func(task int) Status) int {
	n := 0
	for _, node := range p.Nodes {
		if node.Skip || node.Approvers > 0 || node.ChangeGroups || node.Labels != "" || node.Pool >= len(p.Pools) || p.Pools[node.Pool] != pool || !imminent(p, node, status) {
			continue
		}
		upcoming, open := 0, 0
		for task := node.First; task < node.First+node.Width; task++ {
			switch s := status(task); {
			case s == StatusNotStarted:
				upcoming++
			case !s.Final():
				open++
			}
		}
		if node.MaxParallel > 0 {
			upcoming = min(upcoming, max(0, node.MaxParallel-open))
		}
		n += upcoming
	}
	return n
}

// imminent reports whether all tasks on which a node depends have ended or run.
func imminent(p Plan, node Node, status func(task int) Status) bool {
	for _, edge := range node.Depends {
		if edge.Node < 0 || edge.Node >= len(p.Nodes) {
			return false
		}
		on := p.Nodes[edge.Node]
		for task := on.First; task < on.First+on.Width; task++ {
			if s := status(task); s != StatusRunning && !s.Final() {
				return false
			}
		}
	}
	return len(node.Depends) > 0
}
