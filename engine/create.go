package engine

import (
	"context"
	"slices"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/inputs"
	"github.com/drover-run/drover/spec"
)

// Create implements run.Service.
func (e *Engine) Create(ctx context.Context, req run.CreateRequest) (run.Run, error) {
	return e.create(ctx, req, req.Subject, idempotencyKey(req.Subject, req.IdempotencyKey, createDigest(req.Spec)))
}

// create creates a run, once for each key that is not zero. secretsBy is the subject that
// gave the values of its secrets.
func (e *Engine) create(ctx context.Context, req run.CreateRequest, secretsBy string, key records.IdempotencyKey) (run.Run, error) {
	x, err := e.expand(ctx, req.Spec)
	if err != nil {
		return run.Run{}, err
	}
	created, err := e.store.CreateRun(ctx, records.NewRun{
		Spec: x.spec, Source: x.source, Plan: x.Plan, Tasks: x.Tasks, Actor: req.Subject, SecretsBy: secretsBy, Token: req.Token, IdempotencyKey: key,
	})
	if err != nil {
		return run.Run{}, err
	}
	return e.finishCreate(ctx, created, req.Subject)
}

// finishCreate counts a created run in the metrics, and explains its state.
func (e *Engine) finishCreate(ctx context.Context, r run.Run, subject string) (run.Run, error) {
	if !r.Replayed {
		e.metrics.created.Inc()
		e.logAction(ctx, r.ID, run.Action{Kind: run.ActionCreate, Actor: subject})
	}
	return e.explain(ctx, r)
}

// expansion is a specification that is ready for execution.
type expansion struct {
	spec.Expansion

	spec   *run.Spec // with its references to inputs replaced
	source *run.Spec // as it was written, if it has references to inputs
}

// expand validates a specification, replaces its references to inputs, and
// expands it to tasks.
func (e *Engine) expand(ctx context.Context, of *run.Spec) (expansion, error) {
	faults, err := spec.ValidateRunContext(ctx, of)
	if err != nil {
		return expansion{}, err
	}
	faults = append(faults, e.checkSecrets(of)...)
	var x expansion
	if len(faults) == 0 {
		var replaced bool
		if x.spec, replaced, faults = inputs.Resolve(of, inputs.MissingFault); replaced {
			source := *of
			source.InputValues = x.spec.InputValues // also those of defaults, for a restart
			x.source = &source
		}
	}
	if len(faults) == 0 {
		pools, err := poolsFor(ctx, e.store, x.spec)
		if err != nil {
			return expansion{}, err
		}
		x.Expansion, faults = spec.Expand(x.spec, func(name string, t *run.TaskSpec) (string, error) {
			pool, faults := choosePool(name, t, pools)
			if len(faults) > 0 {
				return "", run.InvalidError("no pool fits", faults)
			}
			return pool, nil
		})
		setLabels(&x, pools)
	}
	if len(faults) > 0 {
		return expansion{}, faultsError(faults)
	}
	return x, nil
}

// poolRegistry is the part of the records from which the pools of a run are chosen.
type poolRegistry interface {
	ChoosePools(ctx context.Context) ([]run.Pool, []run.Executor, error)
	ListFleets(ctx context.Context) ([]run.Fleet, error)
}

// poolsFor returns the pools that the group of a run may use, from which those of the
// tasks are chosen, with the labels of their executors and fleets if a task requires
// labels or resources.
func poolsFor(ctx context.Context, registry poolRegistry, s *run.Spec) ([]run.Pool, error) {
	pools, executors, err := registry.ChoosePools(ctx)
	if err != nil {
		return nil, err
	}
	pools = slices.DeleteFunc(pools, func(p run.Pool) bool { return !p.Allows(s.Group) })
	required := false
	for _, t := range s.Tasks {
		required = required || t.Requires != nil && len(t.Requires.Labels) > 0 || t.Resources != (run.Resources{})
	}
	if !required {
		return pools, nil
	}
	add := func(pool string, labels map[string]string) {
		i := slices.IndexFunc(pools, func(p run.Pool) bool { return p.Name == pool })
		if i >= 0 && len(labels) > 0 {
			pools[i].ExecutorLabels = append(pools[i].ExecutorLabels, labels)
		}
	}
	for _, x := range executors {
		add(x.Pool, x.Labels)
	}
	fleets, err := registry.ListFleets(ctx)
	if err != nil {
		return nil, err
	}
	for _, f := range fleets {
		add(f.Spec.Pool, f.Spec.ExecutorLabels(f.Name))
	}
	return pools, nil
}

// setLabels sets the labels that the executors of tasks must have themselves, since the
// pools do not have them.
func setLabels(x *expansion, pools []run.Pool) {
	texts := make([]string, len(x.Plan.Nodes))
	for i := range x.Plan.Nodes {
		n := &x.Plan.Nodes[i]
		t := x.spec.Tasks[n.Name]
		for _, p := range pools {
			if p.Name == x.Plan.Pools[n.Pool] {
				texts[i] = run.LabelsText(t.ExecutorLabels(p))
			}
		}
		n.Labels = run.LabelsID(texts[i])
	}
	for i := range x.Tasks {
		x.Tasks[i].Labels = texts[x.Tasks[i].Node]
	}
}

// faultsError returns the error for an invalid specification: not_supported only if
// all faults are.
func faultsError(faults []run.Fault) error {
	err := run.InvalidError("the specification is not valid", faults)
	if !slices.ContainsFunc(faults, func(f run.Fault) bool { return f.Code != run.CodeNotSupported }) {
		err.Code, err.Message = run.CodeNotSupported, "the specification asks for what is not supported yet"
	}
	return err
}

// choosePool returns the pool of a task, after checking that the task fits the
// pool. A task without an image gets that of the pool: t is a copy of what the client
// submitted.
func choosePool(name string, t *run.TaskSpec, pools []run.Pool) (string, []run.Fault) {
	pool, ok := run.ChoosePool(t, pools)
	switch {
	case ok:
		if t.Image == "" && pool.Container() { // an earlier version may leave the image of a pool that it makes a shell pool
			t.Image = pool.Images.Default
		}
		return pool.Name, spec.CheckPool(name, t, pool)
	case t.Pool != "":
		return "", []run.Fault{{
			Path: "tasks." + name + ".pool", Code: "unknown_pool",
			Detail: "there is no pool named " + t.Pool + ", or the group of the run may not use it; `drover pools list` shows those that exist",
		}}
	case t.Requires != nil:
		return "", []run.Fault{{
			Path: "tasks." + name + ".requires", Code: "unknown_pool",
			Detail: "no pool offers all that is required, and no executor has all of the labels; " +
				"`drover pools list` and `drover executors list` show what there is",
		}}
	case t.Image != "":
		return "", []run.Fault{{
			Path: "tasks." + name + ".image", Code: "unknown_pool",
			Detail: "the task has an image, and there is no pool that runs containers; start an executor with one",
		}}
	}
	return "", []run.Fault{{
		Path: "tasks." + name, Code: "unknown_pool",
		Detail: "the task names no pool and no image, and there is no shell pool; name a pool",
	}}
}
