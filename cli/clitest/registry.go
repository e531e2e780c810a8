package clitest

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

// registryHandlers answers the calls on executors and pools.
type registryHandlers struct{ *Gateway }

func (g registryHandlers) serve(mux *http.ServeMux) {
	g.executors = map[string]api.Executor{"host-7": {
		ID: "host-7", Pool: "shell", Driver: "shell", OS: "linux", Arch: "amd64", Labels: map[string]string{"disk": "ssd"},
		Slots: 4, SlotsUsed: 1, Version: "v1.2.3", State: "online", RegisteredAt: Start(), LastContact: Start(), Tasks: 1,
		Held: []api.HeldTask{{Run: "run-1", Task: "greet", Number: 0, Attempt: 2, StartedAt: Start()}},
	}}
	g.pools = map[string]api.Pool{"shell": {
		Name: "shell", Driver: "shell", OS: "linux", Arch: "amd64", Labels: map[string]string{}, Default: true,
		Online: 1, Slots: 4, SlotsUsed: 1, Queued: 2, Running: 1,
	}}
	mux.HandleFunc("GET /api/v1/executors", g.listExecutors)
	mux.HandleFunc("GET /api/v1/executors/{id}", g.changeExecutor(func(*http.Request, *api.Executor) (int, string) { return 0, "" }))
	mux.HandleFunc("POST /api/v1/executors/{id}/drain", g.changeExecutor(drainExecutor))
	mux.HandleFunc("DELETE /api/v1/executors/{id}", g.changeExecutor(removeExecutor))
	mux.HandleFunc("GET /api/v1/pools", g.listPools)
	mux.HandleFunc("GET /api/v1/pools/{name}", g.getPool)
	mux.HandleFunc("PUT /api/v1/pools/{name}", g.putPool)
	mux.HandleFunc("DELETE /api/v1/pools/{name}", g.deletePool)
}

func (g registryHandlers) listExecutors(w http.ResponseWriter, _ *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := api.ExecutorList{Executors: []api.Executor{}}
	for _, id := range slices.Sorted(maps.Keys(g.executors)) {
		e := g.executors[id]
		e.Held = nil
		list.Executors = append(list.Executors, e)
	}
	answer(w, http.StatusOK, list)
}

// changeExecutor returns a handler that answers with an executor, or with the
// error of change.
func (g registryHandlers) changeExecutor(change func(*http.Request, *api.Executor) (int, string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		e, ok := g.executors[r.PathValue("id")]
		if !ok {
			notFound(w, "executor", r.PathValue("id"))
			return
		}
		if status, detail := change(r, &e); status != 0 {
			problem(w, status, "conflict", detail)
			return
		}
		g.executors[e.ID] = e
		answer(w, http.StatusOK, e)
	}
}

func drainExecutor(r *http.Request, e *api.Executor) (int, string) {
	var d api.Drain
	if err := json.NewDecoder(r.Body).Decode(&d); err != nil {
		return http.StatusBadRequest, "the body is not JSON"
	}
	e.State, e.Reason = "draining", d.Reason
	if d.Resume {
		e.State = "online"
	}
	return 0, ""
}

func removeExecutor(r *http.Request, e *api.Executor) (int, string) {
	if r.URL.Query().Get("force") != "true" {
		return http.StatusConflict, "executor " + e.ID + " is in contact and has 1 tasks"
	}
	e.State, e.Reason, e.RemovedAt = "removed", r.URL.Query().Get("reason"), Start().Add(time.Minute)
	return 0, ""
}

func (g registryHandlers) listPools(w http.ResponseWriter, _ *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := api.PoolList{Pools: []api.Pool{}}
	for _, name := range slices.Sorted(maps.Keys(g.pools)) {
		list.Pools = append(list.Pools, g.pools[name])
	}
	answer(w, http.StatusOK, list)
}

func (g registryHandlers) getPool(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p, ok := g.pools[r.PathValue("name")]
	if !ok {
		notFound(w, "pool", r.PathValue("name"))
		return
	}
	for _, name := range slices.Sorted(maps.Keys(g.fleets)) {
		if s := g.fleets[name].Spec; s.Pool == p.Name && len(s.AllowedGroups) > 0 {
			p.FleetGroups = append(p.FleetGroups, api.FleetGroups{Fleet: name, AllowedGroups: s.AllowedGroups})
		}
	}
	answer(w, http.StatusOK, p)
}

func (g registryHandlers) putPool(w http.ResponseWriter, r *http.Request) {
	var wanted api.PoolSpec
	if err := json.NewDecoder(r.Body).Decode(&wanted); err != nil {
		problem(w, http.StatusBadRequest, "unreadable", "the body is not JSON")
		return
	}
	name := r.PathValue("name")
	images := run.PoolImages{Default: wanted.Image, Allowed: wanted.AllowedImages, AllowedServices: wanted.AllowedServiceImages, PullPolicies: wanted.AllowedPullPolicies, Rewrites: wanted.ImageRewrites, Registries: wanted.Registries}
	faults := spec.ValidatePool(run.Pool{Name: name, Driver: wanted.Driver, Shared: wanted.Shared, Exec: run.ExecPolicy(wanted.Exec), Flavor: wanted.Flavor, Kubernetes: wanted.Kubernetes, MaxRunning: wanted.MaxRunning, Images: images, AllowedVolumes: wanted.AllowedVolumes, AllowedHostPaths: wanted.AllowedHostPaths, AllowedDevices: wanted.AllowedDevices})
	if len(faults) > 0 {
		problem(w, http.StatusUnprocessableEntity, "invalid", "the pool is not valid",
			api.Fault{Path: faults[0].Path, Code: string(faults[0].Code), Detail: faults[0].Detail})
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	status := http.StatusOK
	was, known := g.pools[name]
	if !known {
		status = http.StatusCreated
	}
	if images.Rewrites == nil {
		images.Rewrites = was.ImageRewrites
	}
	if wanted.AllowedVolumes == nil {
		wanted.AllowedVolumes = was.AllowedVolumes
	}
	if wanted.AllowedHostPaths == nil {
		wanted.AllowedHostPaths = was.AllowedHostPaths
	}
	if wanted.AllowedDevices == nil {
		wanted.AllowedDevices = was.AllowedDevices
	}
	if images.Registries == nil {
		images.Registries = was.Registries
	}
	p := api.Pool{
		Name: name, Driver: wanted.Driver, OS: wanted.OS, Arch: wanted.Arch, Labels: wanted.Labels, Privileged: wanted.Privileged, Shared: wanted.Shared, Default: wanted.Default, Exec: api.PoolExec(wanted.Exec), MaxRunning: wanted.MaxRunning,
		Flavor: wanted.Flavor, Kubernetes: wanted.Kubernetes, AllowedGroups: wanted.AllowedGroups, AllowedVolumes: wanted.AllowedVolumes, AllowedHostPaths: wanted.AllowedHostPaths, AllowedDevices: wanted.AllowedDevices,
		Image: images.Default, AllowedImages: images.Allowed, AllowedServiceImages: images.AllowedServices, AllowedPullPolicies: images.PullPolicies, ImageRewrites: images.Rewrites, Registries: images.Registries,
	}
	g.pools[name] = p
	answer(w, status, p)
}

func (g registryHandlers) deletePool(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	name := r.PathValue("name")
	if name == "shell" {
		problem(w, http.StatusConflict, "conflict", "pool shell cannot be deleted: 1 executors that are not removed serve it")
		return
	}
	if _, ok := g.pools[name]; !ok {
		notFound(w, "pool", name)
		return
	}
	delete(g.pools, name)
	w.WriteHeader(http.StatusNoContent)
}
