package run

// Plan is what the run workflow knows of a run: the graph as numbers and the
// policies, no script, environment or secret. It is loaded in pages; Nodes of
// all pages together make the plan.
type Plan struct {
	Priority  int       `json:"priority"`
	FailFast  bool      `json:"fail_fast,omitempty"`
	Timeout   Duration  `json:"timeout,omitempty"`
	Admission Admission `json:"admission,omitempty"`
	Group     string    `json:"group"`
	Name      string    `json:"name"`
	Pools     []string  `json:"pools"` // Node.Pool is an index into it
	Nodes     []Node    `json:"nodes"`
}

// Node is a task of the specification, or an expansion of it: Width tasks with
// consecutive numbers from First.
type Node struct {
	Name          string `json:"n"`
	First         int    `json:"f"`
	Width         int    `json:"w"`
	Axes          []Axis `json:"x,omitempty"` // sorted by name; empty unless expanded
	Pool          int    `json:"p,omitempty"`
	Depends       []Edge `json:"d,omitempty"`
	Skip          bool   `json:"s,omitempty"`
	IgnoreFailure bool   `json:"i,omitempty"`
	Approvers     int    `json:"a,omitempty"`
	Retry         Retry  `json:"r,omitzero"`
	OnLost        OnLost `json:"l,omitempty"`
	Steps         int    `json:"-"`
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
