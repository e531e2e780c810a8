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
	for name, t := range sorted(l, s.Tasks) {
		total += width(t)
		if t == nil || len(s.Tasks) > run.MaxTasks {
			continue
		}
		checkMatrix(l, name, t)
	}
	switch {
	case len(s.Tasks) > run.MaxTasks:
		l.add("tasks", run.FaultOverLimit, "there are %d tasks; the limit is %d", len(s.Tasks), run.MaxTasks)
	case total > run.MaxTasks:
		l.add("tasks", run.FaultOverLimit, "there are more than %d tasks after expansion; that is the limit", run.MaxTasks)
	}
}

func checkMatrix(l *faultList, name string, t *run.TaskSpec) {
	p := run.Path("tasks").Key(name).Key("matrix")
	length := len(name) + len("[]") + 2*len(t.Matrix) - 1 // and an equals sign each, and commas
	for axis, values := range sorted(l, t.Matrix) {
		at := p.Key(axis)
		switch {
		case !variablePattern.MatchString(axis):
			l.add(at, run.FaultBadFormat, "%s is not the name of an axis: letters, digits and underscores, no digit first", quote(axis))
		case strings.HasPrefix(axis, run.VariablePrefix):
			l.add(at, run.FaultReserved, "names that begin with %s are reserved", run.VariablePrefix)
		}
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
	if len(t.Matrix) > 0 && length > run.MaxExpandedName {
		l.add(p, run.FaultOverLimit, "the longest name would have %d bytes with its suffix; the limit is %d", length, run.MaxExpandedName)
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
