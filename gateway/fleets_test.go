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

const fleetPath = "/api/v1/fleets/linux"

func testFleet() run.Fleet {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	desired := 3
	return run.Fleet{
		Name: "linux", Mode: run.FleetActive, Desired: &desired, CreatedAt: at, UpdatedAt: at, Version: 2,
		Spec: run.FleetSpec{
			Pool: "linux", Plugin: "docker", PluginConfig: json.RawMessage(`{"image": "a", "api_token": "hunter2", "nested": [{"password": "hunter2"}]}`),
			ConnectorConfig: run.FleetConnector{Username: "u", Password: "hunter2"}, Scaling: run.Scaling{MaxInstances: 4},
		},
		Counts: map[run.InstanceState]int{run.InstanceReady: 2}, Status: run.FleetStatus{SeenAt: at, Target: 2},
	}
}

func TestServer_fleets(t *testing.T) {
	t.Parallel()
	base := serve(t, gateway.Deps{Fleets: &runtest.Fleets{
		FleetsFunc: func() ([]run.Fleet, error) { return []run.Fleet{testFleet()}, nil },
		FleetFunc:  func(string) (run.Fleet, error) { return testFleet(), nil },
		DeleteFunc: func(_, by string) (run.Fleet, error) {
			f := testFleet()
			f.Mode, f.Reason = run.FleetDeleting, by
			return f, nil
		},
		InstancesFunc: func(_ string, gone bool) ([]run.FleetInstance, error) {
			require.True(t, gone)
			return []run.FleetInstance{{Number: 1, Instance: "vm", Cause: run.CauseRequested, State: run.InstanceGone, Message: "idle", RequestedAt: time.Now()}}, nil
		},
		EventsFunc: func(_ string, after int64, n int) ([]run.FleetEvent, error) {
			require.Equal(t, []int64{7, 3}, []int64{after, int64(n)})
			return []run.FleetEvent{{Number: 8, Kind: "ready", By: "fleet", Text: "so"}}, nil
		},
	}}, gateway.Options{})
	var list api.FleetList
	call{path: "/api/v1/fleets"}.do(t, base).read(t, &list)
	require.Len(t, list.Fleets, 1)
	got := call{path: fleetPath}.do(t, base)
	conforms(t, "Fleet", got.body)
	require.NotContains(t, got.body, "hunter2")
	var f api.Fleet
	got.read(t, &f)
	require.Equal(t, 3, *f.Desired)
	require.JSONEq(t, `{"image": "a", "api_token": "***", "nested": [{"password": "***"}]}`, string(f.Spec.PluginConfig))
	require.Equal(t, 4, f.Spec.MaxInstances)
	require.Equal(t, 2, f.Counts["ready"])
	got = call{path: fleetPath + "/instances?gone=true"}.do(t, base)
	conforms(t, "FleetInstanceList", got.body)
	got = call{path: fleetPath + "/events?after=7&limit=3"}.do(t, base)
	conforms(t, "FleetEventList", got.body)
	require.Equal(t, http.StatusAccepted, call{method: http.MethodDelete, path: fleetPath, body: "{}"}.do(t, base).status)
}

