package clitest

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

// fleetHandlers answers the calls on fleets.
type fleetHandlers struct{ *Gateway }

func (g fleetHandlers) serve(mux *http.ServeMux) {
	g.fleets = map[string]api.Fleet{}
	mux.HandleFunc("GET /api/v1/fleets", g.listFleets)
	mux.HandleFunc("GET /api/v1/fleets/{name}", g.changeFleet(nil))
	mux.HandleFunc("PUT /api/v1/fleets/{name}", g.putFleet)
	mux.HandleFunc("DELETE /api/v1/fleets/{name}", g.changeFleet(func(_ *http.Request, f *api.Fleet) { f.Mode = "deleting" }))
	mux.HandleFunc("POST /api/v1/fleets/{name}/{action}", g.changeFleet(controlFleet))
	mux.HandleFunc("GET /api/v1/fleets/{name}/rollout", g.fleetRollout)
	mux.HandleFunc("POST /api/v1/fleets/{name}/rollout/{action}", g.changeFleet(controlRollout))
	mux.HandleFunc("GET /api/v1/fleets/{name}/instances", fleetInstances)
	mux.HandleFunc("GET /api/v1/fleets/{name}/events", fleetEvents)
}

func (g fleetHandlers) listFleets(w http.ResponseWriter, _ *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := api.FleetList{Fleets: []api.Fleet{}}
	for _, name := range slices.Sorted(maps.Keys(g.fleets)) {
		list.Fleets = append(list.Fleets, g.fleets[name])
	}
	answer(w, http.StatusOK, list)
}

// changeFleet returns a handler that answers with a fleet. If change is not nil,
// it changes the fleet first.
func (g fleetHandlers) changeFleet(change func(*http.Request, *api.Fleet)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		f, ok := g.fleets[r.PathValue("name")]
		if !ok {
			notFound(w, "fleet", r.PathValue("name"))
			return
		}
		if change != nil {
			change(r, &f)
			g.fleets[f.Name] = f
		}
		answer(w, http.StatusOK, f)
	}
}

func (g fleetHandlers) putFleet(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		problem(w, http.StatusBadRequest, "unreadable", "the body was cut off")
		return
	}
	x, err := spec.ReadFleet(body, spec.FormatYAML)
	if err != nil {
		problem(w, http.StatusUnprocessableEntity, "invalid", err.Error())
		return
	}
	if faults := spec.LocateFleet(spec.ValidateFleet(r.PathValue("name"), x.FleetSpec), body, spec.FormatYAML); len(faults) > 0 {
		problem(w, http.StatusUnprocessableEntity, "invalid", "the fleet is not valid",
			api.Fault{Path: faults[0].Path, Line: faults[0].Line, Code: string(faults[0].Code), Detail: faults[0].Detail})
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	f := api.Fleet{
		Name: r.PathValue("name"), Mode: "active", Spec: x.FleetSpec, Counts: map[string]int{"ready": 2, "draining": 1}, CreatedAt: Start(), UpdatedAt: Start(),
		Status: run.FleetStatus{SeenAt: Start().Add(9*time.Minute + 55*time.Second), Group: "docker/ci", Plugin: "1.2.3", Queued: 3, Busy: 2, Free: 1, Target: 4},
	}
	g.fleets[f.Name] = f
	answer(w, http.StatusOK, f)
}

func controlFleet(r *http.Request, f *api.Fleet) {
	var body api.FleetScale
	if err := json.NewDecoder(r.Body).Decode(&body); err == nil {
		f.Reason = body.Reason
	}
	switch r.PathValue("action") {
	case "pause":
		f.Mode = "paused"
	case "drain":
		f.Mode = "draining"
	case "resume":
		f.Mode, f.Desired = "active", nil
	case "scale":
		f.Desired = &body.Instances
	}
}

func fleetInstances(w http.ResponseWriter, r *http.Request) {
	all := []api.FleetInstance{{
		Number: 2, Instance: "vm-b", Cause: "requested", State: "ready", Executor: "x-b", Tasks: 1, Uses: 3, RequestedAt: Start(), ReadyAt: Start(),
		Message: "executor x-b serves pool linux",
	}}
	if r.URL.Query().Get("gone") == "true" {
		all = append(all, api.FleetInstance{
			Number: 1, Instance: "vm-a", Cause: "requested", State: "gone", Uses: 4, RequestedAt: Start(), GoneAt: Start(), Message: "it has taken 4 tasks",
		})
	}
	answer(w, http.StatusOK, api.FleetInstanceList{Instances: all})
}

func fleetEvents(w http.ResponseWriter, r *http.Request) {
	after, _ := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64)
	all := []api.FleetEvent{
		{Number: 1, At: Start(), Kind: "made", By: "admin", Text: "it was made"},
		{Number: 2, At: Start(), Kind: "requested", Instance: 1, By: "fleet", Reason: "demand", Text: "3 tasks wait"},
	}
	answer(w, http.StatusOK, api.FleetEventList{Events: slices.DeleteFunc(all, func(e api.FleetEvent) bool { return e.Number <= after })})
}

// controlRollout makes the next answer of fleetRollout complete, or failed after a
// pause.
func controlRollout(r *http.Request, f *api.Fleet) {
	f.Revision = 3
	f.Status.Rollout.Phase = run.RolloutComplete
	if r.PathValue("action") == "pause" {
		f.Status.Rollout.Phase = run.RolloutFailed
	}
}

// fleetRollout answers with a rollout that progresses until the next call.
func (g fleetHandlers) fleetRollout(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f, ok := g.fleets[r.PathValue("name")]
	if !ok {
		notFound(w, "fleet", r.PathValue("name"))
		return
	}
	v := api.FleetRollout{
		Revision: 2, ObservedRevision: 2, Phase: "progressing", Message: "instances of earlier revisions: 1", Updated: 2, Ready: 1, Outdated: 1,
		Revisions: []api.FleetRevision{
			{Number: 2, CreatedAt: Start(), By: "admin", Instances: 2, Settings: run.FleetSettings{Plugin: "docker", PluginConfig: json.RawMessage(`{"image":"b"}`)}},
			{Number: 1, CreatedAt: Start(), By: "admin", Instances: 1, Settings: run.FleetSettings{Plugin: "docker", PluginConfig: json.RawMessage(`{"image":"a"}`)}},
		},
	}
	switch f.Status.Rollout.Phase {
	case run.RolloutComplete:
		v.Phase, v.Message, v.Updated, v.Ready, v.Outdated = "complete", "", 3, 3, 0
	case run.RolloutFailed:
		v.Phase, v.Message = "failed", "3 requests failed in a row"
	case run.RolloutProgressing, run.RolloutPaused:
	}
	answer(w, http.StatusOK, v)
}
