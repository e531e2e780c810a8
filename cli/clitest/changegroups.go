package clitest

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/run"
)

// groupState is the state of a Gateway besides its runs, for the commands on change
// groups, restarts and deletions. It has no queue: no run waits for a slot.
type groupState struct {
	limits   map[string]api.ChangeGroupSpec
	versions map[string]int64
	specs    map[string]*run.Spec      // by run
	keys     map[string]idempotentCall // by idempotency key
}

type idempotentCall struct{ request, run string }

func newGroupState() groupState {
	return groupState{
		limits: make(map[string]api.ChangeGroupSpec), versions: make(map[string]int64),
		specs: make(map[string]*run.Spec), keys: make(map[string]idempotentCall),
	}
}

func (g *Gateway) serveChangeGroups(mux *http.ServeMux) {
	mux.HandleFunc("GET /api/v1/changegroups", g.listChangeGroups)
	mux.HandleFunc("GET /api/v1/changegroups/{name}", g.getChangeGroup)
	mux.HandleFunc("PUT /api/v1/changegroups/{name}", g.putChangeGroup)
	mux.HandleFunc("GET /api/v1/groups", g.listGroups)
	mux.HandleFunc("POST /api/v1/runs/{id}/restart", g.restart)
	mux.HandleFunc("POST /api/v1/runs/{id}/restart/plan", func(w http.ResponseWriter, r *http.Request) { planRestart(g, w, r) })
	mux.HandleFunc("DELETE /api/v1/runs/{id}", g.deleteRun)
	mux.HandleFunc("DELETE /api/v1/runs", g.deleteRuns)
}

// token returns the update token of groups. The caller must hold the lock.
func (g *Gateway) token(names []string) string {
	if len(names) == 0 {
		return ""
	}
	token := make(run.Token, len(names))
	for _, name := range names {
		token[name] = g.groups.versions[name]
	}
	return token.String()
}

// consumeToken checks an update token and invalidates it, and refuses the call if the
// token is stale. The caller must hold the lock.
func (g *Gateway) consumeToken(w http.ResponseWriter, text string, groups []string) bool {
	token, err := run.ParseToken(text)
	if err != nil {
		refuse(w, err)
		return false
	}
	for _, name := range token.Groups() {
		if g.groups.versions[name] != token[name] {
			problem(w, http.StatusConflict, "changegroup_conflict", "change group "+name+" has changed since the token was read")
			return false
		}
	}
	for _, name := range slices.Concat(token.Groups(), groups) {
		g.groups.versions[name]++
	}
	return true
}

// consumeRunToken is use with the token of an action on a run.
func (g *Gateway) consumeRunToken(w http.ResponseWriter, id, token string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.consumeToken(w, token, g.find(id).Changegroups)
}

// replay repeats the answer to an earlier request with the same idempotency key,
// and reports whether there was one. The caller must hold the lock.
func (g *Gateway) replay(w http.ResponseWriter, key, request string) bool {
	before, ok := g.groups.keys[key]
	switch {
	case key == "" || !ok:
		return false
	case before.request != request:
		problem(w, http.StatusUnprocessableEntity, "idempotency_mismatch", "the idempotency key was used for another request")
	default:
		w.Header().Set("Idempotent-Replayed", "true")
		answer(w, http.StatusCreated, g.find(before.run))
	}
	return true
}

func (g *Gateway) changeGroup(name string) api.ChangeGroup {
	limit := g.groups.limits[name]
	v := api.ChangeGroup{Name: name, MaxRunning: limit.MaxRunning, OnBusy: limit.OnBusy, Running: []string{}, Queued: []string{}}
	if v.OnBusy == "" {
		v.OnBusy = api.OnBusyQueue
	}
	for _, r := range g.runs {
		switch {
		case !slices.Contains(r.Changegroups, name):
		case r.Phase == api.PhaseRunning:
			v.Running = append(v.Running, r.ID)
		case r.Phase == api.PhaseQueued:
			v.Queued = append(v.Queued, r.ID)
		}
	}
	return v
}

// pageSize is small, so that lists of change groups and groups have several
// pages.
const pageSize = 2

func (g *Gateway) listChangeGroups(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	page := api.ChangeGroupPage{Changegroups: []api.ChangeGroup{}}
	names := r.URL.Query()["name"]
	if len(names) == 0 {
		names, page.NextAfter = nextPage(slices.Sorted(maps.Keys(g.groups.versions)), r.URL.Query().Get("after"))
	}
	for _, name := range names {
		page.Changegroups = append(page.Changegroups, g.changeGroup(name))
	}
	page.ChangegroupToken = g.token(names)
	answer(w, http.StatusOK, page)
}

