package spec

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-run/drover/run"
)

// checkNoOutput rejects references to outputs where outputs are not allowed.
func checkNoOutput(l *faultList, path run.Path, text, cause string) {
	if run.HasOutputRef(text) {
		l.add(path, run.CodeNotSupported, "%s", cause)
	}
}

// checkOutputs checks references to outputs: each must name one task that has
// ended when the output is needed. sound says that the dependencies have no
// fault.
func checkOutputs(l *faultList, s *run.Spec, sound bool) {
	for name, value := range sorted(l, s.Environment) {
		checkNoOutput(l, run.Path("environment").Key(name), value,
			"outputs are allowed in the environment of tasks and steps, not in that of the run")
	}
	c := outputCheck{faultList: l, spec: s, sound: sound, matrices: make(map[string]*matrixNames)}
	for name, t := range sorted(l, s.Tasks) {
		if t == nil {
			continue
		}
		p := run.Path("tasks").Key(name)
		c.environment(name, p.Key("environment"), t.Environment)
		c.foreach(name, p.Key("foreach"), t)
		for i, service := range items(l, t.Services) {
			for variable, value := range sorted(l, service.Environment) {
				checkNoOutput(l, p.Key("services").Index(i).Key("environment").Key(variable), value,
					"outputs are allowed in the environment of tasks and steps, not in that of services")
			}
		}
		for i, step := range items(l, t.Steps) {
			c.environment(name, p.Key("steps").Index(i).Key("environment"), step.Environment)
		}
	}
}

// outputCheck checks references to outputs.
type outputCheck struct {
	*faultList
	spec  *run.Spec
	sound bool
	// The fields below are filled in on first use.
	names    []string // of all tasks, sorted
	above    *lineage
	matrices map[string]*matrixNames // by task
}

// matrixNames has the parts of the names of an expansion.
type matrixNames struct {
	axes  []string        // sorted
	picks map[string]bool // AXIS=value, as in task names
	names map[string]bool // of a matrix with include or exclude: the suffixes; else nil
}

func (c *outputCheck) environment(task string, p run.Path, env map[string]string) {
	for name, value := range sorted(c.faultList, env) {
		c.text(task, p.Key(name), value)
	}
}

// foreach checks the reference to the list of a foreach.
func (c *outputCheck) foreach(task string, p run.Path, t *run.TaskSpec) {
	if t.Foreach == "" {
		return
	}
	if !t.Matrix.IsZero() {
		c.add(p, run.FaultContradiction, "a task has a matrix or a foreach, not both")
	}
	checkText(c.faultList, p, t.Foreach)
	before := len(c.faults)
	if refs := c.text(task, p, t.Foreach); len(refs) == 0 && len(c.faults) == before {
		c.add(p, run.FaultBadValue, `foreach needs an output of an earlier task, {{ output "task" "key" }}; for a known list use a matrix`)
	}
}

// text checks the references in a text of a task, and returns them.
func (c *outputCheck) text(task string, p run.Path, text string) []run.OutputRef {
	refs, err := run.OutputRefs(text)
	if err != nil {
		c.add(p, run.FaultBadFormat, "%s", err)
		return nil
	}
	for _, ref := range items(c.faultList, refs) {
		c.ref(task, p, ref)
	}
	return refs
}

func (c *outputCheck) ref(task string, p run.Path, ref run.OutputRef) {
	base, suffix, _ := strings.Cut(ref.Task, "[")
	target, known := c.spec.Tasks[base]
	switch {
	case !known:
		c.add(p, run.FaultUnknownDependency, "there is no task %s%s", quote(ref.Task), c.didYouMean(base, c.taskNames()))
		return
	case !run.ValidOutputKey(ref.Key):
		c.add(p, run.FaultBadFormat, "%s is not the name of an output: letters, digits, underscores, dashes and dots, beginning with a letter or underscore", quote(ref.Key))
	case target != nil && base != task && !c.oneTask(target, base, suffix):
		c.add(p, run.FaultBadValue, "%s is an expansion: name one of its tasks in full", quote(ref.Task))
	}
	if base == task || c.sound && !c.dependsOn(task, base) {
		c.add(p, run.FaultUnknownDependency, "the task does not depend on %s, directly or through others, so its outputs may not exist yet", quote(base))
	}
}

// oneTask reports whether a reference names exactly one task: a task without an
// expansion, or one task of an expansion.
func (c *outputCheck) oneTask(t *run.TaskSpec, name, suffix string) bool {
	switch {
	case t.Foreach != "":
		index, ok := strings.CutSuffix(suffix, "]")
		i, err := strconv.Atoi(index)
		return ok && err == nil && run.ItemName(name, i) == name+"["+suffix && i >= 0 && i < run.MaxForeach
	case t.Matrix.IsZero():
		return suffix == ""
	case suffix == "" || greatestWidth(t) > run.MaxTasks:
		return false
	case !bounded(t.Matrix):
		return true // checkMatrix has reported it
	}
	rest, ok := strings.CutSuffix(suffix, "]")
	m := c.matrix(name, t)
	if m.names != nil {
		return ok && m.names[rest]
	}
	for i, axis := range m.axes {
		if !ok {
			return false
		}
		// Neither an axis nor a value has a comma in task names.
		pick, others, more := strings.Cut(rest, ",")
		ok = strings.HasPrefix(pick, axis+"=") && m.picks[pick] && more == (i < len(m.axes)-1)
		rest = others
	}
	return ok
}

func (c *outputCheck) matrix(name string, t *run.TaskSpec) *matrixNames {
	m := c.matrices[name]
	if m == nil {
		m = &matrixNames{axes: slices.Sorted(maps.Keys(t.Matrix.Axes)), picks: make(map[string]bool)}
		if irregular(t.Matrix) {
			m.names = make(map[string]bool)
			for _, combination := range combinations(t.Matrix) {
				m.names[combination.name] = true
			}
		}
		for axis, values := range t.Matrix.Axes {
			for _, v := range values {
				m.picks[axis+"="+run.ShownValue(v)] = true
			}
		}
		c.matrices[name] = m
	}
	return m
}

func (c *outputCheck) taskNames() []string {
	if c.names == nil {
		c.names = slices.Sorted(maps.Keys(c.spec.Tasks))
	}
	return c.names
}

// dependsOn reports whether a task depends on another, directly or through
// others.
func (c *outputCheck) dependsOn(task, other string) bool {
	if c.above == nil {
		c.above = newLineage(c.spec)
	}
	return c.above.has(task, other)
}

// lineage has the ancestors of each task, as one bit for each task.
type lineage struct {
	index map[string]int
	above [][]uint64
}

const wordBits = 64

// newLineage returns the lineage of tasks whose dependencies have no fault.
func newLineage(s *run.Spec) *lineage {
	names := inOrder(s)
	l := &lineage{index: make(map[string]int, len(names)), above: make([][]uint64, len(names))}
	words := (len(names) + wordBits - 1) / wordBits
	for i, name := range names {
		l.index[name] = i
		bits := make([]uint64, words)
		for _, d := range s.Tasks[name].Depends {
			at := l.index[d.Task]
			bits[at/wordBits] |= 1 << (at % wordBits)
			for w, more := range l.above[at] {
				bits[w] |= more
			}
		}
		l.above[i] = bits
	}
	return l
}

func (l *lineage) has(task, other string) bool {
	at := l.index[other]
	return l.above[l.index[task]][at/wordBits]&(1<<(at%wordBits)) != 0
}
