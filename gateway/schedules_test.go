package gateway_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/gateway"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/runtest"
)

const schedulePath = "/api/v1/schedules/nightly"

func nightly() run.Schedule {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.FixedZone("", 3600))
	return run.Schedule{
		ScheduleSpec: run.ScheduleSpec{
			Name: "nightly", Cron: []string{"@daily"}, Intervals: []run.Interval{{Every: run.Duration(time.Hour)}}, Jitter: run.Duration(time.Minute),
			Paused: new(true), Note: "why", PauseOnFailure: true,
			Spec: &run.Spec{Name: "n", Group: "/a/b", Tasks: map[string]*run.TaskSpec{"t": {Steps: []run.Step{{Run: "true"}}}}},
		},
		RunName: "n", Group: "/a/b", SecretNames: []string{"TOKEN"}, CreatedAt: at, UpdatedAt: at, Next: []time.Time{at}, Fired: 3, Overlapped: 2,
		MissedCatchup: 1, Recent: []run.Firing{{For: at, At: at, Run: runID, Phase: run.PhaseFinished, Result: run.ResultSuccess}, {For: at, At: at, Error: "no pool"}},
	}
}

func TestServer_schedules(t *testing.T) {
	t.Parallel()
	queries, deleted := make(chan run.ScheduleQuery, 1), make(chan string, 1)
	base := serve(t, gateway.Deps{Schedules: &runtest.Schedules{
		SchedulesFunc: func(q run.ScheduleQuery) (run.SchedulePage, error) {
			queries <- q
			x := nightly()
			x.Spec, x.Recent = nil, nil
			return run.SchedulePage{Schedules: []run.Schedule{x}, After: "nightly"}, nil
		},
		ScheduleFunc:       func(string) (run.Schedule, error) { return nightly(), nil },
		DeleteScheduleFunc: func(name string) error { deleted <- name; return nil },
	}}, gateway.Options{})
	var list api.ScheduleList
	call{path: "/api/v1/schedules?after=a&limit=7"}.do(t, base).read(t, &list)
	require.Equal(t, run.ScheduleQuery{After: "a", Limit: 7}, <-queries)
	require.Equal(t, "nightly", list.NextAfter)
	require.Empty(t, list.Schedules[0].Spec)
	got := call{path: schedulePath}.do(t, base)
	conforms(t, "Schedule", got.body)
	var x api.Schedule
	got.read(t, &x)
	require.JSONEq(t, `{"name": "n", "group": "/a/b", "tasks": {"t": {"steps": [{"run": "true"}]}}}`, string(x.Spec))
	require.Equal(t, api.Overlap("skip"), x.Overlap)
	require.Equal(t, "1m0s", x.Jitter)
	require.True(t, x.Paused)
	require.Equal(t, []int{3, 2, 1}, []int{x.Fired, x.OverlapSkipped, x.CatchupMissed})
	require.Equal(t, "no pool", x.Recent[1].Error)
	require.Equal(t, http.StatusNoContent, call{method: http.MethodDelete, path: schedulePath, header: map[string]string{"Content-Type": ""}}.do(t, base).status)
	require.Equal(t, "nightly", <-deleted)
}

func TestServer_schedules_put(t *testing.T) {
	t.Parallel()
	received := make(chan run.ScheduleSpec, 1)
	for _, created := range []bool{true, false} {
		base := serve(t, gateway.Deps{Schedules: &runtest.Schedules{
			PutScheduleFunc: func(x run.ScheduleSpec, _ string) (run.Schedule, bool, error) {
				received <- x
				return nightly(), created, nil
			},
		}}, gateway.Options{})
		for media, body := range map[string]string{
			"application/yaml": "name: nightly\nspec: {name: n, group: /a/b, environment: {V: 1.20}}\ncron: ['@daily']\n",
			"application/json": `{"spec": {"name": "n", "group": "/a/b", "environment": {"V": "1.20"}}, "cron": ["@daily"]}`,
		} {
			got := call{method: http.MethodPut, path: schedulePath, body: body, header: map[string]string{"Content-Type": media}}.do(t, base)
			require.Equal(t, map[bool]int{true: http.StatusCreated, false: http.StatusOK}[created], got.status, got.body)
			require.Equal(t, map[bool]string{true: schedulePath}[created], got.header.Get("Location"))
			require.Equal(t, run.ScheduleSpec{
				Name: "nightly", Cron: []string{"@daily"},
				Spec: &run.Spec{Name: "n", Group: "/a/b", Environment: map[string]string{"V": "1.20"}},
			}, <-received)
		}
	}
}

