package engine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/graph"
	"github.com/drover-run/drover/spec"
)

// Restart implements run.Service.
func (e *Engine) Restart(ctx context.Context, req run.RestartRequest) (run.Run, error) {
	r, err := planRestart(ctx, e, req)
	if err != nil {
		return run.Run{}, err
	}
	created, err := e.store.CreateRun(ctx, records.NewRun{
		Spec: r.x.spec, Source: r.x.source, Plan: r.x.Plan, Tasks: r.x.Tasks, Actor: req.Subject, SecretsBy: r.secretsBy, Token: req.Token, Restart: &r.restart,
		IdempotencyKey: idempotencyKey(req.Subject, req.IdempotencyKey, restartDigest(req)),
	})
	if err != nil {
		return run.Run{}, err
	}
	return e.finishCreate(ctx, created, req.Subject)
}

// PlanRestart implements run.Service.
func (e *Engine) PlanRestart(ctx context.Context, req run.RestartRequest) ([]run.RestartTask, error) {
	r, err := planRestart(ctx, e, req)
	return r.tasks, err
}

// plannedRestart is a restart that is valid, before anything of it is stored.
type plannedRestart struct {
	x         expansion
	secretsBy string // who gave the values of its secrets
	tasks     []run.RestartTask
	restart   records.Restart
}

func planRestart(ctx context.Context, e *Engine, req run.RestartRequest) (plannedRestart, error) {
	if err := checkRestart(req); err != nil {
		return plannedRestart{}, err
	}
	source, err := e.store.RestartSource(ctx, req.Run)
	if err != nil {
		return plannedRestart{}, err
	}
	old := source.Run
	succeeded := req.From == run.RestartFailed && old.Result == run.ResultSuccess && len(old.Warnings()) == 0
	switch {
	case old.Phase != run.PhaseFinished && old.Phase != run.PhaseCancelled:
		return plannedRestart{}, run.Errorf(run.CodeWrongPhase, "run %s is %s: only a run that is finished or cancelled can be restarted", old.ID, old.Phase)
	case succeeded && req.Spec == nil:
		return plannedRestart{}, run.Errorf(run.CodeWrongPhase, "run %s succeeded: there is nothing to restart from; restart it from its start, or name tasks", old.ID)
	}
	of, secretsBy, err := restartSpec(source, req)
	if err != nil {
		return plannedRestart{}, err
	}
	mergeMap(&of.Environment, req.Environment)
	mergeMap(&of.Secrets, req.Secrets)
	for name := range req.Secrets {
		delete(of.SecretsFrom, name)
	}
	mergeMap(&of.InputValues, req.InputValues)
	r := plannedRestart{secretsBy: secretsBy, restart: records.Restart{From: old.ID}}
	if r.x, err = e.expand(ctx, of); err != nil {
		return plannedRestart{}, err
	}
	if r.tasks, err = changesOf(source, req, r.x); err != nil {
		return plannedRestart{}, err
	}
	if err := r.keepResults(old, req); err != nil {
		return plannedRestart{}, err
	}
	if req.From == run.RestartFailed && req.Spec != nil && !slices.ContainsFunc(r.tasks, hasToRun) {
		return plannedRestart{}, run.Errorf(run.CodeWrongPhase,
			"the specification changes none of the tasks that succeeded in run %s, and has none that failed or was stopped: there is nothing to run; restart it from its start, or name tasks", old.ID)
	}
	return r, nil
}

// hasToRun reports whether a task of a restart has a reason to run that is not that of every
// restart.
func hasToRun(t run.RestartTask) bool {
	return !t.Kept && t.Reason != run.RestartSkipped && t.Reason != run.RestartFinally
}

func checkRestart(req run.RestartRequest) error {
	switch {
	case len(req.Tasks) > 0 && req.From != "":
		return fault("from", run.FaultContradiction, "from and tasks exclude each other")
	case len(req.Tasks) > 0:
		return nil
	case req.From != run.RestartStart && req.From != run.RestartFailed:
		return fault("from", run.FaultBadValue, `from must be "start" or "failed", or tasks must name what is to run again`)
	}
	return nil
}

