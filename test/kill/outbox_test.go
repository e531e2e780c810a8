package kill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/test/harness"
)

// TestOutbox_kill kills all of Drover once, at an exact point: between the
// transaction of a client's call and its delivery to a workflow, or between the
// grant of a slot and the start of its run. A run that was being created does not
// exist, or continues by itself. A retry with the same key returns the same run.
// Every run ends once, with the expected result.
func TestOutbox_kill(t *testing.T) {
	t.Parallel()
	points := []string{
		"creating", "created", "changed", "begun", "granting", "granted", "ending", "ended",
		"closed:start", "closed:admit", "closed:grant", "closed:stop", "closed:approve", "closed:cancel",
	}
	// An outbox row that was taken is due again when its lease expires.
	if kinds := []string{"start", "admit", "grant", "stop", "approve", "cancel"}; harness.Soak() {
		for _, kind := range kinds {
			points = append(points, "taken:"+kind, "delivered:"+kind)
		}
	} else if !testing.Short() {
		points = append(points, "taken:start", "delivered:start", "taken:admit", "delivered:admit")
	}
	for _, point := range points {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			killAt(t, point)
		})
	}
}

// expectedRun is a run that a client creates, and its expected outcome.
type expectedRun struct {
	name   string // also the idempotency key
	spec   string
	id     string
	result api.Result
	phase  api.Phase
}

func killAt(t *testing.T, point string) {
	t.Helper()
	dir := t.TempDir()
	dev := harness.StartDev(t, []string{
		"DROVER_DEV__SLOTS=8", "DROVER_CHAOS_KILL=" + point, "DROVER_CHAOS_ONCE=" + filepath.Join(dir, "killed"),
	}, "--executor", "shell")
	c := &restartingClient{t: t, dev: dev}
	spec := func(name, more, script string) string {
		return fmt.Sprintf("name: %s\ngroup: /test/outbox\n%s\ntasks: {t: {%ssteps: [{run: 'echo ran >> %s; %s'}]}}\n",
			name, more, map[bool]string{true: "approval: true, "}[name == "approved" || name == "rejected"], filepath.Join(dir, name), script)
	}
	await := "while [ ! -e " + filepath.Join(dir, "go") + " ]; do sleep 0.05; done"
	runs := []*expectedRun{
		{name: "alone", spec: spec("alone", "", "true"), phase: api.PhaseFinished, result: api.ResultSuccess},
		{name: "holder", spec: spec("holder", "changegroups: [outbox]", await), phase: api.PhaseFinished, result: api.ResultSuccess},
		{name: "waiter", spec: spec("waiter", "changegroups: [outbox]", "true"), phase: api.PhaseFinished, result: api.ResultSuccess},
		{name: "started", spec: spec("started", "admission: manual", "true"), phase: api.PhaseFinished, result: api.ResultSuccess},
		{name: "approved", spec: spec("approved", "", "true"), phase: api.PhaseFinished, result: api.ResultSuccess},
		{name: "stopped", spec: spec("stopped", "", "sleep 600"), phase: api.PhaseFinished, result: api.ResultStopped},
		{name: "cancelled", spec: spec("cancelled", "admission: manual", "true"), phase: api.PhaseCancelled, result: api.ResultUnknown},
		{name: "rejected", spec: spec("rejected", "", "true"), phase: api.PhaseFinished, result: api.ResultFailed},
	}
	c.callUntilAnswered(http.MethodPut, "/changegroups/outbox", "", `{"max_running": 1}`)
	for _, r := range runs {
		c.create(r, point == "creating")
	}
	// A call whose response was lost is repeated; it may have succeeded before.
	c.callUntilAnswered(http.MethodPost, "/runs/"+runs[3].id+"/start", "", "{}")
	c.callUntilAnswered(http.MethodPost, "/runs/"+runs[6].id+"/cancel", "", "{}")
	c.await(runs[7].id, func(r api.Run) bool { return r.Tasks["t"].Status == "waiting_approval" })
	c.callUntilAnswered(http.MethodPost, "/runs/"+runs[7].id+"/tasks/t/reject", "", `{"reason": "no"}`)
	c.await(runs[4].id, func(r api.Run) bool { return r.Tasks["t"].Status == "waiting_approval" })
	c.callUntilAnswered(http.MethodPost, "/runs/"+runs[4].id+"/tasks/t/approve", "", "{}")
	testenv.Await(t, func() (bool, string) {
		c.restartIfEnded()
		data, _ := os.ReadFile(filepath.Join(dir, "stopped"))
		return len(data) > 0, "the step did not begin"
	})
	c.callUntilAnswered(http.MethodPost, "/runs/"+runs[5].id+"/stop", "", "{}")
	c.await(runs[1].id, func(r api.Run) bool { return r.Tasks["t"].Status == "running" })
	require.Equal(t, api.PhaseQueued, c.get(runs[2].id).Phase)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))

	for _, r := range runs {
		got := c.await(r.id, func(got api.Run) bool { return run.Phase(got.Phase).Final() })
		require.Equal(t, r.phase, got.Phase, "%s: %s", r.name, harness.Describe(got))
		require.Equal(t, r.result, got.Result, "%s: %s", r.name, harness.Describe(got))
	}
	require.Equal(t, 1, c.kills, "drover was killed once at %s", point)
	c.check(dir, runs)
}

