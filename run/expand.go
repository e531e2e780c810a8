package run

// Expansion is a specification with its matrices multiplied out.
type Expansion struct {
	Plan  Plan
	Tasks []ExpandedTask // in the order of their numbers
}

// ExpandedTask is one task after expansion.
type ExpandedTask struct {
	Name string            // with its suffix: build[GO=1.25]
	Node int               // index into Plan.Nodes
	Spec string            // key in Spec.Tasks
	Axis map[string]string // the values of its axes
	Pool string
}
