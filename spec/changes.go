package spec

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	"github.com/drover-run/drover/run"
)

// Expanded is a specification without references to inputs, and its expansion.
type Expanded struct {
	Spec *run.Spec
	Expansion
}

// Changes compares a specification with an earlier one. It returns the tasks of the new one by
// number, with a reason to run if a result of the task of the same name in the earlier one may
// not be its result:
//
//   - run.RestartNew: there is no such task.
//   - run.RestartChanged: a key of the task differs, or one that holds for all tasks, such as the
//     environment or the value of a secret, or if it has a condition, one that conditions can
//     read. The detail is the path of the first such key.
//   - run.RestartDependency: a task on which it depends expands to other tasks. The detail is
//     its name.
//
// Tasks are compared after the expansion: another value of an axis changes no other task, and
// with the pools that were chosen for them. Keys
// that steer the run (its name, annotations, priority, change groups and timeouts) change none
// without a condition.
func Changes(before, after Expanded) []run.RestartTask {
	c := &comparison{before: before, after: after, old: make(map[string]run.ExpandedTask, len(before.Tasks))}
	for _, t := range before.Tasks {
		c.old[t.Name] = t
	}
	c.widths = changedExpansions(before.Expansion, after.Expansion)
	c.forAll, c.forConditions = c.changedForAll(), c.changedForConditions()
	c.variables = changedVariables("", before.Spec.Environment, after.Spec.Environment)
	nodes := make(map[string]nodeChange, len(after.Plan.Nodes))
	for _, n := range after.Plan.Nodes {
		nodes[n.Name] = c.node(n.Name)
	}
	tasks := make([]run.RestartTask, len(after.Tasks))
	for i, t := range after.Tasks {
		tasks[i] = c.task(t, nodes[t.Spec])
		tasks[i].Name = t.Name
	}
	return tasks
}

// comparison is a comparison of two specifications. What holds for many tasks is compared once: a
// specification can have thousands of tasks, and of variables.
type comparison struct {
	before, after Expanded
	old           map[string]run.ExpandedTask // by name
	widths        map[string]bool             // tasks of the specification that expand to other tasks
	forAll        run.Path                    // of the first key that is changed for all tasks
	forConditions run.Path                    // of the first key that is changed for all conditions
	variables     []variable                  // of the run that are changed
}

// changedExpansions returns the tasks of a specification that expand to other tasks than before.
func changedExpansions(before, after Expansion) map[string]bool {
	changed := make(map[string]bool)
	was := make(map[string]bool, len(before.Tasks))
	for _, t := range before.Tasks {
		was[t.Name] = true
	}
	for _, t := range after.Tasks {
		changed[t.Spec] = changed[t.Spec] || !was[t.Name]
		delete(was, t.Name)
	}
	for _, t := range before.Tasks {
		changed[t.Spec] = changed[t.Spec] || was[t.Name]
	}
	return changed
}

// revealed returns the values of the secrets of a specification, to compare them.
func revealed(s *run.Spec) map[string]string {
	values := make(map[string]string, len(s.Secrets))
	for name, secret := range s.Secrets {
		values[name] = secret.Reveal()
	}
	return values
}

func changed(path run.Path) run.RestartTask {
	return run.RestartTask{Reason: run.RestartChanged, Detail: string(path)}
}

// changedForAll returns the path of the first key that is changed for all tasks, "" if none is.
// Variables are compared for each task, which may set them itself.
func (c *comparison) changedForAll() run.Path {
	was, is := c.before.Spec, c.after.Spec
	return firstDifference("", []difference{
		{"group", was.Group, is.Group}, // of caches and pools, and of those who may read the logs
		{"untrusted", was.Untrusted, is.Untrusted},
		{"setup_errors", was.SetupErrors, is.SetupErrors}, // a run with some ends at once
		{"registries", was.Registries, is.Registries},
		{"secrets", revealed(was), revealed(is)},
		{"secrets_from", was.SecretsFrom, is.SecretsFrom},
		{"secret_files", slices.Sorted(slices.Values(was.SecretFiles)), slices.Sorted(slices.Values(is.SecretFiles))},
	})
}

// node compares a task of the specification, for all tasks to which it expands.
func (c *comparison) node(name string) nodeChange {
	was, is := c.before.Spec.Tasks[name], c.after.Spec.Tasks[name]
	if was == nil {
		return nodeChange{all: run.RestartTask{Reason: run.RestartNew}}
	}
	if c.forAll != "" {
		return nodeChange{all: changed(c.forAll)}
	}
	path := run.Path("tasks").Key(name)
	if !maps.Equal(masks(was), masks(is)) {
		return nodeChange{all: changed(path.Key("depends"))}
	}
	for _, d := range is.Depends {
		if c.widths[d.Task] {
			return nodeChange{all: run.RestartTask{Reason: run.RestartDependency, Detail: d.Task}}
		}
	}
	if p := firstDifference(path, []difference{{"", keys(was), keys(is)}}); p != "" {
		return nodeChange{all: changed(p)}
	}
	if c.forConditions != "" && conditional(is) {
		return nodeChange{all: changed(c.forConditions)}
	}
	own := changedVariables(path, was.Environment, is.Environment)
	axes := len(is.Matrix.Axes) + addedKeys(is.Matrix) // as many variables a task of the expansion can override
	for _, v := range c.variables {
		if len(own) > axes {
			break
		}
		_, had := was.Environment[v.name]
		if _, has := is.Environment[v.name]; !had && !has {
			own = append(own, v)
		}
	}
	return nodeChange{variables: c.effective(own, was, is)}
}

