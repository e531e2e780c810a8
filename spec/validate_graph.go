package spec

import (
	"maps"
	"slices"
	"strings"

	"github.com/drover-run/drover/run"
)

// maxCycles is the most cycles that are reported, maxCycleNames the most names
// of each.
const (
	maxCycles     = 10
	maxCycleNames = 12
)

// checkMatrices checks the limits and values of the expansions.
func checkMatrices(l *faultList, s *run.Spec) {
	total := 0
	sets := map[string]struct{}{}
	for name, t := range sorted(l, s.Tasks) {
		total += greatestWidth(t)
		if t == nil || len(s.Tasks) > run.MaxTasks {
			continue
		}
		checkMatrix(l, name, t)
		sets[labelSet(t)] = struct{}{}
	}
	delete(sets, "") // of tasks that ask for nothing
	if len(sets) > run.MaxLabelSets {
		l.add("tasks", run.FaultOverLimit, "the tasks have %d different sets of requires.labels and resources; the limit is %d", len(sets), run.MaxLabelSets)
	}
	switch {
	case len(s.Tasks) > run.MaxTasks:
		l.add("tasks", run.FaultOverLimit, "there are %d tasks; the limit is %d", len(s.Tasks), run.MaxTasks)
	case total > run.MaxTasks:
		l.add("tasks", run.FaultOverLimit, "there are more than %d tasks after expansion; that is the limit", run.MaxTasks)
	}
}

// labelSet identifies what a task asks of its executor: the labels and the resources.
func labelSet(t *run.TaskSpec) string {
	labels := t.Resources.Labels()
	if t.Requires != nil {
		maps.Copy(labels, t.Requires.Labels)
	}
	return run.LabelsText(labels)
}

func checkMatrix(l *faultList, name string, t *run.TaskSpec) {
	p := run.Path("tasks").Key(name).Key("matrix")
	before := len(l.faults)
	length := len(name) + len("[]") + 2*len(t.Matrix.Axes) - 1 // and an equals sign each, and commas
	for axis, values := range sorted(l, t.Matrix.Axes) {
		at := p.Key(axis)
		checkAxisName(l, at, axis)
		if len(values) == 0 {
			l.add(at, run.FaultRequired, "an axis has at least one value")
		}
		longest := 0
		seen := make(map[string]string, len(values))
		for i, v := range items(l, values) {
			display := run.ShownValue(v)
			longest = max(longest, len(display))
			switch before, ok := seen[display]; {
			case ok && before == v:
				l.add(at.Index(i), run.FaultDuplicate, "%s is there already", quote(v))
			case ok:
				l.add(at.Index(i), run.FaultDuplicate, "%s and %s would give tasks of one name: both are shown as %s", quote(before), quote(v), quote(display))
			}
			seen[display] = v
			checkText(l, at.Index(i), v)
			checkNoOutput(l, at.Index(i), v, "a matrix is expanded before any task has run")
		}
		length += len(axis) + longest
	}
	if len(t.Matrix.Axes) > 0 && length > run.MaxExpandedName {
		l.add(p, run.FaultOverLimit, "the longest name would have %d bytes with its suffix; the limit is %d", length, run.MaxExpandedName)
	}
	checkInclude(l, p.Key(run.MatrixInclude), t.Matrix)
	checkExclude(l, p.Key(run.MatrixExclude), t.Matrix)
	if irregular(t.Matrix) && len(l.faults) == before && greatestWidth(t) <= run.MaxTasks {
		checkCombinations(l, p, name, t.Matrix)
	}
}

func checkAxisName(l *faultList, p run.Path, axis string) {
	switch {
	case !variablePattern.MatchString(axis):
		l.add(p, run.FaultBadFormat, "%s is not the name of an axis: letters, digits and underscores, no digit first", quote(axis))
	case strings.HasPrefix(axis, run.VariablePrefix):
		l.add(p, run.FaultReserved, "names that begin with %s are reserved", run.VariablePrefix)
	}
}

// checkInclude checks the items that add combinations and values.
func checkInclude(l *faultList, p run.Path, m run.Matrix) {
	if len(m.Include) > run.MaxMatrixItems {
		l.add(p, run.FaultOverLimit, "there are %d items; the limit is %d", len(m.Include), run.MaxMatrixItems)
		return
	}
	for i, item := range items(l, m.Include) {
		at := p.Index(i)
		if len(item) == 0 {
			l.add(at, run.FaultRequired, "the item is empty")
		}
		for key, value := range sorted(l, item) {
			checkAxisName(l, at.Key(key), key)
			checkText(l, at.Key(key), value)
			checkNoOutput(l, at.Key(key), value, "a matrix is expanded before any task has run")
			if len(value) > run.MaxExpandedName {
				l.add(at.Key(key), run.FaultOverLimit, "the value has %d bytes; the limit is %d", len(value), run.MaxExpandedName)
			}
		}
	}
	if n := addedKeys(m); n > run.MaxMatrixKeys {
		l.add(p, run.FaultOverLimit, "the items add %d keys to the axes; the limit is %d", n, run.MaxMatrixKeys)
	}
}