// TestServer_fleets_hide_credentials checks that values below keys that look like
// credentials are hidden, and that their shape is kept.
func TestServer_fleets_hide_credentials(t *testing.T) {
	t.Parallel()
	shown := testFleet()
	base := serve(t, gateway.Deps{Fleets: &runtest.Fleets{FleetFunc: func(string) (run.Fleet, error) { return shown, nil }}}, gateway.Options{})
	for config, want := range map[string]string{
		`{"tokens": ["hunter2", "hunter2"]}`:                             `{"tokens": ["***", "***"]}`,
		`{"credentials": {"user": "hunter2", "more": [{"pin": 4711}]}}`:  `{"credentials": {"user": "***", "more": [{"pin": "***"}]}}`,
		`{"secret": {"a": [["hunter2"], {}], "on": true, "none": null}}`: `{"secret": {"a": [["***"], {}], "on": "***", "none": null}}`,
		`{"password": 4711}`: `{"password": "***"}`,
		`{"a": [{"private_keys": {"id": "hunter2"}, "id": "shown"}]}`:             `{"a": [{"private_keys": {"id": "***"}, "id": "shown"}]}`,
		`{"accessKey": "hunter2", "API-Key": "hunter2", "ssh_keys": ["hunter2"]}`: `{"accessKey": "***", "API-Key": "***", "ssh_keys": ["***"]}`,
		`{"passphrase": "hunter2", "image": "shown", "size": {"gib": 2}}`:         `{"passphrase": "***", "image": "shown", "size": {"gib": 2}}`,
		`{"auth": {"credentials": [{"token": {"value": "hunter2"}}], "n": 1}}`:    `{"auth": {"credentials": [{"token": {"value": "***"}}], "n": 1}}`,
	} {
		shown.Spec.PluginConfig = json.RawMessage(config)
		got := call{path: fleetPath}.do(t, base)
		require.NotContains(t, got.body, "hunter2")
		var f api.Fleet
		got.read(t, &f)
		require.JSONEq(t, want, string(f.Spec.PluginConfig), config)
	}
}

func TestServer_fleet_actions(t *testing.T) {
	t.Parallel()
	received := make(chan any, 1)
	base := serve(t, gateway.Deps{Fleets: &runtest.Fleets{
		PutFunc: func(_ string, s run.FleetSpec, _ string) (run.Fleet, bool, error) {
			received <- s
			if s.Pool == "none" {
				return run.Fleet{}, false, run.InvalidError("no good", []run.Fault{{Path: "pool", Code: "unknown_pool", Detail: "no pool"}})
			}
			return testFleet(), true, nil
		},
		ControlFunc: func(_ string, s run.FleetControl) (run.Fleet, error) {
			s.By = ""
			received <- s
			return testFleet(), nil
		},
	}}, gateway.Options{})
	yaml := map[string]string{"Content-Type": "application/yaml"}
	got := call{method: http.MethodPut, path: fleetPath, header: yaml, body: "name: linux\npool: linux\nplugin: docker\nplugin_config: {image: a}\nmax_instances: 4\n" +
		"policy: [{idle_count: 2, idle_time: 5m}]\nquota: {name: q, limit: 7.5}\n"}.do(t, base)
	require.Equal(t, http.StatusCreated, got.status, got.body)
	require.Equal(t, fleetPath, got.header.Get("Location"))
	require.Equal(t, run.FleetSpec{
		Pool: "linux", Plugin: "docker", PluginConfig: json.RawMessage(`{"image":"a"}`), Quota: &run.FleetQuota{Name: "q", Limit: 7.5},
		Scaling: run.Scaling{MaxInstances: 4, Policy: []run.ScalingPolicy{{IdleCount: 2, IdleTime: run.Duration(5 * time.Minute)}}},
	}, <-received)
	p := call{method: http.MethodPut, path: fleetPath, header: yaml, body: "plugin: docker\npool: none\n"}.do(t, base).
		problem(t, http.StatusUnprocessableEntity, run.CodeInvalid)
	require.Equal(t, []api.Fault{{Path: "pool", Line: 2, Code: "unknown_pool", Detail: "no pool"}}, p.Errors)
	<-received
	p = call{method: http.MethodPut, path: fleetPath, header: yaml, body: "max_instance: 3"}.do(t, base).problem(t, http.StatusUnprocessableEntity, run.CodeInvalid)
	require.Equal(t, "max_instance", p.Errors[0].Path)
	for action, want := range map[string]run.FleetControl{
		"pause":  {Action: run.FleetActionPause, Reason: "so"},
		"resume": {Action: run.FleetActionResume, Reason: "so"},
		"drain":  {Action: run.FleetActionDrain, Reason: "so"},

		"rollout/pause":  {Action: run.FleetActionPauseRollout, Reason: "so"},
		"rollout/resume": {Action: run.FleetActionResumeRollout, Reason: "so"},
		"scale":          {Action: run.FleetActionScale, Reason: "so", Instances: 5},
	} {
		body := `{"reason": "so"}`
		if action == "scale" {
			body = `{"reason": "so", "instances": 5}`
		}
		require.Equal(t, http.StatusOK, call{method: http.MethodPost, path: fleetPath + "/" + action, body: body}.do(t, base).status)
		require.Equal(t, want, <-received)
	}
	none := serve(t, gateway.Deps{}, gateway.Options{})
	for _, c := range []call{
		{path: fleetPath},
		{path: "/api/v1/fleets"},
		{path: fleetPath + "/instances"},
		{path: fleetPath + "/events"},
		{method: http.MethodPut, path: fleetPath, body: "{}"},
		{method: http.MethodDelete, path: fleetPath},
		{path: fleetPath + "/rollout"},
		{method: http.MethodPost, path: fleetPath + "/rollout/undo", body: "{}"},
		{method: http.MethodPost, path: fleetPath + "/pause", body: "{}"},
		{method: http.MethodPost, path: fleetPath + "/scale", body: `{"instances": 1}`},
	} {
		c.do(t, none).problem(t, http.StatusUnprocessableEntity, run.CodeNotSupported)
	}
}

