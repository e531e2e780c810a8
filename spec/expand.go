package spec

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/drover-run/drover/run"
)

// Expansion is a specification with its matrices expanded.
type Expansion struct {
	Plan  run.Plan
	Tasks []run.ExpandedTask // in the order of their numbers
}

// Expand creates the plan of a specification and lists its tasks. Nodes are
// ordered by their distance from the tasks without dependencies, then by name,
// the finally tasks last, and task numbers follow that order. Of the axes of a matrix, sorted by name,
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
		Priority: s.Priority, FailFast: s.FailFast.Running != "", StopRunning: s.FailFast.Running == run.FailFastStop, Timeout: s.Timeout, Admission: s.Admission,
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
	x.Plan.FinallyTimeout = finallyTimeout(s, names)
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
		Name: name, Width: width(t), Skip: t.Skip, AllowFailure: t.AllowFailure,
		Finally: t.Finally, Foreach: t.Foreach.List != "", If: t.If != "", Approvers: t.Approval.Approvers, ChangeGroups: len(t.ChangeGroups) > 0, MaxParallel: t.MaxParallel, Retry: t.Retry, OnLost: t.OnLost, Steps: len(t.Steps),
	}
	if irregular(t.Matrix) {
		for _, c := range combinations(t.Matrix) {
			n.Names = append(n.Names, c.name)
		}
	} else {
		n.Axes = shownAxes(t)
	}
	for _, d := range t.Depends {
		n.Depends = append(n.Depends, run.Edge{Node: index[d.Task], On: run.Mask(d.On)})
	}
	return n
}

