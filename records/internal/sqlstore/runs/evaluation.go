package runs

import (
	"context"
	"fmt"
	"maps"
	"strconv"

	"github.com/drover-run/drover/records/internal/sqlstore/rows"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec/condition"
)

// evaluation evaluates the conditions of one task.
type evaluation struct {
	d       *decider
	x       *rows.Task
	n       *nodeConditions
	axis    map[string]string
	taken   uint64
	mayTake uint64 // taskCost, or what the transaction has left
	// vars and whole are the variables of the expansion, and those of the task without
	// its steps; whole is filled in on first use.
	vars  layer
	whole map[string]string
	// outputs names the tasks whose outputs the conditions have read.
	outputs map[string]bool
}

// decide returns the decision, nil if only the items of a list have one, or the
// verdict.
func (e *evaluation) decide(ctx context.Context) (*decision, verdict, error) {
	of := partAll
	if e.n.spec.Foreach.List != "" {
		of = partItem
		if e.x.Name == e.x.SpecName {
			of = partList
		}
	}
	e.vars = e.d.details.layer(e.axis)
	switch c := e.n.task; {
	case c == nil || of == partItem && !c.Refs().Item:
	case of == partList && c.Refs().Item:
		return nil, verdict{}, nil
	default:
		v, holds, err := e.holds(ctx, c, nil, "if: ")
		if err != nil || v != (verdict{}) {
			return nil, v, err
		}
		if !holds {
			return nil, verdict{status: run.StatusSkipped, reason: "if: " + condition.Shown(c.Text()) + " is false"}, nil
		}
	}
	var out decision
	for i, c := range e.n.steps {
		if c.Condition == nil || of == partList {
			continue
		}
		v, holds, err := e.holds(ctx, c.Condition, c.env, fmt.Sprintf("if of step %d: ", i+1))
		if err != nil || v != (verdict{}) {
			return nil, v, err
		}
		if !holds {
			out.Skip = append(out.Skip, i)
		}
	}
	return &out, verdict{}, nil
}

// take counts work for the task. The transaction does not repeat some of it.
func (e *evaluation) take(cost uint64, again bool) {
	e.taken += cost
	if !again {
		e.d.spent += cost
	}
}

// holds evaluates a condition. The verdict is not zero if it has no value.
func (e *evaluation) holds(ctx context.Context, c *condition.Condition, step layer, where string) (verdict, bool, error) {
	values, err := e.values(ctx, c, step)
	switch {
	case run.CodeOf(err) == run.CodeUnavailable:
		return verdict{unavailable: err}, false, nil
	case err != nil:
		return verdict{}, false, err
	}
	if v := e.exceeded(); v != (verdict{}) {
		return v, false, nil
	}
	holds, cost, err := c.Holds(ctx, values)
	e.take(costOfEvaluation+cost, false)
	switch {
	case ctx.Err() != nil:
		return verdict{}, false, context.Cause(ctx)
	case err != nil:
		return verdict{status: run.StatusFailed, reason: where + condition.Shown(c.Text()) + ": " + err.Error()}, false, nil //nolint:nilerr // a verdict
	}
	return e.exceeded(), holds, nil
}

// exceeded returns the verdict on a task whose conditions have taken more than they
// may.
func (e *evaluation) exceeded() verdict {
	switch {
	case e.taken > taskCost:
		return verdict{status: run.StatusFailed, reason: "if: the conditions of the task and of its steps together take too long"}
	case e.taken > e.mayTake:
		return e.d.later(e.x)
	}
	return verdict{}
}

func (e *evaluation) values(ctx context.Context, c *condition.Condition, step layer) (condition.Values, error) {
	details, r := e.d.details, e.d.r
	v := condition.Values{
		Annotations: details.annotations,
		Inputs:      details.inputs,
		Run:         condition.Run{ID: string(r.ID), Name: r.Name, Group: r.Group, Counter: r.Counter},
		Env:         e.environment(c.Refs(), step),
	}
	if e.n.spec.Foreach.List != "" {
		v.Item = e.axis[run.VariableItem]
		v.ItemIndex, _ = strconv.Atoi(e.axis[run.VariableItemIndex]) // of a task without an item: 0
	} else {
		v.Matrix = e.axis
	}
	var err error
	v.Tasks, err = e.tasks(ctx, c.Refs().Tasks)
	return v, err
}

// layer holds variables as conditions can read them: without secrets.
type layer map[string]variable