// restartSpec returns the specification of a restart, and who gave the values of its
// secrets. If the call changes what the steps do, a secret keeps its value of the old run
// only if the same subject gave it there: the run could show it. New steps can, and so can
// the old ones with another environment (BASH_ENV, PATH, a URL), to which secrets belong
// too, or with other inputs, which may choose the image and the pool.
func restartSpec(source records.Source, req run.RestartRequest) (*run.Spec, string, error) {
	given := source.SecretsBy != "" && source.SecretsBy == req.Subject
	if req.Spec == nil {
		switch {
		case overridden(source.Spec.Secrets, req.Secrets):
			return source.Spec, req.Subject, nil
		case !given && (len(req.Secrets) > 0 || changes(source.Spec.Environment, req.Environment) || changes(source.Spec.InputValues, req.InputValues)):
			return nil, "", secretsOfAnother(source, req)
		}
		return source.Spec, source.SecretsBy, nil
	}
	out := *req.Spec
	out.Secrets = maps.Clone(req.Spec.Secrets)
	var faults []run.Fault
	for _, name := range slices.Sorted(maps.Keys(out.Secrets)) {
		if _, given := req.Secrets[name]; given || out.Secrets[name] != run.HiddenSecret {
			continue
		}
		value, known := source.Spec.Secrets[name]
		switch {
		case !known:
			faults = append(faults, run.Fault{
				Path: "secrets." + name, Code: run.FaultBadValue, Detail: fmt.Sprintf("run %s has no secret of this name: give its value", req.Run),
			})
		case !given:
			faults = append(faults, run.Fault{
				Path: "secrets." + name, Code: run.FaultRequired,
				Detail: "another subject gave its value, which a changed specification could show: give the value again",
			})
		default:
			out.Secrets[name] = value
		}
	}
	if len(faults) > 0 {
		return nil, "", run.InvalidError("the specification is not valid", faults)
	}
	return &out, req.Subject, nil
}

// secretsOfAnother asks for the values of the secrets that another subject gave.
func secretsOfAnother(source records.Source, req run.RestartRequest) error {
	var faults []run.Fault
	for _, name := range slices.Sorted(maps.Keys(source.Spec.Secrets)) {
		if _, given := req.Secrets[name]; !given {
			faults = append(faults, run.Fault{
				Path: "secrets." + name, Code: run.FaultRequired,
				Detail: "another subject gave its value, which another environment, input or secret could show: give the value again",
			})
		}
	}
	return run.InvalidError("secrets of another subject are not kept with another environment, other inputs or other secrets", faults)
}

// changes reports whether a restart changes a value of the old run.
func changes(old, given map[string]string) bool {
	for name, value := range given {
		if was, ok := old[name]; !ok || was != value {
			return true
		}
	}
	return false
}

// overridden reports whether a restart gives the values of all secrets again.
func overridden(old, given map[string]run.Secret) bool {
	for name := range old {
		if _, ok := given[name]; !ok {
			return false
		}
	}
	return true
}

func fault(path string, code run.Code, detail string) error {
	return run.InvalidError(detail, []run.Fault{{Path: path, Code: code, Detail: detail}})
}

// mergeMap merges a map over another.
func mergeMap[V any](under *map[string]V, over map[string]V) {
	if len(over) == 0 {
		return
	}
	all := maps.Clone(*under)
	if all == nil {
		all = make(map[string]V, len(over))
	}
	maps.Copy(all, over)
	*under = all
}