func appendTasks(tasks []run.ExpandedTask, index int, n run.Node, t *run.TaskSpec, pool string) []run.ExpandedTask {
	if irregular(t.Matrix) {
		for i, c := range combinations(t.Matrix) {
			tasks = append(tasks, run.ExpandedTask{Name: n.TaskName(i), Node: index, Spec: n.Name, Pool: pool, Axis: c.values})
		}
		return tasks
	}
	axes := slices.Sorted(maps.Keys(t.Matrix.Axes))
	for i := range n.Width {
		task := run.ExpandedTask{Name: n.TaskName(i), Node: index, Spec: n.Name, Pool: pool}
		if len(axes) > 0 {
			task.Axis = make(map[string]string, len(axes))
		}
		rest := i
		for _, axe := range slices.Backward(axes) {
			values := t.Matrix.Axes[axe]
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
	for _, name := range slices.Sorted(maps.Keys(t.Matrix.Axes)) {
		axis := run.Axis{Name: name, Values: make([]string, len(t.Matrix.Axes[name]))}
		for i, v := range t.Matrix.Axes[name] {
			axis.Values[i] = run.ShownValue(v)
		}
		axes = append(axes, axis)
	}
	return axes
}

// width returns the number of tasks to which a task expands, MaxTasks+1 if it
// is more than MaxTasks. The matrix of the task must be without faults.
func width(t *run.TaskSpec) int {
	n := greatestWidth(t)
	if t == nil || n > run.MaxTasks || !irregular(t.Matrix) {
		return n
	}
	return len(combinations(t.Matrix))
}

// greatestWidth returns the number of tasks to which a task expands if exclude
// removes none, and if include only adds tasks. It bounds the cost of the
// expansion.
func greatestWidth(t *run.TaskSpec) int {
	if t == nil {
		return 1
	}
	n := 1
	for _, values := range t.Matrix.Axes {
		// Both factors are bounded, so the product cannot overflow.
		n = min(n*min(len(values), run.MaxTasks+1), run.MaxTasks+1)
	}
	if len(t.Matrix.Axes) == 0 && len(t.Matrix.Include) > 0 {
		n = 0
	}
	return min(n+len(t.Matrix.Include), run.MaxTasks+1)
}

// irregular reports whether a matrix has other tasks than all combinations of its
// axes.
func irregular(m run.Matrix) bool { return len(m.Include) > 0 || len(m.Exclude) > 0 }

// bounded reports whether a matrix keeps the limits of its items, which bound the
// cost of combinations.
func bounded(m run.Matrix) bool {
	return len(m.Include) <= run.MaxMatrixItems && len(m.Exclude) <= run.MaxMatrixItems && addedKeys(m) <= run.MaxMatrixKeys
}

// addedKeys returns the number of keys of include that are no axes.
func addedKeys(m run.Matrix) int {
	added := make(map[string]bool)
	for _, item := range m.Include {
		for key := range item {
			if _, axis := m.Axes[key]; !axis {
				added[key] = true
			}
		}
	}
	return len(added)
}

// combination is one task of an irregular matrix.
type combination struct {
	name    string // AXIS=value,..., the suffix of the name of its task
	values  map[string]string
	include int // the index of the item that made it; -1 if the axes did
}

// combinations returns the tasks of an irregular matrix whose axes and items have
// no fault: those of the axes without those that exclude removes, in the order of
// a matrix without exclude, and then those of include. An item of include changes
// combinations of the axes only, and no value of an axis, but it may change the
// value of an earlier item.
func combinations(m run.Matrix) []combination {
	axes := slices.Sorted(maps.Keys(m.Axes))
	excluded, included := picksOf(m, axes, m.Exclude), picksOf(m, axes, m.Include)
	used := make([]bool, len(m.Include))
	var out []combination
	for at := firstOf(m, axes); at != nil; at = nextOf(m, axes, at) {
		if slices.ContainsFunc(excluded, func(p picks) bool { return p.match(at) }) {
			continue
		}
		c := combination{values: make(map[string]string, len(axes)), include: -1}
		for i, axis := range axes {
			c.values[axis] = m.Axes[axis][at[i]]
		}
		c.name = suffix(axes, c.values)
		for i, p := range included {
			if p.match(at) {
				used[i] = true
				maps.Copy(c.values, m.Include[i])
			}
		}
		out = append(out, c)
	}
	for i, item := range m.Include {
		if !used[i] {
			out = append(out, combination{name: suffix(slices.Sorted(maps.Keys(item)), item), values: maps.Clone(item), include: i})
		}
	}
	return out
}

// firstOf returns the first combination of axes, as indexes of their values, nil
// if there are no axes.
func firstOf(m run.Matrix, axes []string) []int {
	if len(axes) == 0 || slices.ContainsFunc(axes, func(a string) bool { return len(m.Axes[a]) == 0 }) {
		return nil
	}
	return make([]int, len(axes))
}

// nextOf changes a combination to the next one and returns it, nil after the last
// one. The last axis varies fastest.
func nextOf(m run.Matrix, axes []string, at []int) []int {
	for i := range slices.Backward(at) {
		if at[i]++; at[i] < len(m.Axes[axes[i]]) {
			return at
		}
		at[i] = 0
	}
	return nil
}

// picks are the values of axes that an item names, as indexes.
type picks struct {
	values []struct{ axis, value int }
	none   bool // it names a value that its axis does not have
}

func (p picks) match(at []int) bool {
	if p.none {
		return false
	}
	for _, v := range p.values {
		if at[v.axis] != v.value {
			return false
		}
	}
	return true
}

func picksOf(m run.Matrix, axes []string, items []map[string]string) []picks {
	out := make([]picks, len(items))
	for i, item := range items {
		for a, axis := range axes {
			text, named := item[axis]
			if !named {
				continue
			}
			value := slices.Index(m.Axes[axis], text)
			out[i].none = out[i].none || value < 0
			out[i].values = append(out[i].values, struct{ axis, value int }{a, value})
		}
	}
	return out
}

// suffix returns the suffix of a name of a task: the values of sorted keys.
func suffix(keys []string, values map[string]string) string {
	all := make([]string, len(keys))
	for i, key := range keys {
		all[i] = key + "=" + run.ShownValue(values[key])
	}
	return strings.Join(all, ",")
}

// inOrder returns the names of the tasks by their distance from the tasks
// without dependencies, then by name, the finally tasks last. The graph must be free
// of faults.
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
	finallyLast(s, order)
	return order
}