type variable struct {
	value string
	// hidden says that the value has outputs in it: conditions read neither this
	// variable nor the ones that it overrides.
	hidden bool
}

func (r *runDetails) layer(environment map[string]string) layer {
	l := make(layer, len(environment))
	for name, value := range environment {
		if !r.secrets[name] {
			l[name] = variable{value, run.HasOutputRef(value)}
		}
	}
	return l
}

// into overrides variables.
func (l layer) into(env map[string]string) {
	for name, v := range l {
		if v.hidden {
			delete(env, name)
		} else {
			env[name] = v.value
		}
	}
}

// environment returns the variables that a condition reads.
func (e *evaluation) environment(refs *condition.Refs, step layer) map[string]string {
	if refs.WholeEnv {
		return e.wholeEnvironment(step)
	}
	env := make(map[string]string, len(refs.Env))
	for _, ref := range refs.Env {
		for _, l := range e.layers(step) {
			if v, ok := l[ref.Name]; ok {
				if !v.hidden {
					env[ref.Name] = v.value
				}
				break
			}
		}
	}
	return env
}

// layers returns the variables, the last that override others first.
func (e *evaluation) layers(step layer) [4]layer {
	vars := e.vars
	if e.n.spec.Foreach.List != "" {
		vars = nil // conditions read item and item_index
	}
	return [...]layer{step, vars, e.n.env, e.d.details.env}
}

func (e *evaluation) wholeEnvironment(step layer) map[string]string {
	layers := e.layers(step)
	if e.whole == nil {
		e.whole = make(map[string]string)
		for i := len(layers) - 1; i > 0; i-- {
			layers[i].into(e.whole)
		}
		e.take(costOfVariables(len(e.whole)), false)
	}
	if len(step) == 0 {
		return e.whole
	}
	env := maps.Clone(e.whole)
	step.into(env)
	e.take(costOfVariables(len(env)), false)
	return env
}

// tasks returns the tasks that a condition names. A task that does not exist, for
// example because a list was shorter, is left out: reading it is then an error of
// the expression.
func (e *evaluation) tasks(ctx context.Context, refs []condition.Ref) (map[string]condition.Task, error) {
	tasks := make(map[string]condition.Task)
	if err := e.d.readTasks(ctx, refs); err != nil {
		return nil, err
	}
	for _, ref := range refs {
		known, ok := tasks[ref.Name]
		if ok && (known.Outputs != nil || !ref.Outputs) {
			continue
		}
		x := e.d.names[ref.Name]
		if x == nil {
			continue
		}
		known.Status = string(x.Status)
		if ref.Outputs {
			stored, again, err := e.d.readOutputs(ctx, x)
			if err != nil {
				return nil, err
			}
			known.Outputs = stored.values
			if !e.outputs[x.Name] {
				e.outputs[x.Name] = true
				e.take(costOfRow+costOfBytes(stored.bytes), again)
			}
		}
		tasks[ref.Name] = known
	}
	return tasks, nil
}

// readTasks reads the tasks that references name, unless they are known.
func (d *decider) readTasks(ctx context.Context, refs []condition.Ref) error {
	var unknown []string
	for _, ref := range refs {
		if _, ok := d.names[ref.Name]; !ok {
			d.names[ref.Name] = nil
			unknown = append(unknown, ref.Name)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	d.spent += costOfRow * uint64(len(unknown))
	tasks, err := rows.QueryTasks(ctx, d.t, `run_id = ? AND name IN (`+sqldb.InList(len(unknown))+`)`,
		append([]any{d.r.ID}, sqldb.InListArgs(unknown)...)...)
	for i := range tasks {
		d.names[tasks[i].Name] = &tasks[i]
	}
	return err
}

// readOutputs returns the outputs of a task. again says that the transaction had read
// them already.
func (d *decider) readOutputs(ctx context.Context, x *rows.Task) (out taskOutputs, again bool, err error) {
	if out, again = d.outputs[x.Name]; again {
		return out, true, nil
	}
	out.values = map[string]string{}
	if x.Attempt > 0 {
		if err := checkComplete(ctx, d.t, d.r.ID, x); err != nil {
			return out, false, err
		}
		stored, err := storedOutputs(ctx, d.t, d.r.ID, x)
		if err != nil {
			return out, false, err
		}
		maps.Copy(out.values, stored)
	}
	for key, value := range out.values {
		out.bytes += len(key) + len(value)
	}
	d.outputs[x.Name] = out
	return out, false, nil
}
