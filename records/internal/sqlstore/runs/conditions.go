package runs

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/drover-run/drover/records/internal/sqlstore/rows"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec/condition"
)

// decider evaluates the conditions of tasks in one transaction: once for each
// task, when it is first queued or first waits for approvals or for slots. The decision is part
// of the row of the task, so all its attempts and dispatches follow it.
type decider struct {
	t *sqldb.Tx
	r *rows.Run
	// tasks are the tasks that the transaction changes, by number: the database does
	// not have their new states yet.
	tasks map[int]*rows.Task
	names map[string]*rows.Task // likewise, by name, and the tasks that were read; nil for those that do not exist
	work  *deciding
	spent uint64 // in the transaction
	begun bool   // the transaction has evaluated conditions of a task

	// The fields below are filled in on first use.
	details *runDetails
	nodes   map[int]*nodeConditions
	outputs map[string]taskOutputs // by task
	decided map[string][]int       // numbers of tasks by their decision
}

type runDetails struct {
	header      run.Spec
	inputs      map[string]any
	env         layer
	secrets     map[string]bool // by name
	annotations map[string]string
}

type taskOutputs struct {
	values map[string]string
	bytes  int
}

// stepCondition is the condition of a step, and the variables of the step.
type stepCondition struct {
	*condition.Condition // nil for none

	env layer
}

// nodeConditions has the compiled conditions of a node.
type nodeConditions struct {
	spec  *run.TaskSpec
	fault string               // why one of them cannot be compiled; then the task fails
	task  *condition.Condition // nil for none
	steps []stepCondition
	env   layer // of the task
	// compiling reports that some conditions are not compiled yet.
	compiling bool
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

func newDecider(t *sqldb.Tx, r *rows.Run, tasks map[int]*rows.Task, work *deciding) *decider {
	names := make(map[string]*rows.Task, len(tasks))
	for _, x := range tasks {
		names[x.Name] = x
	}
	return &decider{
		t: t, r: r, tasks: tasks, names: names, work: work,
		nodes: make(map[int]*nodeConditions), outputs: make(map[string]taskOutputs), decided: make(map[string][]int),
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
	begins := c.Status == run.StatusQueued || c.Status == run.StatusWaitingApproval || c.Status == run.StatusWaitingChangeGroup
	open := x.Status == run.StatusNotStarted || x.Status == run.StatusWaitingApproval || x.Status == run.StatusWaitingChangeGroup
	if x.Conditions != rows.ConditionsOpen || !begins || !open {
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
	if d.spent >= d.work.limit {
		return d.later(x), nil
	}
	e := evaluation{d: d, x: x, outputs: make(map[string]bool)}
	if err := sqldb.Unmarshal(x.Axis, &e.axis); err != nil {
		return verdict{}, err
	}
	var err error
	e.n, err = d.node(ctx, x, e.axis)
	switch {
	case err != nil:
		return verdict{}, err
	case e.n.fault != "":
		return verdict{status: run.StatusFailed, reason: e.n.fault}, nil
	case e.n.compiling:
		return d.later(x), nil
	}
	// The only task of a transaction may take all that a task may take.
	e.mayTake = taskCost
	if d.begun || !d.work.patient {
		e.mayTake = d.work.limit - min(d.work.limit, d.spent)
	}
	d.begun = true
	out, v, err := e.decide(ctx)
	if err != nil || v != (verdict{}) {
		return v, err
	}
	if out == nil {
		return verdict{}, nil // each item decides
	}
	if x.Conditions, err = sqldb.Marshal(out); err != nil {
		return verdict{}, err
	}
	d.decided[x.Conditions] = append(d.decided[x.Conditions], x.Number)
	return verdict{}, nil
}

// later leaves a task for another transaction of the call.
func (d *decider) later(x *rows.Task) verdict {
	d.work.left = append(d.work.left, x.Number)
	return verdict{unavailable: errTooMany}
}

// errTooMany is why conditions are not evaluated yet.
var errTooMany = run.Errorf(run.CodeUnavailable, "too many conditions are to be evaluated at once")

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
	if err := d.readDetails(ctx); err != nil {
		return nil, err
	}
	var text string
	if err := d.t.QueryRow(ctx, `SELECT spec FROM task_specs WHERE run_id = ? AND node = ?`, d.r.ID, x.Node).Scan(&text); err != nil {
		return nil, err
	}
	n := &nodeConditions{spec: new(run.TaskSpec)}
	if err := sqldb.Unmarshal(text, n.spec); err != nil {
		return nil, err
	}
	d.spent += costOfRow + costOfBytes(len(text))
	scope := condition.ScopeOf(n.spec.Foreach.List != "", len(axis) > 0)
	n.task, n.env = d.compile(n, n.spec.If, scope), d.details.layer(n.spec.Environment)
	n.steps = make([]stepCondition, len(n.spec.Steps))
	for i, s := range n.spec.Steps {
		if s.If != "" {
			n.steps[i] = stepCondition{d.compile(n, s.If, scope), d.details.layer(s.Environment)}
		}
	}
	d.nodes[x.Node] = n
	return n, nil
}

// compile compiles a condition of a node, nil for none. It was valid when the run was
// created, but another version of Drover may have created the run.
func (d *decider) compile(n *nodeConditions, text string, scope condition.Scope) *condition.Condition {
	if text == "" {
		return nil
	}
	c, cost := d.work.compiled(conditionText{text, scope}, d.spent)
	d.spent += cost
	switch {
	case c == nil:
		n.compiling = true
		return nil
	case len(c.faults) > 0:
		n.fault = "if: " + condition.Shown(text) + ": " + c.faults[0].In(text)
	}
	return c.condition
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
	d.spent += costOfBytes(len(header) + len(secrets) + len(annotations))
	var out runDetails
	var names []string
	if err := errors.Join(sqldb.Unmarshal(header, &out.header), sqldb.Unmarshal(secrets, &names), sqldb.Unmarshal(annotations, &out.annotations)); err != nil {
		return err
	}
	out.secrets = make(map[string]bool, len(names))
	for _, name := range names {
		out.secrets[name] = true
	}
	out.env, out.inputs = out.layer(out.header.Environment), out.header.TypedInputs()
	d.details = &out
	return nil
}

// decideLate evaluates conditions that are still open when an executor claims the
// task: a control worker of an older version, which does not know conditions, has
// queued it. late says why the task must fail, "" if it may begin.
func decideLate(ctx context.Context, t *sqldb.Tx, r *rows.Run, x *rows.Task, work *deciding) (late string, err error) {
	if x.Conditions != rows.ConditionsOpen {
		return "", nil
	}
	d := newDecider(t, r, nil, work)
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
