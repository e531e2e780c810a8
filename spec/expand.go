package spec

import (
	"errors"
	"maps"
	"slices"

	"github.com/drover-run/drover/run"
)

// Expansion is a specification with its matrices expanded.
type Expansion struct {
	Plan  run.Plan
	Tasks []run.ExpandedTask // in the order of their numbers
}

// Expand creates the plan of a specification and lists its tasks. Nodes are
// ordered by their distance from the tasks without dependencies, then by name,
// and task numbers follow that order. Of the axes of a matrix, sorted by name,
// the last varies fastest.
//
// pool is called once for each task of the specification, in the order of the nodes,
// and returns the pool of the task; its error becomes a fault with the error's code.
// A nil pool leaves all pools empty.
//
// Faults are those of the expansion (too many tasks, an invalid matrix) and of pool;
// dependencies that Validate rejects are faults too. If there are faults, the
// expansion is empty.
func Expand(s *run.Spec, pool func(name string, t *run.TaskSpec) (string, error)) (Expansion, []run.Fault) {
	l := newFaultList()
	checkMatrices(l, s)
	checkGraph(l, s)
	if len(l.faults) > 0 {
		return Expansion{}, l.faults
	}
	x := Expansion{Plan: run.Plan{
		Priority: s.Priority, FailFast: s.FailFast, Timeout: s.Timeout, Admission: s.Admission,
		Group: s.Group, Name: s.Name,
	}}
	if x.Plan.Priority == 0 {
		x.Plan.Priority = run.DefaultPriority
	}
	if x.Plan.Admission == "" {
		x.Plan.Admission = run.AdmissionAuto
	}
	names := inOrder(s)
	index := make(map[string]int, len(names))
	for i, name := range names {
		index[name] = i
	}
	pools := make(map[string]int)
	for i, name := range items(l, names) {
		t := s.Tasks[name]
		poolName := ""
		if pool != nil {
			var err error
			if poolName, err = pool(name, t); err != nil {
				addPoolFault(l, name, err)
				continue
			}
		}
		if _, ok := pools[poolName]; !ok {
			pools[poolName] = len(x.Plan.Pools)
			x.Plan.Pools = append(x.Plan.Pools, poolName)
		}
		n := node(name, t, index)
		n.First, n.Pool = len(x.Tasks), pools[poolName]
		x.Plan.Nodes = append(x.Plan.Nodes, n)
		x.Tasks = appendTasks(x.Tasks, i, n, t, poolName)
	}
	if len(l.faults) > 0 {
		return Expansion{}, l.faults
	}
	return x, nil
}

func addPoolFault(l *faultList, name string, err error) {
	path := run.Path("tasks").Key(name)
	var e *run.Error
	switch {
	case errors.As(err, &e) && len(e.Faults) > 0:
		for _, f := range e.Faults {
			l.add(run.Path(f.Path), f.Code, "%s", f.Detail)
		}
	case errors.As(err, &e):
		l.add(path.Key("pool"), e.Code, "%s", e.Message)
	default:
		// An error without a code may hold details that the client must not
		// see.
		l.add(path.Key("pool"), run.CodeInternal, "the pool could not be chosen")
	}
}

// node returns a task's node without its number and pool.
func node(name string, t *run.TaskSpec, index map[string]int) run.Node {
	n := run.Node{
		Name: name, Width: width(t), Axes: shownAxes(t), Skip: t.Skip, AllowFailure: t.AllowFailure,
		Foreach: t.Foreach != "", If: t.If != "", Approvers: t.Approval.Approvers, Retry: t.Retry, OnLost: t.OnLost, Steps: len(t.Steps),
	}
	for _, d := range t.Depends {
		n.Depends = append(n.Depends, run.Edge{Node: index[d.Task], On: run.Mask(d.On)})
	}
	return n
}

func appendTasks(tasks []run.ExpandedTask, index int, n run.Node, t *run.TaskSpec, pool string) []run.ExpandedTask {
	axes := slices.Sorted(maps.Keys(t.Matrix))
	for i := range n.Width {
		task := run.ExpandedTask{Name: n.TaskName(i), Node: index, Spec: n.Name, Pool: pool}
		if len(axes) > 0 {
			task.Axis = make(map[string]string, len(axes))
		}
		rest := i
		for _, axe := range slices.Backward(axes) {
			values := t.Matrix[axe]
			task.Axis[axe] = values[rest%len(values)]
			rest /= len(values)
		}
		tasks = append(tasks, task)
	}
	return tasks
}

// shownAxes returns the axes of a task sorted by name, with the values as they
// appear in task names: the plan needs nothing else.
func shownAxes(t *run.TaskSpec) []run.Axis {
	var axes []run.Axis
	for _, name := range slices.Sorted(maps.Keys(t.Matrix)) {
		axis := run.Axis{Name: name, Values: make([]string, len(t.Matrix[name]))}
		for i, v := range t.Matrix[name] {
			axis.Values[i] = run.ShownValue(v)
		}
		axes = append(axes, axis)
	}
	return axes
}

// width returns the number of tasks to which a task expands, MaxTasks+1 if it
// is more than MaxTasks.
func width(t *run.TaskSpec) int {
	if t == nil {
		return 1
	}
	n := 1
	for _, values := range t.Matrix {
		// Both factors are bounded, so the product cannot overflow.
		n = min(n*min(len(values), run.MaxTasks+1), run.MaxTasks+1)
	}
	return n
}

// inOrder returns the names of the tasks by their distance from the tasks
// without dependencies, then by name. The graph must be free of faults.
func inOrder(s *run.Spec) []string {
	open := make(map[string]int, len(s.Tasks))
	dependents := make(map[string][]string, len(s.Tasks))
	var level, order []string
	for name, t := range s.Tasks {
		open[name] = len(t.Depends)
		for _, d := range t.Depends {
			dependents[d.Task] = append(dependents[d.Task], name)
		}
		if len(t.Depends) == 0 {
			level = append(level, name)
		}
	}
	for len(level) > 0 {
		slices.Sort(level)
		order = append(order, level...)
		var next []string
		for _, name := range level {
			for _, d := range dependents[name] {
				if open[d]--; open[d] == 0 {
					next = append(next, d)
				}
			}
		}
		level = next
	}
	return order
}