func TestServer_fleet_rollouts(t *testing.T) {
	t.Parallel()
	var undone run.FleetUndo
	base := serve(t, gateway.Deps{Fleets: &runtest.Fleets{
		RolloutFunc: func(string) (run.FleetRollout, error) {
			return run.FleetRollout{
				RolloutStatus: run.RolloutStatus{Revision: 1, Phase: run.RolloutFailed, Message: "so", Required: 4, Updated: 3, Ready: 2, Outdated: 1}, Current: 2,
				Revisions: []run.FleetRevision{{Number: 2, By: "me", Instances: 3, Settings: run.SettingsOf(testFleet().Spec)}},
			}, nil
		},
		UndoFunc: func(_ string, u run.FleetUndo) (run.Fleet, error) {
			undone = u
			if u.Revision == 9 {
				return run.Fleet{}, run.Errorf(run.CodeNotFound, "there is no revision 9 of fleet linux; it has 2, 1")
			}
			return testFleet(), nil
		},
	}}, gateway.Options{})
	got := call{path: fleetPath + "/rollout"}.do(t, base)
	conforms(t, "FleetRollout", got.body)
	require.NotContains(t, got.body, "hunter2")
	var r api.FleetRollout
	got.read(t, &r)
	require.Equal(t, []any{2, 1, "failed", "so"}, []any{r.Revision, r.ObservedRevision, string(r.Phase), r.Message})
	require.Equal(t, []int{4, 3, 2, 1}, []int{r.Required, r.Updated, r.Ready, r.Outdated})
	require.JSONEq(t, `{"image": "a", "api_token": "***", "nested": [{"password": "***"}]}`, string(r.Revisions[0].Settings.PluginConfig))

	undo := func(body string) call {
		return call{method: http.MethodPost, path: fleetPath + "/rollout/undo", body: body}
	}
	require.Equal(t, http.StatusOK, undo(`{"to_revision": 3, "reason": "so"}`).do(t, base).status)
	require.Equal(t, 3, undone.Revision)
	require.Equal(t, "so", undone.Reason)
	require.Equal(t, http.StatusOK, undo(`{}`).do(t, base).status)
	require.Zero(t, undone.Revision)
	undo(`{"to_revision": 9}`).do(t, base).problem(t, http.StatusNotFound, run.CodeNotFound)
	undo(`{"revision": 1}`).do(t, base).problem(t, http.StatusUnprocessableEntity, run.CodeInvalid)
}
