package clitest

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/graph"
	"github.com/drover-run/drover/run/inputs"
	"github.com/drover-run/drover/spec"
)

// restart creates a new run in which all tasks run again, for any selection of
// tasks.
func (g *Gateway) restart(w http.ResponseWriter, r *http.Request) {
	body, data, ok := readRestart(w, r)
	if !ok {
		return
	}
	id, key := r.PathValue("id"), r.Header.Get("Idempotency-Key")
	g.mu.Lock()
	defer g.mu.Unlock()
	old := g.find(id)
	if old != nil && g.replay(w, key, id+data) {
		return
	}
	s, ok := restartSpec(g, w, id, body)
	if !ok || !g.consumeToken(w, body.ChangegroupToken, old.Changegroups) {
		return
	}
	shown := g.add(s)
	shown.RestartedFrom = id
	g.find(shown.ID).RestartedFrom = id
	g.find(id).RestartedAs = append(g.find(id).RestartedAs, shown.ID)
	if key != "" {
		g.groups.keys[key] = idempotentCall{id + data, shown.ID}
	}
	answer(w, http.StatusCreated, shown)
}

// planRestart answers what the gateway does, for which the values of all secrets are equal.
func planRestart(g *Gateway, w http.ResponseWriter, r *http.Request) {
	body, _, ok := readRestart(w, r)
	if !ok {
		return
	}
	id := r.PathValue("id")
	g.mu.Lock()
	defer g.mu.Unlock()
	s, ok := restartSpec(g, w, id, body)
	if !ok {
		return
	}
	before, after := expand(g.groups.specs[id]), expand(s)
	before.Spec.Secrets = after.Spec.Secrets
	tasks := spec.Changes(before, after)
	status := make([]run.Status, len(tasks))
	for i := range tasks {
		if body.Spec == "" {
			tasks[i] = run.RestartTask{Name: tasks[i].Name}
		}
		if status[i] = run.StatusNotStarted; tasks[i].Reason != run.RestartNew {
			status[i] = run.Status(g.find(id).Tasks[tasks[i].Name].Status)
		}
	}
	tasks, err := graph.Kept(after.Plan.Nodes, status, tasks, run.RestartFrom(body.From), body.Tasks)
	if err != nil {
		refuse(w, err)
		return
	}
	plan := api.RestartPlan{Tasks: make([]api.RestartTask, len(tasks))}
	for i, t := range tasks {
		plan.Tasks[i] = api.RestartTask{Name: t.Name, Kept: t.Kept, Reason: api.RestartReason(t.Reason), Detail: t.Detail}
	}
	answer(w, http.StatusOK, plan)
}

func expand(s *run.Spec) spec.Expanded {
	resolved, _, _ := inputs.Resolve(s, inputs.MissingFault)
	x, _ := spec.Expand(resolved, nil)
	return spec.Expanded{Spec: resolved, Expansion: x}
}

func readRestart(w http.ResponseWriter, r *http.Request) (body api.Restart, data string, ok bool) {
	text, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(text, &body) != nil {
		problem(w, http.StatusBadRequest, "unreadable", "the body is not JSON")
		return body, "", false
	}
	return body, string(text), true
}

// restartSpec returns the specification of a restart, or answers why there is none.
func restartSpec(g *Gateway, w http.ResponseWriter, id string, body api.Restart) (*run.Spec, bool) {
	old := g.find(id)
	switch {
	case old == nil:
		notFound(w, "run", id)
		return nil, false
	case !run.Phase(old.Phase).Final():
		problem(w, http.StatusConflict, "wrong_phase", "run "+id+" is "+string(old.Phase)+": only a run that is finished or cancelled can be restarted")
		return nil, false
	case body.From == api.RestartFromFailed && old.Result == api.ResultSuccess && body.Spec == "":
		problem(w, http.StatusConflict, "wrong_phase", "run "+id+" succeeded: there is nothing to restart from; restart it from its start, or name tasks")
		return nil, false
	}
	s := *g.groups.specs[id]
	if body.Spec != "" {
		changed, err := spec.Read([]byte(body.Spec), spec.FormatYAML)
		if err != nil {
			refuse(w, err)
			return nil, false
		}
		s = *changed
	}
	s.Environment, s.InputValues = overridden(s.Environment, body.Environment), overridden(s.InputValues, body.InputValues)
	secrets := make(map[string]run.Secret, len(body.Secrets))
	for name, value := range body.Secrets {
		secrets[name] = run.Secret(value)
	}
	s.Secrets = overridden(s.Secrets, secrets)
	if faults := inputs.Check(&s, inputs.MissingFault); len(faults) > 0 {
		refuse(w, run.InvalidError("the specification is not valid", faults))
		return nil, false
	}
	return &s, true
}

func overridden[V any](of, by map[string]V) map[string]V {
	out := make(map[string]V, len(of)+len(by))
	maps.Copy(out, of)
	maps.Copy(out, by)
	return out
}