func TestServer_schedules_put_refused(t *testing.T) {
	t.Parallel()
	base := serve(t, gateway.Deps{Schedules: &runtest.Schedules{
		PutScheduleFunc: func(run.ScheduleSpec, string) (run.Schedule, bool, error) {
			return run.Schedule{}, false, run.InvalidError("no good", []run.Fault{{Path: "spec.tasks.t.pool", Code: "unknown_pool", Detail: "no pool"}})
		},
	}}, gateway.Options{})
	yaml := map[string]string{"Content-Type": "application/yaml"}
	body := "spec:\n  name: n\n  group: /a/b\n  tasks:\n    t: {pool: none, steps: [{run: x}]}\ncron: ['@daily']\n"
	p := call{method: http.MethodPut, path: schedulePath, body: body, header: yaml}.do(t, base).problem(t, http.StatusUnprocessableEntity, run.CodeInvalid)
	require.Equal(t, []api.Fault{{Path: "spec.tasks.t.pool", Line: 5, Code: "unknown_pool", Detail: "no pool"}}, p.Errors)
	p = call{method: http.MethodPut, path: schedulePath, body: "spec: {colour: n}", header: yaml}.do(t, base).problem(t, http.StatusUnprocessableEntity, run.CodeInvalid)
	require.Equal(t, "spec.colour", p.Errors[0].Path)
	p = call{method: http.MethodPut, path: schedulePath, body: "name: other\nspec: {}", header: yaml}.do(t, base).problem(t, http.StatusUnprocessableEntity, run.CodeInvalid)
	require.Equal(t, "name", p.Errors[0].Path)
	call{method: http.MethodPut, path: schedulePath, body: "{", header: yaml}.do(t, base).problem(t, http.StatusBadRequest, run.CodeUnreadable)
	none := serve(t, gateway.Deps{}, gateway.Options{})
	for _, c := range []call{
		{path: schedulePath},
		{path: "/api/v1/schedules"},
		{method: http.MethodPut, path: schedulePath, body: "{}"},
		{method: http.MethodDelete, path: schedulePath},
		{method: http.MethodPost, path: schedulePath + "/trigger"},
		{method: http.MethodPost, path: schedulePath + "/pause"},
		{method: http.MethodPost, path: schedulePath + "/resume"},
		{method: http.MethodPost, path: schedulePath + "/backfill", body: "{}"},
	} {
		c.do(t, none).problem(t, http.StatusUnprocessableEntity, run.CodeNotSupported)
	}
}

func TestServer_schedule_actions(t *testing.T) {
	t.Parallel()
	received := make(chan any, 1)
	note := func(name, note string) (run.Schedule, error) {
		received <- []string{name, note}
		return nightly(), nil
	}
	base := serve(t, gateway.Deps{Schedules: &runtest.Schedules{
		PauseScheduleFunc: note, ResumeScheduleFunc: note,
		TriggerScheduleFunc: func(name string, o run.Overlap) (run.Schedule, error) {
			received <- []string{name, string(o)}
			return nightly(), nil
		},
		BackfillScheduleFunc: func(_ string, b run.Backfill) (run.Schedule, error) {
			received <- b
			return nightly(), nil
		},
	}}, gateway.Options{})
	from, to := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		path, body string
		want       any
	}{
		{"/pause", `{"note": "why"}`, []string{"nightly", "why"}},
		{"/pause", ``, []string{"nightly", "paused by local"}},
		{"/resume", ``, []string{"nightly", "resumed by local"}},
		{"/trigger", ``, []string{"nightly", ""}},
		{"/trigger", `{"overlap": "allow_all"}`, []string{"nightly", "allow_all"}},
		{"/backfill", `{"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}`, run.Backfill{From: from, To: to}},
	} {
		got := call{method: http.MethodPost, path: schedulePath + tt.path, body: tt.body}.do(t, base)
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.True(t, json.Valid([]byte(got.body)))
		require.Equal(t, tt.want, <-received)
	}
	call{method: http.MethodPost, path: schedulePath + "/backfill", body: `{"form": "x"}`}.do(t, base).problem(t, http.StatusUnprocessableEntity, run.CodeInvalid)
}
