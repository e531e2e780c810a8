package runs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/drover-run/drover/records/internal/sqlstore/rows"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec/condition"
)

// decider evaluates the conditions of tasks in one transaction: once for each
// task, when it is first queued or first waits for approvals. The decision is part
// of the row of the task, so all its attempts and dispatches follow it.
type decider struct {
	t *sqldb.Tx
	r *rows.Run
	// tasks are the tasks that the transaction changes, by number: the database does
	// not have their new states yet.
	tasks map[int]*rows.Task
	names map[string]*rows.Task // likewise, by name
	spent time.Duration         // on evaluations

	// The fields below are filled in on first use.
	details *runDetails
	nodes   map[int]*nodeConditions
	outputs map[string]map[string]string // by task
	decided map[string][]int             // numbers of tasks by their decision
}

type runDetails struct {
	header      run.Spec
	secrets     []string
	annotations map[string]string
}

// nodeConditions has the compiled conditions of a node.
type nodeConditions struct {
	spec  *run.TaskSpec
	fault string                 // why one of them cannot be compiled; then the task fails
	task  *condition.Condition   // nil for none
	steps []*condition.Condition // by step, nil for none
}

// decision is the result of the conditions of a task that may begin.
type decision struct {
	Skip []int `json:"skip,omitempty"` // indexes of the steps to skip
}

// verdict is what the conditions of a task result in. The zero value lets the task
// begin.
type verdict struct {
	status run.Status // skipped, or failed if the conditions have no value; else ""
	reason string
	// unavailable says why the conditions cannot be evaluated yet; nil if they
	// were.
	unavailable error
}

// part says which conditions of a task are evaluated.
type part int

const (
	partAll part = iota
	// partList has only the condition of a foreach task, if that does not depend on
	// the item.
	partList
	// partItem has all conditions of a task that was created from a list. The
	// condition of the task itself was evaluated before if it does not depend on the
	// item.
	partItem
)

// maxEvaluation is how long a transaction evaluates conditions: other transactions
// may wait for it. The tasks that are left come with a later one.
const maxEvaluation = 500 * time.Millisecond

func newDecider(t *sqldb.Tx, r *rows.Run, tasks map[int]*rows.Task) *decider {
	return &decider{
		t: t, r: r, tasks: tasks, nodes: make(map[int]*nodeConditions), outputs: make(map[string]map[string]string), decided: make(map[string][]int),
	}
}

// hasConditions reports whether a task or one of its steps has a condition.
func hasConditions(t *run.TaskSpec) bool {
	return t.If != "" || slices.ContainsFunc(t.Steps, func(s run.Step) bool { return s.If != "" })
}

// conditionsOf returns the value of the column conditions of a new task.
func conditionsOf(t *run.TaskSpec) string {
	if hasConditions(t) {
		return rows.ConditionsOpen
	}
	return ""
}

// change returns the change of a task with its conditions evaluated, if it is the
// one that lets the task begin. ok is false if the change must be left out for now.
func (d *decider) change(ctx context.Context, x *rows.Task, c *run.TaskChange) (_ *run.TaskChange, ok bool, err error) {
	begins := c.Status == run.StatusQueued || c.Status == run.StatusWaitingApproval
	if x.Conditions != rows.ConditionsOpen || !begins || x.Status != run.StatusNotStarted && x.Status != run.StatusWaitingApproval {
		return c, true, nil
	}
	v, err := d.decide(ctx, x)
	switch {
	case err != nil:
		return nil, false, err
	case v.unavailable != nil:
		return nil, false, nil //nolint:nilerr // the workflow asks again
	case v.status != "":
		return &run.TaskChange{Task: c.Task, Attempt: x.Attempt, Dispatch: x.Dispatch, Status: v.status, Reason: v.reason}, true, nil
	}
	return c, true, nil
}