func nextPage(all []string, after string) (page []string, next string) {
	all = slices.DeleteFunc(all, func(s string) bool { return s <= after })
	if len(all) > pageSize {
		return all[:pageSize], all[pageSize-1]
	}
	return all, ""
}

func (g *Gateway) getChangeGroup(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	name := r.PathValue("name")
	if g.groups.versions[name] == 0 {
		notFound(w, "change group", name)
		return
	}
	v := g.changeGroup(name)
	v.ChangegroupToken = g.token([]string{name})
	answer(w, http.StatusOK, v)
}

func (g *Gateway) putChangeGroup(w http.ResponseWriter, r *http.Request) {
	var body api.ChangeGroupSpec
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		problem(w, http.StatusBadRequest, "unreadable", "the body is not JSON")
		return
	}
	body.OnBusy = cmp.Or(body.OnBusy, api.OnBusyQueue)
	if !slices.Contains(run.OnBusyPolicies(), run.OnBusy(body.OnBusy)) {
		problem(w, http.StatusUnprocessableEntity, "invalid", "on_busy must be one of queue, ...", api.Fault{Path: "on_busy", Code: "bad_value", Detail: "on_busy must be one of queue, ..."})
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	name := r.PathValue("name")
	if !g.consumeToken(w, body.ChangegroupToken, []string{name}) {
		return
	}
	g.groups.limits[name] = body
	v := g.changeGroup(name)
	v.ChangegroupToken = g.token([]string{name})
	answer(w, http.StatusOK, v)
}

func (g *Gateway) listGroups(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	q := r.URL.Query()
	page := api.GroupPage{Groups: []api.Group{}}
	paths := q["path"]
	if len(paths) == 0 {
		all := make(map[string]bool)
		for _, known := range g.runs {
			if strings.HasPrefix(known.Group, q.Get("under")) {
				all[known.Group] = true
			}
		}
		paths, page.NextAfter = nextPage(slices.Sorted(maps.Keys(all)), q.Get("after"))
	}
	for _, path := range paths {
		v := api.Group{Path: path}
		for _, known := range g.runs {
			if !strings.HasPrefix(known.Group+"/", path+"/") {
				continue
			}
			last := *known
			last.Tasks = nil
			v.LastRun = &last
			switch known.Phase {
			case api.PhaseQueued:
				v.Queued++
			case api.PhaseRunning:
				v.Running++
			case api.PhaseSetupError, api.PhaseFinished, api.PhaseCancelled:
			}
		}
		page.Groups = append(page.Groups, v)
	}
	answer(w, http.StatusOK, page)
}

func (g *Gateway) deleteRun(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	id := r.PathValue("id")
	known := g.find(id)
	switch {
	case known == nil:
		notFound(w, "run", id)
	case !run.Phase(known.Phase).Final():
		problem(w, http.StatusConflict, "wrong_phase", "run "+id+" is "+string(known.Phase)+": only a final run can be deleted")
	default:
		g.runs = slices.DeleteFunc(g.runs, func(r *api.Run) bool { return r.ID == id })
		w.WriteHeader(http.StatusNoContent)
	}
}

// deleteRuns deletes two runs in one call, so that a client must call again.
func (g *Gateway) deleteRuns(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	q := r.URL.Query()
	before, _ := time.Parse(time.RFC3339, q.Get("created_before"))
	keep, _ := strconv.Atoi(q.Get("keep"))
	newer := make(map[string]int)
	var chosen []string
	for _, known := range slices.Backward(g.runs) {
		newer[known.Group]++
		if newer[known.Group] > keep && run.Phase(known.Phase).Final() && strings.HasPrefix(known.Group, q.Get("group")) &&
			(before.IsZero() || known.CreatedAt.Before(before)) {
			chosen = append(chosen, known.ID)
		}
	}
	slices.Reverse(chosen)
	done := api.Deleted{Runs: min(pageSize, len(chosen)), More: len(chosen) > pageSize}
	if q.Get("dry_run") != "true" {
		g.runs = slices.DeleteFunc(g.runs, func(r *api.Run) bool { return slices.Contains(chosen[:done.Runs], r.ID) })
	}
	answer(w, http.StatusOK, done)
}