// effective leaves out variables that a task sets itself, or no longer sets, to the value that it
// has from the run otherwise.
func (c *comparison) effective(variables []variable, was, is *run.TaskSpec) []variable {
	value := func(s *run.Spec, t *run.TaskSpec, name string) (string, bool) {
		if v, ok := t.Environment[name]; ok {
			return v, true
		}
		v, ok := s.Environment[name]
		return v, ok
	}
	var out []variable
	for _, v := range variables {
		before, had := value(c.before.Spec, was, v.name)
		if after, has := value(c.after.Spec, is, v.name); had != has || before != after {
			out = append(out, v)
		}
	}
	return out
}

// nodeChange is what is changed of all tasks of a node.
type nodeChange struct {
	all run.RestartTask
	// variables are those of the environment that differ, which the axes of a task can override,
	// or at least more of them than it has axes.
	variables []variable
}

// variable is a variable of an environment.
type variable struct {
	name string
	path run.Path
}

// changedVariables compares the environment at a path.
func changedVariables(at run.Path, was, is map[string]string) []variable {
	if at = at.Key("environment"); maps.Equal(was, is) {
		return nil
	}
	var out []variable
	for _, name := range slices.Sorted(maps.Keys(merged(was, is))) {
		before, had := was[name]
		if after, has := is[name]; had != has || before != after {
			out = append(out, variable{name, at.Key(name)})
		}
	}
	return out
}

// conditional reports whether a task or one of its steps has a condition.
func conditional(t *run.TaskSpec) bool {
	return t.If != "" || slices.ContainsFunc(t.Steps, func(s run.Step) bool { return s.If != "" })
}

// changedForConditions returns the path of the first changed key that conditions can read, beside
// variables and tasks: see condition.Values.
func (c *comparison) changedForConditions() run.Path {
	was, is := c.before.Spec, c.after.Spec
	return firstDifference("", []difference{
		{"name", was.Name, is.Name}, {"inputs", was.Inputs, is.Inputs}, {"input_values", was.InputValues, is.InputValues}, {"annotations", was.Annotations, is.Annotations},
	})
}

// masks returns the dependencies of a task, whose order and short forms make no difference.
func masks(t *run.TaskSpec) map[string]run.OnMask {
	of := make(map[string]run.OnMask, len(t.Depends))
	for _, d := range t.Depends {
		of[d.Task] |= run.Mask(d.On).OrDefault()
	}
	return of
}

// keys returns a task without the keys that are compared apart.
func keys(t *run.TaskSpec) run.TaskSpec {
	out := *t
	out.Matrix, out.Environment, out.Depends = run.Matrix{}, nil, nil
	return out
}

// task compares one task of the expansion. of is the result for its node.
func (c *comparison) task(t run.ExpandedTask, of nodeChange) run.RestartTask {
	if of.all.Reason == run.RestartNew {
		return of.all
	}
	old, ok := c.old[t.Name]
	if !ok {
		return run.RestartTask{Reason: run.RestartNew}
	}
	if of.all.Reason != "" {
		return of.all
	}
	if old.Pool != t.Pool {
		return changed(run.Path("tasks").Key(t.Spec).Key("pool"))
	}
	if !maps.Equal(old.Axis, t.Axis) { // an item of include adds to a combination, whose name stays
		return changed(run.Path("tasks").Key(t.Spec).Key("matrix"))
	}
	for _, v := range of.variables {
		if _, overridden := t.Axis[v.name]; !overridden {
			return changed(v.path)
		}
	}
	return run.RestartTask{}
}

func merged[V any](a, b map[string]V) map[string]V {
	out := make(map[string]V, len(a)+len(b))
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}

// difference is a pair of values, at a key of a path. The key "" is the path itself.
type difference struct {
	key     string
	was, is any
}

// firstDifference returns the path of the first of some keys that differ, as deep as it can,
// "" if none does. Values are compared by their JSON, which is how they are stored.
func firstDifference(under run.Path, pairs []difference) run.Path {
	for _, d := range pairs {
		path := under
		if d.key != "" {
			path = path.Key(d.key)
		}
		was, err := generic(d.was)
		if err != nil {
			return path // it cannot be compared
		}
		is, err := generic(d.is)
		if err != nil {
			return path
		}
		if p, differs := differsAt(path, orEmpty(was, is), orEmpty(is, was)); differs {
			return p
		}
	}
	return ""
}

func differsAt(path run.Path, was, is any) (run.Path, bool) {
	if reflect.DeepEqual(was, is) {
		return "", false
	}
	switch before := was.(type) {
	case map[string]any:
		after, ok := is.(map[string]any)
		if !ok {
			return path, true
		}
		for _, key := range slices.Sorted(maps.Keys(merged(before, after))) {
			if p, differs := differsAt(path.Key(key), before[key], after[key]); differs {
				return p, true
			}
		}
	case []any:
		after, ok := is.([]any)
		for i := 0; ok && i < max(len(before), len(after)); i++ {
			if i >= len(before) || i >= len(after) {
				return path.Index(i), true
			}
			if p, differs := differsAt(path.Index(i), before[i], after[i]); differs {
				return p, true
			}
		}
	}
	return path, true
}

// orEmpty returns a value, or if it is absent, an empty one like the other.
func orEmpty(v, other any) any {
	if v != nil {
		return v
	}
	switch other.(type) {
	case map[string]any:
		return map[string]any{}
	case []any:
		return []any{}
	}
	return nil
}

// generic returns a value as its JSON has it.
func generic(v any) (any, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var out any
	err = json.Unmarshal(data, &out)
	return out, err
}
