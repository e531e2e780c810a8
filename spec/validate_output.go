package spec

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec/condition"
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
		c.conditions(name, p, t)
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
	compiled map[conditionKey]compiledCondition
	// conditionText is how many bytes were compiled, and tooManyConditions says that
	// no more are.
	conditionText     int
	tooManyConditions bool

	secrets map[string]bool
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
	if t.Foreach.List == "" {
		return
	}
	if !t.Matrix.IsZero() {
		c.add(p, run.FaultContradiction, "a task has a matrix or a foreach, not both")
	}
	if n := t.Foreach.Min; n < 0 || n > run.MaxForeach {
		c.add(p.Key("min"), run.FaultOutOfRange, "it is %d; it must be 0 to %d", n, run.MaxForeach)
	}
	checkText(c.faultList, p, t.Foreach.List)
	before := len(c.faults)
	if refs := c.text(task, p, t.Foreach.List); len(refs) == 0 && len(c.faults) == before {
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
	case t.Foreach.List != "":
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
	ordinary := make([]uint64, words)
	for at := range finallyLast(s, names) {
		ordinary[at/wordBits] |= 1 << (at % wordBits)
	}
	for i, name := range names {
		l.index[name] = i
		bits := make([]uint64, words)
		if s.Tasks[name].Finally { // it begins when all of these have ended
			copy(bits, ordinary)
		}
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

type conditionKey struct {
	text  string
	scope condition.Scope
}

type compiledCondition struct {
	condition *condition.Condition // nil if there are faults
	faults    []condition.Fault
}

// conditions checks the conditions of a task and of its steps.
func (c *outputCheck) conditions(task string, p run.Path, t *run.TaskSpec) {
	c.condition(task, t, p.Key("if"), t.If, nil)
	for i, step := range items(c.faultList, t.Steps) {
		c.condition(task, t, p.Key("steps").Index(i).Key("if"), step.If, step.Environment)
	}
}

// condition checks a condition. env is the environment of the step, nil for a task.
func (c *outputCheck) condition(task string, t *run.TaskSpec, p run.Path, text string, env map[string]string) {
	if text == "" {
		return
	}
	axes := axesOf(t)
	compiled, ok := c.compile(p, conditionKey{text: text, scope: condition.ScopeOf(t.Foreach.List != "", len(axes) > 0)})
	if !ok {
		return
	}
	for _, f := range compiled.faults {
		c.add(p, run.FaultBadFormat, "%s", f.In(text))
	}
	if compiled.condition == nil {
		return
	}
	add := func(code run.Code, f condition.Fault) { c.add(p, code, "%s", f.In(text)) }
	refs := compiled.condition.Refs()
	for _, ref := range refs.Tasks {
		c.conditionTask(task, ref, add)
	}
	for _, ref := range refs.Axes {
		if !axes[ref.Name] {
			add(run.FaultBadValue, ref.Fault("the matrix has no axis %s%s", quote(ref.Name), c.didYouMean(ref.Name, slices.Sorted(maps.Keys(axes)))))
		}
	}
	for _, ref := range refs.Inputs {
		if _, known := c.spec.Inputs[ref.Name]; !known {
			add(run.FaultBadValue, ref.Fault("there is no input %s%s", quote(ref.Name), c.didYouMean(ref.Name, slices.Sorted(maps.Keys(c.spec.Inputs)))))
		}
	}
	c.conditionEnvironment(t, axes, env, refs.Env, add)
}

// compile compiles a condition, once for all tasks that have it. ok is false if the
// run has too many different conditions.
func (c *outputCheck) compile(p run.Path, key conditionKey) (compiled compiledCondition, ok bool) {
	if compiled, ok = c.compiled[key]; ok {
		return compiled, true
	}
	if c.tooManyConditions {
		return compiled, false // reported already
	}
	c.conditionText += len(key.text)
	switch {
	case len(c.compiled) == run.MaxConditions:
		c.add(p, run.FaultOverLimit, "the run has more than %d different conditions", run.MaxConditions)
		c.tooManyConditions = true
		return compiled, false
	case c.conditionText > run.MaxConditionText:
		c.add(p, run.FaultOverLimit, "the different conditions of the run have more than %d bytes together", run.MaxConditionText)
		c.tooManyConditions = true
		return compiled, false
	case c.compiled == nil:
		c.compiled = make(map[conditionKey]compiledCondition)
	}
	compiled.condition, compiled.faults = condition.Compile(key.text, key.scope)
	c.compiled[key] = compiled
	return compiled, true
}

// conditionTask checks that a condition reads a task that ends before its own task
// begins.
func (c *outputCheck) conditionTask(task string, ref condition.Ref, add func(run.Code, condition.Fault)) {
	base, suffix, _ := strings.Cut(ref.Name, "[")
	target, known := c.spec.Tasks[base]
	switch {
	case !known:
		add(run.FaultUnknownDependency, ref.Fault("there is no task %s%s", quote(ref.Name), c.didYouMean(base, c.taskNames())))
		return
	case base == task:
		add(run.FaultUnknownDependency, ref.Fault("the condition of a task cannot read the task itself"))
		return
	case target != nil && !c.oneTask(target, base, suffix):
		add(run.FaultBadValue, ref.Fault("%s is an expansion: name one of its tasks in full, as in tasks[\"%s[...]\"]", quote(ref.Name), base))
	}
	if c.sound && !c.dependsOn(task, base) {
		add(run.FaultUnknownDependency, ref.Fault("the task does not depend on %s, directly or through others, so that may not have ended yet", quote(base)))
	}
}

// conditionEnvironment checks the variables of the environment that a condition
// reads.
func (c *outputCheck) conditionEnvironment(
	t *run.TaskSpec, axes map[string]bool, step map[string]string, refs []condition.Ref, add func(run.Code, condition.Fault),
) {
	tested := make(map[string]bool)
	for _, ref := range refs {
		tested[ref.Name] = tested[ref.Name] || ref.Tested
	}
	for _, ref := range refs {
		value, known := lookUp(ref.Name, step, t.Environment, c.spec.Environment)
		switch {
		case c.isSecret(ref.Name):
			add(run.FaultBadValue, ref.Fault("%s is a secret, and conditions cannot read secrets", quote(ref.Name)))
		case axes[ref.Name]:
		case known && run.HasOutputRef(value):
			add(run.FaultBadValue, ref.Fault("the value of %s has an output in it; read the output itself, as tasks.NAME.outputs.KEY", quote(ref.Name)))
		case !known && strings.HasPrefix(ref.Name, run.VariablePrefix):
			add(run.FaultBadValue, ref.Fault("Drover sets %s when the task begins; conditions have run, matrix and item instead", quote(ref.Name)))
		case !known && !tested[ref.Name]:
			add(run.FaultBadValue, ref.Fault("neither the run nor the task sets the variable %s; has(env.NAME) tests for one that only some runs set", quote(ref.Name)))
		}
	}
}

// axesOf returns the axes that conditions of a task can read, those of include among
// them.
func axesOf(t *run.TaskSpec) map[string]bool {
	axes := make(map[string]bool, len(t.Matrix.Axes))
	for name := range t.Matrix.Axes {
		axes[name] = true
	}
	for _, item := range t.Matrix.Include[:min(len(t.Matrix.Include), run.MaxMatrixItems)] {
		for name := range item {
			axes[name] = true
		}
	}
	return axes
}

// lookUp returns the value of a variable from the first environment that has it.
func lookUp(name string, environments ...map[string]string) (string, bool) {
	for _, env := range environments {
		if value, ok := env[name]; ok {
			return value, true
		}
	}
	return "", false
}

func (c *outputCheck) isSecret(name string) bool {
	if c.secrets == nil {
		c.secrets = make(map[string]bool)
		for _, name := range c.spec.SecretNames() {
			c.secrets[name] = true
		}
	}
	return c.secrets[name]
}
