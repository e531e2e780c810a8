package run

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// checkNoOutput refuses references to outputs where none can be known.
func checkNoOutput(l *faultList, path Path, text, why string) {
	if outputStartPattern.MatchString(text) {
		l.add(path, CodeNotSupported, "%s", why)
	}
}

// checkOutputs checks what refers to outputs: each must be of one task that has
// ended when it is needed. sound says that the dependencies have no fault.
func checkOutputs(l *faultList, s *Spec, sound bool) {
	for _, name := range slices.Sorted(maps.Keys(s.Environment)) {
		checkNoOutput(l, Path("environment").Key(name), s.Environment[name],
			"outputs may stand in the environment of tasks and steps, not in that of the run")
	}
	c := outputCheck{faultList: l, spec: s, sound: sound}
	for _, name := range slices.Sorted(maps.Keys(s.Tasks)) {
		t := s.Tasks[name]
		if t == nil {
			continue
		}
		p := Path("tasks").Key(name)
		c.environment(name, p.Key("environment"), t.Environment)
		c.foreach(name, p.Key("foreach"), t)
		for i, service := range t.Services {
			for _, variable := range slices.Sorted(maps.Keys(service.Environment)) {
				checkNoOutput(l, p.Key("services").Index(i).Key("environment").Key(variable), service.Environment[variable],
					"outputs may stand in the environment of tasks and steps, not in that of services")
			}
		}
		for i, step := range t.Steps {
			c.environment(name, p.Key("steps").Index(i).Key("environment"), step.Environment)
		}
	}
}

// outputCheck checks references.
type outputCheck struct {
	*faultList
	spec  *Spec
	sound bool
	above *lineage // once it is needed
}

func (c *outputCheck) environment(task string, p Path, env map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		c.text(task, p.Key(name), env[name])
	}
}

// foreach checks what names the list of which tasks are made.
func (c *outputCheck) foreach(task string, p Path, t *TaskSpec) {
	if t.Foreach == "" {
		return
	}
	if len(t.Matrix) > 0 {
		c.add(p, FaultContradiction, "a task has a matrix or a foreach, not both")
	}
	checkText(c.faultList, p, t.Foreach)
	before := len(c.faults)
	if refs := c.text(task, p, t.Foreach); len(refs) == 0 && len(c.faults) == before {
		c.add(p, FaultBadValue, `foreach takes a list that an earlier task puts out, {{ output "task" "key" }}; a matrix takes one that is known`)
	}
}

// text checks what a text of a task refers to, and returns it.
func (c *outputCheck) text(task string, p Path, text string) []OutputRef {
	refs, err := OutputRefs(text)
	if err != nil {
		c.add(p, FaultBadFormat, "%s", err)
		return nil
	}
	for _, ref := range refs {
		c.ref(task, p, ref)
	}
	return refs
}

func (c *outputCheck) ref(task string, p Path, ref OutputRef) {
	base, suffix, _ := strings.Cut(ref.Task, "[")
	of, known := c.spec.Tasks[base]
	switch {
	case !known:
		c.add(p, FaultUnknownDependency, "there is no task %s whose output it could be%s", brief(ref.Task), c.meant(base, slices.Sorted(maps.Keys(c.spec.Tasks))))
		return
	case !ValidOutputKey(ref.Key):
		c.add(p, FaultBadFormat, "%s is not the name of an output: letters, digits, underscores, dashes and dots, beginning with a letter", brief(ref.Key))
	case of != nil && base != task && !oneTask(of, base, suffix):
		c.add(p, FaultBadValue, "%s is not one task: name one of its expansion, as it is shown", brief(ref.Task))
	}
	if base == task || c.sound && !c.dependsOn(task, base) {
		c.add(p, FaultUnknownDependency, "the task does not depend on %s, directly or through others, so that task need not have ended", brief(base))
	}
}

// oneTask reports whether a task is named whole, if it is not expanded, or by
// the name of one of its expansion.
func oneTask(t *TaskSpec, name, suffix string) bool {
	switch {
	case t.Foreach != "":
		index, ok := strings.CutSuffix(suffix, "]")
		i, err := strconv.Atoi(index)
		return ok && err == nil && ItemName(name, i) == name+"["+suffix && i >= 0 && i < MaxForeach
	case len(t.Matrix) == 0:
		return suffix == ""
	case suffix == "" || width(t) > MaxTasks:
		return false
	}
	n := node(name, &TaskSpec{Matrix: t.Matrix}, nil)
	for i := range n.Width {
		if n.taskName(i) == name+"["+suffix {
			return true
		}
	}
	return false
}

// dependsOn reports whether a task depends on another, over any number of
// others.
func (c *outputCheck) dependsOn(task, other string) bool {
	if c.above == nil {
		c.above = newLineage(c.spec)
	}
	return c.above.has(task, other)
}

// lineage has what each task depends on, over any number of others: a bit for
// each task.
type lineage struct {
	index map[string]int
	above [][]uint64
}

const wordBits = 64

// newLineage returns the lineage of tasks whose dependencies have no fault.
func newLineage(s *Spec) *lineage {
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
