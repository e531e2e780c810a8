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

// scheduleHandlers answers the calls on schedules.
type scheduleHandlers struct{ *Gateway }

func (g scheduleHandlers) serve(mux *http.ServeMux) {
	mux.HandleFunc("GET /api/v1/schedules", g.listSchedules)
	mux.HandleFunc("GET /api/v1/schedules/{name}", g.getSchedule)
	mux.HandleFunc("PUT /api/v1/schedules/{name}", g.putSchedule)
	mux.HandleFunc("DELETE /api/v1/schedules/{name}", g.deleteSchedule)
	mux.HandleFunc("POST /api/v1/schedules/{name}/{action}", g.actOnSchedule)
}

func (g scheduleHandlers) listSchedules(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	list := api.ScheduleList{Schedules: []api.Schedule{}}
	for _, name := range slices.Sorted(maps.Keys(g.schedules)) {
		switch {
		case name <= r.URL.Query().Get("after"):
		case len(list.Schedules) == limit:
			list.NextAfter = list.Schedules[limit-1].Name
		default:
			x := g.schedules[name]
			x.Spec, x.Recent = nil, nil
			list.Schedules = append(list.Schedules, x)
		}
	}
	answer(w, http.StatusOK, list)
}

func (g scheduleHandlers) getSchedule(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	x, ok := g.schedules[r.PathValue("name")]
	if !ok {
		notFound(w, "schedule", r.PathValue("name"))
		return
	}
	answer(w, http.StatusOK, x)
}

func (g scheduleHandlers) putSchedule(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		problem(w, http.StatusBadRequest, "unreadable", "the body was cut off")
		return
	}
	format, _ := spec.Detect(r.Header.Get("Content-Type"))
	wanted, err := spec.ReadSchedule(body, format)
	if err != nil {
		refuse(w, err)
		return
	}
	wanted.Name = r.PathValue("name")
	if faults := spec.ValidateSchedule(*wanted, Start()); len(faults) > 0 {
		refuse(w, run.InvalidError("the schedule is not valid", faults))
		return
	}
	x := api.Schedule{
		Name: wanted.Name, RunName: wanted.Spec.Name, Group: wanted.Spec.Group, Cron: wanted.Cron, Timezone: wanted.Timezone,
		Overlap: api.OverlapSkip, Note: wanted.Note, Paused: wanted.Paused != nil && *wanted.Paused, CreatedAt: Start(), UpdatedAt: Start(),
		Next: []time.Time{Start().Add(time.Hour), Start().Add(2 * time.Hour)}, SecretNames: slices.Sorted(maps.Keys(wanted.Spec.Secrets)),
	}
	for _, i := range wanted.Intervals {
		x.Intervals = append(x.Intervals, api.Interval{Every: i.Every.Std().String()})
	}
	wanted.Spec.Secrets = nil
	if x.Spec, err = json.Marshal(wanted.Spec); err != nil {
		problem(w, http.StatusInternalServerError, "internal", "")
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	status := http.StatusOK
	if _, known := g.schedules[x.Name]; !known {
		status = http.StatusCreated
	}
	if g.schedules == nil {
		g.schedules = make(map[string]api.Schedule)
	}
	g.schedules[x.Name] = x
	answer(w, status, x)
}

func (g scheduleHandlers) deleteSchedule(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.schedules[r.PathValue("name")]; !ok {
		notFound(w, "schedule", r.PathValue("name"))
		return
	}
	delete(g.schedules, r.PathValue("name"))
	w.WriteHeader(http.StatusNoContent)
}

// actOnSchedule fires a schedule and records a run with an invented id.
func (g scheduleHandlers) actOnSchedule(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Note, Overlap string
		From, To      time.Time
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		problem(w, http.StatusBadRequest, "unreadable", "the body is not JSON")
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	x, ok := g.schedules[r.PathValue("name")]
	if !ok {
		notFound(w, "schedule", r.PathValue("name"))
		return
	}
	fire := func(at time.Time) {
		x.Fired++
		x.Recent = append([]api.Firing{{
			For: at, At: Start(), Run: "run-" + strconv.Itoa(x.Fired), Phase: api.PhaseFinished, Result: api.ResultSuccess,
		}}, x.Recent...)
	}
	switch r.PathValue("action") {
	case "pause", "resume":
		x.Paused, x.Note = r.PathValue("action") == "pause", body.Note
	case "trigger":
		fire(Start())
	case "backfill":
		fire(body.From)
		fire(body.To)
	}
	g.schedules[x.Name] = x
	answer(w, http.StatusOK, x)
}