// decide evaluates the open conditions of a task. save stores the decision.
func (d *decider) decide(ctx context.Context, x *rows.Task) (verdict, error) {
	if d.spent > maxEvaluation {
		return verdict{unavailable: run.Errorf(run.CodeUnavailable, "too many conditions are to be evaluated at once")}, nil
	}
	defer func(began time.Time) { d.spent += time.Since(began) }(time.Now())
	var axis map[string]string
	if err := sqldb.Unmarshal(x.Axis, &axis); err != nil {
		return verdict{}, err
	}
	n, err := d.node(ctx, x, axis)
	switch {
	case err != nil:
		return verdict{}, err
	case n.fault != "":
		return verdict{status: run.StatusFailed, reason: n.fault}, nil
	}
	of := partAll
	if n.spec.Foreach.List != "" {
		of = partItem
		if x.Name == x.SpecName {
			of = partList
		}
	}
	var out decision
	switch {
	case n.task == nil || of == partItem && !n.task.Refs().Item:
	case of == partList && n.task.Refs().Item:
		return verdict{}, nil // each item decides
	default:
		v, holds, err := d.holds(ctx, x, n, n.task, nil, "if: ")
		if err != nil || v != (verdict{}) {
			return v, err
		}
		if !holds {
			return verdict{status: run.StatusSkipped, reason: "if: " + condition.Shown(n.task.Text()) + " is false"}, nil
		}
	}
	for i, c := range n.steps {
		if c == nil || of == partList {
			continue
		}
		v, holds, err := d.holds(ctx, x, n, c, n.spec.Steps[i].Environment, fmt.Sprintf("if of step %d: ", i+1))
		if err != nil || v != (verdict{}) {
			return v, err
		}
		if !holds {
			out.Skip = append(out.Skip, i)
		}
	}
	if x.Conditions, err = sqldb.Marshal(out); err != nil {
		return verdict{}, err
	}
	d.decided[x.Conditions] = append(d.decided[x.Conditions], x.Number)
	return verdict{}, nil
}

// save stores the decisions.
func (d *decider) save(ctx context.Context) error {
	for _, text := range slices.Sorted(maps.Keys(d.decided)) {
		if err := sqldb.InChunks(d.decided[text], func(placeholders string, args []any) error {
			_, err := d.t.Exec(ctx, `UPDATE tasks SET conditions = ? WHERE run_id = ? AND number IN `+placeholders, append([]any{text, d.r.ID}, args...)...)
			return err
		}); err != nil {
			return err
		}
	}
	clear(d.decided)
	return nil
}

// node reads and compiles the conditions of the node of a task. axis are the
// variables of its expansion.
func (d *decider) node(ctx context.Context, x *rows.Task, axis map[string]string) (*nodeConditions, error) {
	if n := d.nodes[x.Node]; n != nil {
		return n, nil
	}
	text, err := rows.TaskSpec(ctx, d.t, d.r.ID, x.Node)
	if err != nil {
		return nil, err
	}
	n := &nodeConditions{spec: text, steps: make([]*condition.Condition, len(text.Steps))}
	scope := condition.ScopeOf(text.Foreach.List != "", len(axis) > 0)
	n.task = n.compile(text.If, scope)
	for i, s := range text.Steps {
		n.steps[i] = n.compile(s.If, scope)
	}
	d.nodes[x.Node] = n
	return n, nil
}

// compile compiles a condition, nil for none. It was valid when the run was created,
// but another version of Drover may have created the run.
func (n *nodeConditions) compile(text string, scope condition.Scope) *condition.Condition {
	if text == "" {
		return nil
	}
	c, faults := condition.Compile(text, scope)
	if len(faults) > 0 {
		n.fault = "if: " + condition.Shown(text) + ": " + faults[0].In(text)
	}
	return c
}

// holds evaluates a condition. The verdict is not zero if it has no value.
func (d *decider) holds(
	ctx context.Context, x *rows.Task, n *nodeConditions, c *condition.Condition, step map[string]string, where string,
) (verdict, bool, error) {
	values, err := d.values(ctx, x, n, c, step)
	switch {
	case run.CodeOf(err) == run.CodeUnavailable:
		return verdict{unavailable: err}, false, nil
	case err != nil:
		return verdict{}, false, err
	}
	holds, err := c.Holds(ctx, values)
	switch {
	case ctx.Err() != nil:
		return verdict{}, false, context.Cause(ctx)
	case err != nil:
		return verdict{status: run.StatusFailed, reason: where + condition.Shown(c.Text()) + ": " + err.Error()}, false, nil //nolint:nilerr // a verdict
	}
	return verdict{}, holds, nil
}

func (d *decider) values(ctx context.Context, x *rows.Task, n *nodeConditions, c *condition.Condition, step map[string]string) (condition.Values, error) {
	if err := d.readDetails(ctx); err != nil {
		return condition.Values{}, err
	}
	var axis map[string]string
	if err := sqldb.Unmarshal(x.Axis, &axis); err != nil {
		return condition.Values{}, err
	}
	v := condition.Values{
		Annotations: d.details.annotations,
		Inputs:      d.details.header.TypedInputs(),
		Run:         condition.Run{ID: string(d.r.ID), Name: d.r.Name, Group: d.r.Group, Counter: d.r.Counter},
		Tasks:       make(map[string]condition.Task),
	}
	if n.spec.Foreach.List != "" {
		v.Item = axis[run.VariableItem]
		v.ItemIndex, _ = strconv.Atoi(axis[run.VariableItemIndex]) // of a task without an item: 0
		axis = nil
	} else {
		v.Matrix = axis
	}
	v.Env = environmentOf(d.details, n.spec.Environment, axis, step)
	for _, ref := range c.Refs().Tasks {
		if err := d.readTask(ctx, ref, v.Tasks); err != nil {
			return condition.Values{}, err
		}
	}
	return v, nil
}

