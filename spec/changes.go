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
//     environment or the value of a secret. The detail is the path of the first such key.
//   - run.RestartDependency: a task on which it depends expands to other tasks. The detail is
//     its name.
//
// Tasks are compared after the expansion: another value of an axis changes no other task. Keys
// that steer the run (its name, annotations, priority, change groups and timeouts) change none.
func Changes(before, after Expanded) []run.RestartTask {
	c := &comparison{before: before, after: after, old: make(map[string]run.ExpandedTask, len(before.Tasks))}
	c.was, c.is = namesByTask(before.Expansion), namesByTask(after.Expansion)
	for _, t := range before.Tasks {
		c.old[t.Name] = t
	}
	all := c.changedForAll()
	nodes := make(map[string]run.RestartTask, len(after.Plan.Nodes))
	for _, n := range after.Plan.Nodes {
		nodes[n.Name] = c.node(n.Name, all)
	}
	tasks := make([]run.RestartTask, len(after.Tasks))
	for i, t := range after.Tasks {
		tasks[i] = c.task(t, nodes[t.Spec])
		tasks[i].Name = t.Name
	}
	return tasks
}

// comparison is a comparison of two specifications.
type comparison struct {
	before, after Expanded
	old           map[string]run.ExpandedTask // by name
	was, is       map[string][]string         // the names of the tasks of each task of the specification
}

func namesByTask(x Expansion) map[string][]string {
	names := make(map[string][]string, len(x.Plan.Nodes))
	for _, t := range x.Tasks {
		names[t.Spec] = append(names[t.Spec], t.Name)
	}
	for _, list := range names {
		slices.Sort(list)
	}
	return names
}

func changed(path run.Path) run.RestartTask {
	return run.RestartTask{Reason: run.RestartChanged, Detail: string(path)}
}

// changedForAll returns the path of the first key that is changed for all tasks, "" if none is.
// Variables and values of secrets are compared for each task, which may set them itself.
func (c *comparison) changedForAll() run.Path {
	was, is := c.before.Spec, c.after.Spec
	return firstDifference("", []difference{
		{"group", was.Group, is.Group}, // of caches and pools, and of those who may read the logs
		{"untrusted", was.Untrusted, is.Untrusted},
		{"registries", was.Registries, is.Registries},
		{"secrets_from", was.SecretsFrom, is.SecretsFrom},
		{"secret_files", slices.Sorted(slices.Values(was.SecretFiles)), slices.Sorted(slices.Values(is.SecretFiles))},
	})
}

// node compares a task of the specification, for all tasks to which it expands.
func (c *comparison) node(name string, all run.Path) run.RestartTask {
	was, is := c.before.Spec.Tasks[name], c.after.Spec.Tasks[name]
	if was == nil {
		return run.RestartTask{Reason: run.RestartNew}
	}
	if all != "" {
		return changed(all)
	}
	path := run.Path("tasks").Key(name)
	if !maps.Equal(masks(was), masks(is)) {
		return changed(path.Key("depends"))
	}
	for _, d := range is.Depends {
		if !slices.Equal(c.was[d.Task], c.is[d.Task]) {
			return run.RestartTask{Reason: run.RestartDependency, Detail: d.Task}
		}
	}
	if p := firstDifference(path, []difference{{"", keys(was), keys(is)}}); p != "" {
		return changed(p)
	}
	return run.RestartTask{}
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

// task compares one task of the expansion. ofNode is the result for all tasks of its node.
func (c *comparison) task(t run.ExpandedTask, ofNode run.RestartTask) run.RestartTask {
	if ofNode.Reason == run.RestartNew {
		return ofNode
	}
	old, ok := c.old[t.Name]
	if !ok {
		return run.RestartTask{Reason: run.RestartNew}
	}
	if ofNode.Reason != "" {
		return ofNode
	}
	path := run.Path("tasks").Key(t.Spec)
	if !maps.Equal(old.Axis, t.Axis) { // an item of include adds to a combination, whose name stays
		return changed(path.Key("matrix"))
	}
	was, is := variables(c.before.Spec, old), variables(c.after.Spec, t)
	for _, name := range slices.Sorted(maps.Keys(merged(was, is))) {
		before, had := was[name]
		after, has := is[name]
		switch {
		case had == has && before.value == after.value:
		case has:
			return changed(after.path)
		default:
			return changed(before.path)
		}
	}
	return run.RestartTask{}
}

func merged[V any](a, b map[string]V) map[string]V {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// variable is a variable of a task's environment, and where the specification sets it.
type variable struct {
	value string
	path  run.Path
}

// variables returns the environment of a task, in the order of run.Definition.Environment.
func variables(s *run.Spec, t run.ExpandedTask) map[string]variable {
	path := run.Path("tasks").Key(t.Spec)
	out := make(map[string]variable)
	for name, value := range s.Environment {
		out[name] = variable{value, run.Path("environment").Key(name)}
	}
	for name, value := range s.Tasks[t.Spec].Environment {
		out[name] = variable{value, path.Key("environment").Key(name)}
	}
	for name, value := range t.Axis {
		out[name] = variable{value, path.Key("matrix").Key(name)}
	}
	for name, value := range s.Secrets {
		out[name] = variable{value.Reveal(), run.Path("secrets").Key(name)}
	}
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