// checkExclude checks the items that remove combinations: each names values of
// axes.
func checkExclude(l *faultList, p run.Path, m run.Matrix) {
	if len(m.Exclude) > run.MaxMatrixItems {
		l.add(p, run.FaultOverLimit, "there are %d items; the limit is %d", len(m.Exclude), run.MaxMatrixItems)
		return
	}
	axes := slices.Sorted(maps.Keys(m.Axes))
	for i, item := range items(l, m.Exclude) {
		at := p.Index(i)
		if len(item) == 0 {
			l.add(at, run.FaultRequired, "the item is empty, and would remove all combinations")
		}
		for key, value := range sorted(l, item) {
			switch values, known := m.Axes[key]; {
			case !known:
				l.add(at.Key(key), run.FaultBadValue, "%s is not an axis of the matrix%s", quote(key), l.didYouMean(key, axes))
			case !slices.Contains(values, value):
				l.add(at.Key(key), run.FaultBadValue, "%s is none of the values of the axis %s%s", quote(value), key, l.didYouMean(value, values))
			}
		}
	}
}

// checkCombinations checks the names of the tasks of a matrix with include or
// exclude.
func checkCombinations(l *faultList, p run.Path, name string, m run.Matrix) {
	all := combinations(m)
	if len(all) == 0 {
		l.add(p.Key(run.MatrixExclude), run.FaultContradiction, "the items remove all combinations")
	}
	seen := make(map[string]bool, len(all))
	for _, c := range items(l, all) {
		at := p.Key(run.MatrixInclude).Index(max(c.include, 0))
		if n := len(name) + len("[]") + len(c.name); n > run.MaxExpandedName {
			l.add(at, run.FaultOverLimit, "the name would have %d bytes with its suffix; the limit is %d", n, run.MaxExpandedName)
		}
		if seen[c.name] {
			l.add(at, run.FaultDuplicate, "there is already a task %s", quote(name+"["+c.name+"]"))
		}
		seen[c.name] = true
	}
}

// checkGraph checks the dependencies.
func checkGraph(l *faultList, s *run.Spec) {
	names := slices.Sorted(maps.Keys(s.Tasks))
	total := 0
	for _, name := range names {
		if t := s.Tasks[name]; t != nil {
			total += len(t.Depends)
		}
	}
	if total > run.MaxDependencies {
		l.add("tasks", run.FaultOverLimit, "there are %d dependencies; the limit is %d", total, run.MaxDependencies)
		return
	}
	for name, t := range sorted(l, s.Tasks) {
		if t != nil {
			checkDepends(l, name, t, s, names)
		}
	}
	checkCycles(l, s, names)
}

func checkDepends(l *faultList, name string, t *run.TaskSpec, s *run.Spec, names []string) {
	seen := make(map[string]bool, len(t.Depends))
	depends := run.Path("tasks").Key(name).Key("depends")
	for i, d := range items(l, t.Depends) {
		p := depends.Index(i)
		_, known := s.Tasks[d.Task]
		switch {
		case d.Task == "":
			l.add(p.Key("task"), run.FaultRequired, "a dependency names a task")
		case d.Task == name:
			l.add(p.Key("task"), run.FaultCycle, "the task depends on itself")
		case !known:
			l.add(p.Key("task"), run.FaultUnknownDependency, "there is no task %s%s", quote(d.Task), l.hint(d.Task, s, names))
		case seen[d.Task]:
			l.add(p.Key("task"), run.FaultDuplicate, "the task depends on %s already", quote(d.Task))
		default:
			checkFinallyDepend(l, p.Key("task"), t, s.Tasks[d.Task], d.Task)
		}
		seen[d.Task] = true
		if d.On != nil && len(d.On) == 0 {
			l.add(p.Key("on"), run.FaultRequired, "the list is empty; leave it out for success")
		}
		for j, on := range items(l, d.On) {
			checkOne(l, p.Key("on").Index(j), on, d.On[:j], run.OnSuccess, run.OnFailure, run.OnSkipped, run.OnStopped)
		}
	}
}

func (l *faultList) hint(task string, s *run.Spec, names []string) string {
	if base, _, ok := strings.Cut(task, "["); ok {
		if _, known := s.Tasks[base]; known {
			return "; depend on " + quote(base) + ", which is all of its expansion"
		}
	}
	return l.didYouMean(task, names)
}

// checkCycles reports the cycles that a depth-first walk in the order of the
// names finds. checkDepends has already reported tasks that depend on
// themselves.
func checkCycles(l *faultList, s *run.Spec, names []string) {
	const (
		entered = 1
		left    = 2
	)
	state := make(map[string]int, len(names))
	found := 0
	var path []string
	next := make(map[string]int) // the dependency of each task on the path to follow next
	for _, start := range names {
		if state[start] != 0 {
			continue
		}
		state[start], path = entered, append(path, start)
		for len(path) > 0 && found < maxCycles && !l.stop() {
			name := path[len(path)-1]
			t, i := s.Tasks[name], next[name]
			if t == nil || i >= len(t.Depends) {
				state[name], path = left, path[:len(path)-1]
				continue
			}
			next[name] = i + 1
			dep := t.Depends[i].Task
			_, known := s.Tasks[dep]
			switch {
			case !known || dep == name || state[dep] == left:
			case state[dep] == entered:
				found++
				p := run.Path("tasks").Key(name).Key("depends").Index(i).Key("task")
				l.add(p, run.FaultCycle, "the tasks depend on each other: %s", cycle(path[slices.Index(path, dep):]))
			default:
				state[dep], path = entered, append(path, dep)
			}
		}
	}
}

// cycle formats a cycle of tasks of which each depends on the next.
func cycle(names []string) string {
	names = append(slices.Clone(names), names[0])
	if len(names) > maxCycleNames {
		names = slices.Concat(names[:maxCycleNames/2], []string{"..."}, names[len(names)-maxCycleNames/2:])
	}
	return strings.Join(names, " -> ")
}