// environmentOf returns the variables that conditions can read: no secrets, and no
// values with outputs in them.
func environmentOf(d *runDetails, environments ...map[string]string) map[string]string {
	env := maps.Clone(d.header.Environment)
	if env == nil {
		env = make(map[string]string)
	}
	for _, more := range environments {
		maps.Copy(env, more)
	}
	maps.DeleteFunc(env, func(_, value string) bool { return run.HasOutputRef(value) })
	for _, name := range d.secrets {
		delete(env, name)
	}
	return env
}

// readDetails reads what all conditions of the run may use.
func (d *decider) readDetails(ctx context.Context) error {
	if d.details != nil {
		return nil
	}
	var header, secrets, annotations string
	if err := d.t.QueryRow(ctx, `SELECT header, secret_names, annotations FROM run_details WHERE run_id = ?`, d.r.ID).
		Scan(&header, &secrets, &annotations); err != nil {
		return err
	}
	var out runDetails
	if err := sqldb.Unmarshal(header, &out.header); err != nil {
		return err
	}
	if err := sqldb.Unmarshal(secrets, &out.secrets); err != nil {
		return err
	}
	if err := sqldb.Unmarshal(annotations, &out.annotations); err != nil {
		return err
	}
	d.details = &out
	return nil
}

// readTask adds the task that a reference names. A task that does not exist, for
// example because a list was shorter, is left out: reading it is then an error of
// the expression.
func (d *decider) readTask(ctx context.Context, ref condition.Ref, into map[string]condition.Task) error {
	known, ok := into[ref.Name]
	if ok && (known.Outputs != nil || !ref.Outputs) {
		return nil
	}
	x, err := d.taskNamed(ctx, ref.Name)
	switch {
	case run.CodeOf(err) == run.CodeNotFound:
		return nil
	case err != nil:
		return err
	}
	known.Status = string(x.Status)
	if ref.Outputs {
		if known.Outputs, err = d.readOutputs(ctx, x); err != nil {
			return err
		}
	}
	into[ref.Name] = known
	return nil
}

func (d *decider) taskNamed(ctx context.Context, name string) (*rows.Task, error) {
	if d.names == nil {
		d.names = make(map[string]*rows.Task, len(d.tasks))
		for _, x := range d.tasks {
			d.names[x.Name] = x
		}
	}
	if x := d.names[name]; x != nil {
		return x, nil
	}
	return rows.TaskNamed(ctx, d.t, d.r.ID, name)
}

func (d *decider) readOutputs(ctx context.Context, x *rows.Task) (map[string]string, error) {
	if values, ok := d.outputs[x.Name]; ok {
		return values, nil
	}
	values := map[string]string{}
	if x.Attempt > 0 {
		if err := checkComplete(ctx, d.t, d.r.ID, x); err != nil {
			return nil, err
		}
		stored, err := storedOutputs(ctx, d.t, d.r.ID, x)
		if err != nil {
			return nil, err
		}
		maps.Copy(values, stored)
	}
	d.outputs[x.Name] = values
	return values, nil
}

// decideLate evaluates conditions that are still open when an executor claims the
// task: a control worker of an older version, which does not know conditions, has
// queued it. late says why the task must fail, "" if it may begin.
func decideLate(ctx context.Context, t *sqldb.Tx, r *rows.Run, x *rows.Task) (late string, err error) {
	if x.Conditions != rows.ConditionsOpen {
		return "", nil
	}
	d := newDecider(t, r, nil)
	v, err := d.decide(ctx, x)
	switch {
	case err != nil:
		return "", err
	case v.unavailable != nil:
		return "", v.unavailable
	case v.status == run.StatusSkipped:
		return v.reason + ", and the control worker that queued the task is too old to skip it", nil
	case v.status != "":
		return v.reason, nil
	}
	return "", d.save(ctx)
}

// skipSteps marks the steps that the conditions of a task skip.
func skipSteps(d *run.Definition, x *rows.Task) error {
	if x.Conditions == "" || x.Conditions == rows.ConditionsOpen {
		return nil
	}
	var of decision
	err := sqldb.Unmarshal(x.Conditions, &of)
	for _, i := range of.Skip {
		if i < len(d.Steps) {
			d.Steps[i].Skip = true
		}
	}
	return err
}