// restartingClient is a client of a drover that kills itself. The client restarts drover
// when it finds it dead.
type restartingClient struct {
	t     *testing.T
	dev   *harness.Dev
	kills int
}

// once makes a call. It returns false if drover ended before it responded; drover
// is restarted then.
func (c *restartingClient) once(method, path, key, body string) (int, http.Header, string, bool) {
	c.t.Helper()
	status, header, text, err := c.try(method, path, key, body)
	if err == nil {
		return status, header, text, true
	}
	testenv.Await(c.t, func() (bool, string) { return !c.dev.Running(), fmt.Sprintf("%s %s: %v", method, path, err) })
	c.restartIfEnded()
	return 0, nil, "", false
}

func (c *restartingClient) restartIfEnded() {
	if !c.dev.Running() {
		c.kills++
		c.dev.Restart()
	}
}

func (c *restartingClient) try(method, path, key, body string) (int, http.Header, string, error) {
	ctx, cancel := context.WithTimeoutCause(c.t.Context(), testenv.Patience(c.t), errors.New("no response in time"))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.dev.Server+"/api/v1"+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, "", fmt.Errorf("create the request: %w", err)
	}
	if method != http.MethodGet {
		req.Header.Set("Content-Type", map[bool]string{true: "application/json", false: "application/yaml"}[strings.HasPrefix(body, "{")])
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	req.Header.Set("Authorization", "Bearer "+c.dev.Token)
	resp, err := harness.HTTPClient(c.t).Do(req)
	if err != nil {
		return 0, nil, "", fmt.Errorf("call %s: %w", path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, nil, "", fmt.Errorf("read the response to %s: %w", path, err)
	}
	return resp.StatusCode, resp.Header, string(text), nil
}

// callUntilAnswered repeats a call until drover responds, and returns the body. A conflict is
// accepted only after a lost response.
func (c *restartingClient) callUntilAnswered(method, path, key, body string) string {
	c.t.Helper()
	for lost := false; ; lost = true {
		status, _, text, ok := c.once(method, path, key, body)
		if !ok {
			continue
		}
		if !lost || status != http.StatusConflict {
			require.Less(c.t, status, 300, "%s %s: %s", method, path, text)
		}
		return text
	}
}

// create creates a run. If the response is lost, it checks first whether the run
// exists, which it must not if absent is true, and then repeats the call.
func (c *restartingClient) create(r *expectedRun, absent bool) {
	c.t.Helper()
	status, _, text, ok := c.once(http.MethodPost, "/runs", r.name, r.spec)
	if !ok {
		created := ""
		for _, there := range c.list() {
			if there.Name == r.name {
				created = there.ID
			}
		}
		if absent {
			require.Empty(c.t, created, "the run was not stored")
		}
		if created != "" && r.name == "alone" {
			c.await(created, func(r api.Run) bool { return r.Phase == api.PhaseFinished })
		}
		status, _, text, ok = c.once(http.MethodPost, "/runs", r.name, r.spec)
		require.True(c.t, ok, "drover is killed once")
		if created != "" {
			require.Contains(c.t, text, created, "the same key gives the same run")
		}
	}
	require.Equal(c.t, http.StatusCreated, status, text)
	var got api.Run
	require.NoError(c.t, json.Unmarshal([]byte(text), &got))
	r.id = got.ID
}

func (c *restartingClient) list() []api.Run {
	c.t.Helper()
	var page api.RunPage
	require.NoError(c.t, json.Unmarshal([]byte(c.callUntilAnswered(http.MethodGet, "/runs?limit=100", "", "")), &page))
	return page.Runs
}

func (c *restartingClient) get(id string) api.Run {
	c.t.Helper()
	var r api.Run
	require.NoError(c.t, json.Unmarshal([]byte(c.callUntilAnswered(http.MethodGet, "/runs/"+id, "", "")), &r))
	return r
}

func (c *restartingClient) await(id string, want func(api.Run) bool) api.Run {
	c.t.Helper()
	var r api.Run
	testenv.Await(c.t, func() (bool, string) {
		c.restartIfEnded()
		r = c.get(id)
		return want(r), harness.Describe(r)
	})
	return r
}

// check requires that exactly these runs exist, that the idempotency keys still
// return them, that no step ran twice, and that no slot is held.
func (c *restartingClient) check(dir string, runs []*expectedRun) {
	c.t.Helper()
	for _, r := range runs {
		status, header, text, ok := c.once(http.MethodPost, "/runs", r.name, r.spec)
		require.True(c.t, ok)
		require.Equal(c.t, http.StatusCreated, status, text)
		require.Equal(c.t, "true", header.Get("Idempotent-Replayed"))
		require.Contains(c.t, text, r.id)
		data, err := os.ReadFile(filepath.Join(dir, r.name))
		if r.phase == api.PhaseCancelled || r.result == api.ResultFailed {
			require.ErrorIs(c.t, err, os.ErrNotExist, "the run never started, or its task was rejected")
			continue
		}
		require.NoError(c.t, err)
		require.Equal(c.t, "ran\n", string(data), "the step of %s", r.name)
	}
	require.Len(c.t, c.list(), len(runs))
	var g api.ChangeGroup
	require.NoError(c.t, json.Unmarshal([]byte(c.callUntilAnswered(http.MethodGet, "/changegroups/outbox", "", "")), &g))
	require.Empty(c.t, g.Running)
	require.Empty(c.t, g.Queued)
	ended := 0
	pool := harness.NewClientPool(c.t, harness.NewClient(c.t, c.dev.Server, c.dev.Token))
	harness.CheckOrder(c.t, pool.Events(c.t.Context(), func(e api.Event) bool {
		if e.Type == "run" && run.Phase(e.Phase).Final() {
			ended++
		}
		return ended == len(runs)
	}))
}

// TestOutbox_without_temporal creates runs while Temporal is down, and kills the
// gateway after it stored one. The runs exist, stay queued, and start once
// Temporal is back. An idempotency key returns the same run throughout.
func TestOutbox_without_temporal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	parts := harness.StartParts(t, "4", map[harness.Part][]string{
		harness.Gateway: {"DROVER_CHAOS_KILL=created", "DROVER_CHAOS_ONCE=" + filepath.Join(dir, "killed")},
	})
	c := harness.NewClientPool(t, parts.Client)
	parts.Processes[harness.Temporal].Kill()
	spec := func(name string) string {
		return fmt.Sprintf(`{"name": %q, "group": "/test/away", "tasks": {"t": {"steps": [{"run": "echo ran >> %s"}]}}}`, name, filepath.Join(dir, name))
	}
	create := func(name string) api.Run {
		t.Helper()
		status, text := c.Call(t.Context(), http.MethodPost, "/runs", name, spec(name))
		require.Equal(t, http.StatusCreated, status, text)
		var r api.Run
		require.NoError(t, json.Unmarshal([]byte(text), &r))
		return r
	}
	// The gateway kills itself once it has stored the first run.
	_, _, err := c.Once(t.Context(), parts.Client, http.MethodPost, "/runs", "first", spec("first"))
	require.Error(t, err)
	testenv.Await(t, func() (bool, string) { return !parts.Processes[harness.Gateway].Running(), "the gateway is running" })
	parts.Launch(harness.Gateway).AwaitReady()
	ids := map[string]string{}
	for _, name := range []string{"first", "second", "third"} {
		ids[name] = create(name).ID
		require.Equal(t, ids[name], create(name).ID, "the same key gives the same run")
	}
	require.Len(t, c.List(t.Context(), "phase=queued"), 3)
	require.Regexp(t, `^Temporal is out of reach since \d\d:\d\d:\d\d UTC: nothing starts, and what runs continues; starts as soon as`,
		parts.Get(ids["first"]).Reason)
	// Long enough for every process to have retried.
	since := time.Now()
	testenv.Await(t, func() (bool, string) { return time.Since(since) > 3*time.Second, "waiting" })
	parts.Processes[harness.Control].Kill()
	parts.Launch(harness.Temporal).AwaitReady()
	parts.Launch(harness.Control).AwaitReady()
	for name, id := range ids {
		require.Equal(t, api.ResultSuccess, parts.AwaitPhase(id, api.PhaseFinished).Result)
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, "ran\n", string(data))
		require.Equal(t, id, create(name).ID)
	}
	require.Len(t, c.List(t.Context(), ""), 3)
}