// changesOf returns the tasks of a restart, with reasons to run for those that its specification
// changes. A restart without one changes none: the environment, inputs and secrets that it gives
// are for the tasks that run.
func changesOf(source records.Source, req run.RestartRequest, x expansion) ([]run.RestartTask, error) {
	if req.Spec == nil || req.From == run.RestartStart {
		tasks := make([]run.RestartTask, len(x.Tasks))
		for i, t := range x.Tasks {
			tasks[i].Name = t.Name
		}
		return tasks, nil
	}
	before := spec.Expanded{Spec: source.Ran}
	var faults []run.Fault
	if before.Expansion, faults = spec.Expand(source.Ran, nil); len(faults) > 0 {
		return nil, run.Errorf(run.CodeConflict, "the tasks of run %s cannot be compared with those of the specification: %w; restart it from its start", source.Run.ID, faultsError(faults))
	}
	pools := make(map[string]string, len(source.Run.Tasks))
	for _, t := range source.Run.Tasks {
		pools[t.Name] = t.Pool
	}
	for i := range before.Tasks {
		before.Tasks[i].Pool = pools[before.Tasks[i].Name]
	}
	before.Spec.Secrets = source.Spec.Secrets
	if source.SecretsBy == "" || source.SecretsBy != req.Subject {
		// A comparison would tell the caller whether a guess is right.
		before.Spec.Secrets = otherSecrets(before.Spec.Secrets, x.spec.Secrets)
	}
	return spec.Changes(before, spec.Expanded{Spec: x.spec, Expansion: x.Expansion}), nil
}

// otherSecrets returns secrets of the same names, none of which has the value that is given now.
func otherSecrets(of, now map[string]run.Secret) map[string]run.Secret {
	out := make(map[string]run.Secret, len(of))
	for name := range of {
		out[name] = now[name] + "?"
	}
	return out
}

// keepResults determines the tasks that keep their results, and adds them to the plan
// and to the restart for the records.
func (r *plannedRestart) keepResults(old run.Run, req run.RestartRequest) error {
	x := &r.x.Expansion
	before := make(map[string]int, len(old.Tasks))
	for i, t := range old.Tasks {
		before[t.Name] = i
	}
	if err := rejectForeachItems(x, before, req.Tasks); err != nil {
		return err
	}
	incomplete := incompleteLists(x, old)
	status := make([]run.Status, len(x.Tasks))
	for n, t := range x.Tasks {
		status[n] = run.StatusNotStarted
		switch i, ok := before[t.Name]; {
		case ok && !incomplete[t.Name]:
			status[n] = old.Tasks[i].Status
		case ok:
			r.tasks[n].Reason = cmp.Or(r.tasks[n].Reason, run.RestartIncomplete)
		}
	}
	var err error
	if r.tasks, err = graph.Kept(x.Plan.Nodes, status, r.tasks, req.From, req.Tasks); err != nil {
		return err
	}
	x.Plan.Kept = graph.KeptStatuses(status, r.tasks)
	r.restart.Kept = make(map[int]int)
	for n, t := range r.tasks {
		if t.Kept {
			r.restart.Kept[n] = old.Tasks[before[t.Name]].Number
		}
	}
	return nil
}

// rejectForeachItems rejects a restart of single tasks of a foreach: a new list may
// have other tasks.
func rejectForeachItems(x *spec.Expansion, before map[string]int, requested []string) error {
	lists := make(map[string]bool)
	for _, t := range x.Tasks {
		lists[t.Name] = x.Plan.Nodes[t.Node].Foreach
	}
	for i, name := range requested {
		base, _, _ := strings.Cut(name, "[")
		if _, known := before[name]; known && base != name && lists[base] {
			return fault(fmt.Sprintf("tasks[%d]", i), run.CodeNotSupported,
				fmt.Sprintf("%s was made of a list: name %s, whose tasks all run again", name, base))
		}
	}
	return nil
}

// incompleteLists returns the foreach tasks whose expanded tasks did not all
// succeed: these run again together, from a list that is read again.
func incompleteLists(x *spec.Expansion, old run.Run) map[string]bool {
	lists := make(map[string]bool)
	for _, t := range x.Tasks {
		if x.Plan.Nodes[t.Node].Foreach {
			lists[t.Name] = false
		}
	}
	for _, t := range old.Tasks {
		base, _, item := strings.Cut(t.Name, "[")
		if _, is := lists[base]; is && item && t.Status != run.StatusSuccess {
			lists[base] = true
		}
	}
	return lists
}
