package gateway_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/blobs"
	"github.com/drover-run/drover/engine"
	"github.com/drover-run/drover/gateway"
	"github.com/drover-run/drover/internal/durable"
	"github.com/drover-run/drover/internal/roles"
	"github.com/drover-run/drover/internal/secrets"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/internal/tokens"
	"github.com/drover-run/drover/records/sqlite"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/runtest"
)

// operand is what an operation is about.
type operand string

const (
	ofNone     operand = "none"     // no roles are needed
	ofRun      operand = "run"      // a run
	ofList     operand = "list"     // what the caller may see
	ofGroup    operand = "group"    // the group that the request names
	ofSchedule operand = "schedule" // a schedule
	ofPool     operand = "pool"     // a pool
	ofFleet    operand = "fleet"    // a fleet
	ofAll      operand = "all"      // all groups
	ofExecutor operand = "executor" // executors only
)

// allowance says which roles may call an operation.
type allowance struct {
	operand

	roles string
}

// The roles that have a permission.
const (
	viewers    = "viewer submitter approver operator admin"
	submitters = "submitter operator admin"
	approvers  = "approver operator admin"
	operators  = "operator admin"
	admins     = "admin"
)

// matrix has a row for each operation of the contract.
func matrix() map[string]allowance {
	return map[string]allowance{
		"createRun": {ofGroup, submitters}, "deleteRuns": {ofGroup, admins}, "validateSpec": {ofList, submitters},
		"listRuns": {ofList, viewers}, "listApprovals": {ofList, viewers}, "listGroups": {ofList, viewers}, "streamEvents": {ofList, viewers},

		"getRun": {ofRun, viewers}, "getRunSpec": {ofRun, viewers}, "getTaskLogs": {ofRun, viewers}, "getTaskLogIndex": {ofRun, viewers},
		"searchTaskLog": {ofRun, viewers}, "listArtifacts": {ofRun, viewers}, "getArtifact": {ofRun, viewers}, "listArtifactEntries": {ofRun, viewers},
		"restartRun": {ofRun, submitters}, "planRestart": {ofRun, submitters}, "startRun": {ofRun, submitters}, "cancelRun": {ofRun, submitters}, "stopRun": {ofRun, submitters},
		"putRunAnnotations": {ofRun, submitters}, "putTaskAnnotations": {ofRun, submitters},
		"approveTask": {ofRun, approvers}, "rejectTask": {ofRun, approvers}, "deleteRun": {ofRun, admins}, "execInTask": {ofRun, admins},

		"listChangeGroups": {ofAll, viewers}, "getChangeGroup": {ofAll, viewers}, "putChangeGroup": {ofAll, operators},
		"listSchedules": {ofList, viewers}, "getSchedule": {ofSchedule, viewers}, "putSchedule": {ofGroup, submitters}, "deleteSchedule": {ofSchedule, submitters},
		"pauseSchedule": {ofSchedule, submitters}, "resumeSchedule": {ofSchedule, submitters}, "triggerSchedule": {ofSchedule, submitters}, "backfillSchedule": {ofSchedule, submitters},
		"listWebhooks": {ofAll, admins}, "getWebhook": {ofAll, admins}, "putWebhook": {ofAll, admins}, "deleteWebhook": {ofAll, admins}, "testWebhook": {ofAll, admins},
		"listExecutors": {ofAll, viewers}, "getExecutor": {ofAll, viewers}, "drainExecutor": {ofAll, operators}, "removeExecutor": {ofAll, operators},
		"listPools": {ofPool, viewers}, "getPool": {ofPool, viewers}, "putPool": {ofAll, admins}, "deletePool": {ofAll, admins},
		"listFleets": {ofList, viewers}, "getFleet": {ofFleet, viewers}, "listFleetInstances": {ofFleet, viewers}, "listFleetEvents": {ofFleet, viewers},
		"getFleetRollout": {ofFleet, viewers}, "pauseFleet": {ofFleet, operators}, "resumeFleet": {ofFleet, operators}, "drainFleet": {ofFleet, operators},
		"scaleFleet": {ofFleet, operators}, "undoFleetRollout": {ofFleet, operators}, "pauseFleetRollout": {ofFleet, operators},
		"resumeFleetRollout": {ofFleet, operators}, "putFleet": {ofAll, admins}, "deleteFleet": {ofAll, admins},
		"listTokens": {ofAll, admins}, "createToken": {ofAll, admins}, "revokeToken": {ofAll, admins},
		"listRoleGrants": {ofAll, admins}, "getRoleGrants": {ofAll, admins}, "putRoleGrants": {ofAll, admins}, "deleteRoleGrants": {ofAll, admins},
		"getRetention": {ofAll, viewers}, "previewRetention": {ofAll, viewers}, "getMetrics": {ofAll, viewers},

		"listAuditRecords": {ofAll, admins}, "exportAuditRecords": {ofAll, admins},
		"getLinks": {ofNone, ""}, "getVersion": {ofNone, ""},
		"getLoginOptions": {ofNone, ""}, "beginProviderLogin": {ofNone, ""}, "completeProviderLogin": {ofNone, ""},
		"beginSession": {ofNone, ""}, "getSession": {ofNone, ""}, "endSession": {ofNone, ""},
		"getHealth": {ofNone, ""}, "getReady": {ofNone, ""}, "getOpenAPI": {ofNone, ""}, "getRunSchema": {ofNone, ""},

		"registerExecutor": {ofExecutor, ""}, "renewExecutor": {ofExecutor, ""}, "claimTask": {ofExecutor, ""}, "appendFrames": {ofExecutor, ""},
		"getClaimStates": {ofExecutor, ""}, "awaitSessions": {ofExecutor, ""}, "joinSession": {ofExecutor, ""}, "findArchives": {ofExecutor, ""},
		"beginArchive": {ofExecutor, ""}, "openArchive": {ofExecutor, ""}, "saveArchive": {ofExecutor, ""},
	}
}

const (
	ours   = "/acme/web" // the group of the runs of the matrix
	theirs = "/other/web"
	below  = ours + "/deploy"
)

// bindings are the groups to which the tokens of the matrix are bound.
func bindings() map[string]string {
	return map[string]string{"own": "/acme/**", "foreign": "/other/**", "neighbour": "/acme/we/**", "all": "/**"}
}

// fleetGroups are the groups of the fleets of the matrix, each with a pool of its name.
func fleetGroups() map[string]string { return map[string]string{"p": ours, "x": theirs} }

// tenants is a gateway on an engine and records of its own, with a principal for each role
// and binding.
type tenants struct {
	*engine.Engine

	base      string
	token     func(principal string) string
	scheduler *engine.Scheduler // nil: the schedules are a fake
	store     *sqlite.Store
}

// newTenants returns tenants whose principals are those of tokens.
func newTenants(t *testing.T) tenants {
	t.Helper()
	known, token := tenantTokens(t)
	return tenantsOf(t, known, token)
}

// tenantTokens returns the tokens of the principals, and the token of each.
func tenantTokens(t *testing.T) (tokens.Authenticator, func(principal string) string) {
	t.Helper()
	var list []tokens.Token
	for name, b := range principals() {
		list = append(list, tokens.Token{Name: name, Hash: tokens.Hash(name), Roles: roles.Bindings{b}})
	}
	known, err := tokens.NewList(list)
	require.NoError(t, err)
	return known, func(name string) string { return name }
}

// principals has the binding of each principal of the matrix, by its name.
func principals() map[string]roles.Binding {
	all := map[string]roles.Binding{"submitter-below": {Role: roles.Submitter, Groups: []string{below + "/**"}}}
	for place, pattern := range bindings() {
		for _, role := range roles.All() {
			all[string(role)+"-"+place] = roles.Binding{Role: role, Groups: []string{pattern}}
		}
	}
	return all
}

func tenantsOf(t *testing.T, auth tokens.Authenticator, token func(string) string) tenants {
	t.Helper()
	return tenantsWith(t, auth, token, func(*engine.Engine, *sqlite.Store) (run.Schedules, *engine.Scheduler) { return schedules(), nil })
}

// tenantsWith is tenantsOf with other schedules. The provider of secrets theirs is for the
// group /other.
func tenantsWith(
	t *testing.T, auth tokens.Authenticator, token func(string) string, scheduled func(*engine.Engine, *sqlite.Store) (run.Schedules, *engine.Scheduler),
) tenants {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "records.db"), sqlite.Options{})
	require.NoError(t, err)
	providers := filepath.Join(t.TempDir(), "providers.yaml")
	require.NoError(t, durable.WriteFile(providers, []byte("providers:\n  theirs: {type: env, prefix: X_, groups: [/other]}\n  pull: {type: env, prefix: PULL_, pools: true}\n")))
	log := slog.New(slog.DiscardHandler)
	external, err := secrets.Open(providers, func(string) (string, bool) { return "", false }, log)
	require.NoError(t, err)
	bucket, err := blobs.Open(t.Context(), "mem://")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, errors.Join(store.Close(), bucket.Close())) })
	e := engine.New(engine.Deps{Store: store, Logs: bucket, Secrets: external, Logger: log})
	_, err = e.Register(t.Context(), run.Executor{ID: "host-1", Pool: "shell", Driver: "shell", OS: "linux", Arch: "amd64", Slots: 1, JournalID: "j1"})
	require.NoError(t, err)
	fleets := engine.NewFleets(store)
	for name, group := range fleetGroups() {
		_, _, err = e.PutPool(t.Context(), run.Pool{Name: name, Driver: "docker"})
		require.NoError(t, err)
		_, _, err = fleets.PutFleet(t.Context(), name, run.FleetSpec{
			Pool: name, Plugin: "docker", PluginConfig: json.RawMessage(`{"image":"machine:7"}`), ConnectorConfig: run.FleetConnector{Username: "ubuntu"},
			InstanceReadyCommand: "test -e /ready", AllowedGroups: []string{group + "/**"},
		}, "me")
		require.NoError(t, err)
	}
	api, scheduler := scheduled(e, store)
	deps := gateway.Deps{Runs: e, ExecutorAPI: e, Artifacts: e, Schedules: api, Fleets: fleets, Webhooks: engine.NewWebhooks(store), Auth: auth}
	return tenants{Engine: e, base: serve(t, deps, gateway.Options{}), token: token, scheduler: scheduler, store: store}
}

// schedules has the schedules p and acme.x, and x of others.
func schedules() *runtest.Schedules {
	groups := map[string]string{"acme.x": ours, "p": ours, "x": theirs}
	return &runtest.Schedules{
		ScheduleGroupFunc: func(name string) (string, error) {
			if group, ok := groups[name]; ok {
				return group, nil
			}
			return "", run.Errorf(run.CodeNotFound, "there is no schedule %s", name)
		},
		ScheduleFunc: func(name string) (run.Schedule, error) {
			return run.Schedule{ScheduleSpec: run.ScheduleSpec{Name: name, Spec: &run.Spec{Name: "n", Group: groups[name]}}, Group: groups[name]}, nil
		},
		SchedulesFunc: func(q run.ScheduleQuery) (page run.SchedulePage, _ error) {
			for _, name := range []string{"p", "x"} {
				if len(q.Within) == 0 || slices.ContainsFunc(q.Within, func(path string) bool { return run.GroupWithin(groups[name], path) }) {
					page.Schedules = append(page.Schedules, run.Schedule{ScheduleSpec: run.ScheduleSpec{Name: name}, Group: groups[name]})
				}
			}
			return page, nil
		},
	}
}

// specOf is a specification as clients send it.
func specOf(group string) string {
	return `{"name": "n", "group": "` + group + `", "admission": "manual", "tasks": {"a": {"steps": [{"run": "true"}]}}}`
}

func (b tenants) submit(t *testing.T, group string) run.ID {
	t.Helper()
	r, err := b.Create(t.Context(), run.CreateRequest{Spec: &run.Spec{
		Name: "n", Group: group, Admission: run.AdmissionManual, Tasks: map[string]*run.TaskSpec{"a": {Steps: []run.Step{{Run: "true"}}}},
	}})
	require.NoError(t, err)
	return r.ID
}

// call calls an operation. The answer to streamEvents has only the first events, up to
// one of the run.
func (b tenants) call(t *testing.T, op, method, path, token string, id run.ID) answer {
	t.Helper()
	c := call{method: method, path: strings.NewReplacer("{id}", string(id), "{task}", "a", "{name}", "p", "{session}", "s").Replace(path), body: "{}"}
	c.header = map[string]string{"Authorization": "Bearer " + b.token(token)}
	switch op {
	case "createRun", "validateSpec":
		c.body = specOf(ours)
	case "putSchedule":
		c.body = `{"cron": ["0 0 * * *"], "spec": ` + specOf(ours) + `}`
	case "deleteRuns":
		c.path += "?keep=1&dry_run=true&group=" + ours
	case "scaleFleet":
		c.body = `{"instances": 1}`
	case "searchTaskLog":
		c.path += "?text=x"
	case "streamEvents":
		return b.events(t, token, id)
	}
	return c.do(t, b.base)
}

// events reads the stream of events up to one of the run.
func (b tenants) events(t *testing.T, token string, id run.ID) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(testenv.Context(t), http.MethodGet, b.base+"/api/v1/events", http.NoBody)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+b.token(token))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	got := answer{status: response.StatusCode, header: response.Header}
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		got.body += lines.Text() + "\n"
		if strings.Contains(lines.Text(), string(id)) {
			break
		}
	}
	return got
}

// TestTenants_matrix calls every operation of the contract with every role, bound to the
// group of a run, to others, and to all groups: with tokens, and as users of an identity
// provider.
func TestTenants_matrix(t *testing.T) {
	t.Parallel()
	identity := testenv.StartIdentity(t)
	for kind, begin := range map[string]func(*testing.T) tenants{
		"tokens": newTenants, "users": func(t *testing.T) tenants { t.Helper(); return newUsers(t, identity) },
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			checkMatrix(t, begin)
		})
	}
}

func checkMatrix(t *testing.T, begin func(*testing.T) tenants) {
	t.Helper()
	rows, shared := matrix(), begin(t)
	for path, item := range contract(t).Paths.Map() {
		for method, op := range item.Operations() {
			row, known := rows[op.OperationID]
			require.True(t, known, "the operation %s has no row in the matrix", op.OperationID)
			delete(rows, op.OperationID)
			t.Run(op.OperationID, func(t *testing.T) {
				t.Parallel()
				b := shared
				switch op.OperationID {
				case "streamEvents", "deleteFleet": // one reads all events, the other changes the fleet for good
					b = begin(t)
				}
				for place := range bindings() {
					for _, role := range roles.All() {
						b.check(t, op.OperationID, method, path, row, role, place)
					}
				}
			})
		}
	}
	require.Empty(t, rows, "these are no operations")
}

func (b tenants) check(t *testing.T, op, method, path string, row allowance, role roles.Role, place string) {
	t.Helper()
	token, name := string(role)+"-"+place, op+" by "+string(role)+" of "+place
	mine, last := b.submit(t, ours), b.submit(t, theirs)
	here := place == "own" || place == "all"
	may := slices.Contains(strings.Fields(row.roles), string(role))
	seen := mine // what the events are read up to
	if op == "streamEvents" && place != "own" {
		seen = last
	}
	if op == "streamEvents" && place == "neighbour" {
		return // its stream never has an event
	}
	got := b.call(t, op, method, path, token, seen)
	switch {
	case row.operand == ofNone:
		require.NotContains(t, []int{http.StatusForbidden, http.StatusNotFound}, got.status, name)
	case row.operand == ofExecutor, row.operand == ofAll && (place != "all" || !may), row.operand == ofList && !may, row.operand == ofGroup && (!may || !here):
		got.problem(t, http.StatusForbidden, run.CodeForbidden)
	case row.operand == ofPool:
		require.NotContains(t, []int{http.StatusUnauthorized, http.StatusForbidden}, got.status, "%s: %s", name, got.body)
	case row.operand == ofSchedule && !here:
		got.problem(t, http.StatusNotFound, run.CodeNotFound)
		absent := b.call(t, op, method, strings.Replace(path, "{name}", "absent", 1), token, mine)
		require.Equal(t, strings.ReplaceAll(absent.text(), "absent", "p"), got.text(), "%s reveals that the schedule exists", name)
	case row.operand == ofFleet && !here:
		got.problem(t, http.StatusNotFound, run.CodeNotFound)
		absent := b.call(t, op, method, strings.Replace(path, "{name}", "absent", 1), token, mine)
		require.Equal(t, strings.ReplaceAll(absent.text(), "absent", "p"), got.text(), "%s reveals that the fleet exists", name)
	case row.operand == ofFleet && may && op != "undoFleetRollout": // it has no earlier revision
		require.Equal(t, http.StatusOK, got.status, "%s: %s", name, got.body)
		for _, setting := range []string{"machine:7", "ubuntu", "/ready"} {
			require.False(t, place != "all" && strings.Contains(got.body, setting), "%s: %s", name, got.body)
		}
	case row.operand == ofRun && !here:
		got.problem(t, http.StatusNotFound, run.CodeNotFound)
		absent := b.call(t, op, method, path, token, runID)
		require.Equal(t, strings.ReplaceAll(absent.text(), runID, string(mine)), got.text(), "%s reveals that the run exists", name)
		require.Equal(t, absent.header.Values("Etag"), got.header.Values("Etag"), name)
	case (row.operand == ofRun || row.operand == ofSchedule || row.operand == ofFleet) && !may:
		got.problem(t, http.StatusForbidden, run.CodeForbidden)
	default:
		require.NotContains(t, []int{http.StatusUnauthorized, http.StatusForbidden}, got.status, "%s: %s", name, got.body)
		require.NotContains(t, got.body, "there is no run", name)
	}
	if row.operand == ofList && may && op != "validateSpec" {
		require.Equal(t, http.StatusOK, got.status, "%s: %s", name, got.body)
		require.Equal(t, here && op != "listApprovals", strings.Contains(got.body, ours), "%s: %s", name, got.body)
		require.Equal(t, (place == "foreign" || place == "all") && op != "listApprovals", strings.Contains(got.body, theirs), "%s: %s", name, got.body)
	}
}

// TestTenants_lists: parameters that name other groups select nothing of them, and what
// is above the caller's groups counts only their runs.
func TestTenants_lists(t *testing.T) {
	t.Parallel()
	b := newTenants(t)
	mine, foreign := b.submit(t, ours), b.submit(t, theirs)
	get := func(path string) answer {
		return call{path: path, header: map[string]string{"Authorization": "Bearer viewer-own"}}.do(t, b.base)
	}
	var all api.RunPage
	get("/api/v1/runs").read(t, &all)
	require.Len(t, all.Runs, 1)
	for group, want := range map[string]int{"/": 1, "/acme": 1, "/acme/web": 1, "/acme/we": 0, "/other": 0, "/other/web": 0, "/acme&group=/other": 1} {
		var page api.RunPage
		get("/api/v1/runs?group="+group).read(t, &page)
		require.Len(t, page.Runs, want, group)
	}
	var groups api.GroupPage
	get("/api/v1/groups?path=/&path=/acme&path=/other&path=/acme/web").read(t, &groups)
	var queued []int
	for _, g := range groups.Groups {
		queued = append(queued, g.Queued)
		require.Equal(t, g.Queued == 0, g.LastRun == nil, g.Path)
	}
	require.Equal(t, []int{1, 1, 0, 1}, queued)
	get("/api/v1/groups").read(t, &groups)
	require.Len(t, groups.Groups, 1)
	get("/api/v1/groups?under=/other").read(t, &groups)
	require.Empty(t, groups.Groups)

	for path, id := range map[string]run.ID{"/api/v1/events?run=": foreign, "/api/v1/runs/": foreign, "/api/v1/events?after=1&run=": runID} {
		got := get(path + string(id))
		got.problem(t, http.StatusNotFound, run.CodeNotFound)
	}
	require.Equal(t, http.StatusOK, get("/api/v1/runs/"+string(mine)).status)
}

// TestTenants_specs: a specification can leave the groups of its submitter neither by its
// group nor by the scope of a cache, also in a restart.
func TestTenants_specs(t *testing.T) {
	t.Parallel()
	b := newTenants(t)
	post := func(path, body, token string) answer {
		return call{method: http.MethodPost, path: path, body: body, header: map[string]string{"Authorization": "Bearer " + token}}.do(t, b.base)
	}
	require.Equal(t, http.StatusCreated, post("/api/v1/runs", specOf(ours), "submitter-own").status)
	for _, group := range []string{theirs, "/acmes/web", "/other"} {
		got := post("/api/v1/runs", specOf(group), "submitter-own")
		require.NotEqual(t, http.StatusCreated, got.status, group)
	}
	post("/api/v1/runs", specOf(theirs), "submitter-own").problem(t, http.StatusForbidden, run.CodeForbidden)

	cached := `{"name": "n", "group": "/acme/we/x/y", "tasks": {"a": {"steps": [{"restore_cache": {"keys": ["k"]%s}}]}}}`
	require.Equal(t, http.StatusCreated, post("/api/v1/runs", strings.Replace(cached, "%s", "", 1), "submitter-own").status)
	require.Equal(t, http.StatusCreated, post("/api/v1/runs", strings.Replace(cached, "%s", `, "scope": "/acme/we/x"`, 1), "submitter-neighbour").status)
	deploy := strings.Replace(cached, "/acme/we/x/y", below, 1)
	require.Equal(t, http.StatusCreated, post("/api/v1/runs", strings.Replace(deploy, "%s", `, "scope": "`+below+`"`, 1), "submitter-below").status)
	post("/api/v1/runs", strings.Replace(deploy, "%s", `, "scope": "`+ours+`"`, 1), "submitter-below").problem(t, http.StatusForbidden, run.CodeForbidden)
	volume := func(group, volume string) string {
		return `{"name": "n", "group": "` + group + `", "untrusted": false, "tasks": {"a": {"volumes": [{"path": "/v", ` + volume + `}], "steps": [{"run": "true"}]}}}`
	}
	refused := post("/api/v1/runs", volume(below, `"name": "v"`), "submitter-below").problem(t, http.StatusForbidden, run.CodeForbidden)
	require.Contains(t, refused.Detail, "which the runs in "+ours+" share")
	for spec, token := range map[string]string{
		volume(below, `"tmpfs": {}`): "submitter-below", volume(ours, `"name": "v"`): "submitter-own", volume(below, `"name": "v"`): "submitter-own",
		strings.Replace(volume(below, `"name": "v"`), "false", "true", 1): "submitter-below", // volumes of its own group alone
	} {
		require.NotEqual(t, http.StatusForbidden, post("/api/v1/runs", spec, token).status, spec)
	}
	held := strings.Replace(specOf(ours), `"tasks"`, `"changegroups": ["group:%s"], "tasks"`, 1)
	require.Equal(t, http.StatusCreated, post("/api/v1/runs", strings.Replace(held, "%s", ours, 1), "submitter-own").status)
	post("/api/v1/runs", strings.Replace(held, "%s", theirs, 1), "submitter-own").problem(t, http.StatusForbidden, run.CodeForbidden)
	cancelled := b.submit(t, ours)
	_, err := b.Cancel(t.Context(), cancelled, nil)
	require.NoError(t, err)
	restart := func(spec string) answer {
		return post("/api/v1/runs/"+string(cancelled)+"/restart", `{"from": "start"`+spec+`}`, "submitter-own")
	}
	require.Equal(t, http.StatusCreated, restart("").status)
	require.Equal(t, http.StatusCreated, restart(`, "spec": `+quoted(specOf(ours))).status)
	restart(`, "spec": `+quoted(specOf(theirs))).problem(t, http.StatusForbidden, run.CodeForbidden)
}

// TestTenants_pools: a pool with allowed groups is used and seen by these alone, also by
// a submitter of all groups, and a client that does not know the setting keeps it.
func TestTenants_pools(t *testing.T) {
	t.Parallel()
	b := newTenants(t)
	put := func(body string) {
		got := call{method: http.MethodPut, path: "/api/v1/pools/shell", body: body, header: map[string]string{"Authorization": "Bearer admin-all"}}.do(t, b.base)
		require.Equal(t, http.StatusOK, got.status, got.body)
	}
	submit := func(group, token, pool string) answer {
		body := strings.Replace(specOf(group), `"steps"`, pool+`"steps"`, 1)
		return call{method: http.MethodPost, path: "/api/v1/runs", body: body, header: map[string]string{"Authorization": "Bearer " + token}}.do(t, b.base)
	}
	const named = `"pool": "shell", `
	require.Equal(t, http.StatusCreated, submit(theirs, "submitter-foreign", named).status)
	put(`{"driver": "shell", "allowed_groups": ["/acme/**", "/third/**"]}`)
	put(`{"driver": "shell", "labels": {"a": "b"}}`)
	for _, pool := range []string{"", named} {
		require.Equal(t, http.StatusCreated, submit(ours, "submitter-own", pool).status)
		submit(theirs, "submitter-foreign", pool).problem(t, http.StatusUnprocessableEntity, run.CodeInvalid)
		submit(theirs, "admin-all", pool).problem(t, http.StatusUnprocessableEntity, run.CodeInvalid)
	}
	absent := submit(theirs, "submitter-foreign", `"pool": "absent", `)
	require.Equal(t, strings.ReplaceAll(absent.text(), "absent", "shell"), submit(theirs, "submitter-foreign", named).text())

	list := func(token string) []api.Pool {
		var v api.PoolList
		call{path: "/api/v1/pools", header: map[string]string{"Authorization": "Bearer " + token}}.do(t, b.base).read(t, &v)
		return v.Pools
	}
	require.Len(t, list("viewer-foreign"), 1, "the pool x")
	require.Equal(t, []string{"/acme/**"}, list("viewer-neighbour")[0].AllowedGroups)
	require.Len(t, list("viewer-all")[1].AllowedGroups, 2)
	pool := call{path: "/api/v1/pools/shell", header: map[string]string{"Authorization": "Bearer viewer-foreign"}}
	got := pool.do(t, b.base)
	pool.path = "/api/v1/pools/absent"
	require.Equal(t, strings.ReplaceAll(pool.do(t, b.base).text(), "absent", "shell"), got.text())
	got.problem(t, http.StatusNotFound, run.CodeNotFound)
	put(`{"driver": "shell", "allowed_groups": ["/**"]}`)
	require.Equal(t, http.StatusCreated, submit(theirs, "submitter-foreign", named).status)
}

// TestTenants_pool_registries: tenants neither see where the passwords of a pool are, nor
// can use what they refer to.
func TestTenants_pool_registries(t *testing.T) {
	t.Parallel()
	b := newTenants(t)
	send := func(method, path, body, token string) answer {
		return call{method: method, path: path, body: body, header: map[string]string{"Authorization": "Bearer " + token}}.do(t, b.base)
	}
	const body = `{"driver": "docker", "registries": {"mirror.example.com": {"username": "puller", "password_from": {"provider": "pull", "name": "MIRROR"}}}}`
	require.Equal(t, http.StatusCreated, send(http.MethodPut, "/api/v1/pools/pulls", body, "admin-all").status)
	for _, path := range []string{"/api/v1/pools", "/api/v1/pools/pulls"} {
		for token, shown := range map[string]bool{"viewer-own": false, "admin-own": false, "viewer-all": true} {
			got := send(http.MethodGet, path, "", token)
			require.Equal(t, http.StatusOK, got.status)
			require.Contains(t, got.text(), `"pulls"`)
			require.Equal(t, shown, strings.Contains(got.text(), "mirror.example.com"), token)
			require.Equal(t, shown, strings.Contains(got.text(), "MIRROR"), token)
		}
	}
	spec := strings.Replace(specOf(ours), "{", `{"secrets_from": {"P": {"provider": "pull", "name": "MIRROR"}}, `, 1)
	refused := send(http.MethodPost, "/api/v1/runs", spec, "submitter-own").problem(t, http.StatusUnprocessableEntity, run.CodeInvalid)
	require.Equal(t, "secrets_from.P", refused.Errors[0].Path)
}

// TestTenants_fleets: a fleet with allowed groups restricts its pool, is seen by these
// groups alone, and is operated by the operators of all of them.
func TestTenants_fleets(t *testing.T) {
	t.Parallel()
	b := newTenants(t)
	send := func(method, path, body, token string) answer {
		return call{method: method, path: path, body: body, header: map[string]string{"Authorization": "Bearer " + token}}.do(t, b.base)
	}
	put := func(groups string) {
		t.Helper()
		got := send(http.MethodPut, "/api/v1/fleets/vms", `{"pool": "shell", "plugin": "docker"`+groups+`}`, "admin-all")
		require.Contains(t, []int{http.StatusOK, http.StatusCreated}, got.status, got.body)
	}
	submit := func(group, token string) int {
		return send(http.MethodPost, "/api/v1/runs", strings.Replace(specOf(group), `"steps"`, `"pool": "shell", "steps"`, 1), token).status
	}
	list := func(token string) (names []string) {
		var v api.FleetList
		send(http.MethodGet, "/api/v1/fleets", "", token).read(t, &v)
		for _, f := range v.Fleets {
			names = append(names, f.Name)
		}
		return names
	}
	get := func(path, token string, into any) { send(http.MethodGet, path, "", token).read(t, into) }
	put("")
	require.Equal(t, http.StatusCreated, submit(theirs, "submitter-foreign"))
	require.Equal(t, []string{"p", "vms"}, list("viewer-own"), "a fleet without groups is for all")
	send(http.MethodPost, "/api/v1/fleets/vms/pause", "{}", "operator-own").problem(t, http.StatusForbidden, run.CodeForbidden)

	got := send(http.MethodPut, "/api/v1/fleets/vms", `{"pool": "shell", "plugin": "docker", "allowed_groups": ["/acme/**", "/acme"]}`, "admin-all")
	require.Equal(t, "allowed_groups[1]", got.problem(t, http.StatusUnprocessableEntity, run.CodeInvalid).Errors[0].Path)
	put(`, "allowed_groups": ["/acme/**", "/third/**"]`)
	put("") // by a client that does not know the groups
	require.Equal(t, http.StatusUnprocessableEntity, submit(theirs, "submitter-foreign"))
	require.Equal(t, http.StatusUnprocessableEntity, submit(theirs, "admin-all"))
	require.Equal(t, http.StatusCreated, submit(ours, "submitter-own"))
	require.Equal(t, []string{"x"}, list("viewer-foreign"))
	require.Equal(t, []string{"vms"}, list("viewer-neighbour"))
	require.Equal(t, []string{"p", "vms", "x"}, list("viewer-all"))
	for token, want := range map[string][]string{"viewer-neighbour": {"/acme/**"}, "viewer-all": {"/acme/**", "/third/**"}} {
		var f api.Fleet
		get("/api/v1/fleets/vms", token, &f)
		require.Equal(t, want, f.Spec.AllowedGroups)
		var p api.Pool
		get("/api/v1/pools/shell", token, &p)
		require.Equal(t, []api.FleetGroups{{Fleet: "vms", AllowedGroups: want}}, p.FleetGroups)
	}
	send(http.MethodGet, "/api/v1/pools/shell", "", "viewer-foreign").problem(t, http.StatusNotFound, run.CodeNotFound)
	const pause = "/api/v1/fleets/vms/pause"
	send(http.MethodPost, pause, "{}", "operator-foreign").problem(t, http.StatusNotFound, run.CodeNotFound)
	refused := send(http.MethodPost, pause, "{}", "operator-own")
	refused.problem(t, http.StatusForbidden, run.CodeForbidden)
	require.NotContains(t, refused.body, "third")
	put(`, "allowed_groups": ["/acme/web/**", "/acme/db/**"]`)
	require.Equal(t, http.StatusOK, send(http.MethodPost, pause, "{}", "operator-own").status)

	// A pool of other groups hides its fleets, also those that name no groups.
	put(`, "allowed_groups": ["/**"]`)
	require.Equal(t, http.StatusOK, send(http.MethodPut, "/api/v1/pools/shell", `{"driver": "shell", "allowed_groups": ["/other/**"]}`, "admin-all").status)
	require.Equal(t, []string{"p"}, list("viewer-own"))
	require.Equal(t, []string{"vms", "x"}, list("viewer-foreign"))
	send(http.MethodGet, "/api/v1/fleets/vms/instances", "", "viewer-own").problem(t, http.StatusNotFound, run.CodeNotFound)
	require.Equal(t, http.StatusAccepted, send(http.MethodDelete, "/api/v1/fleets/vms", "{}", "admin-all").status)
}

// TestTenants_schedules: the name of a new schedule begins with a path of its owner, so
// the answer does not tell which names others use.
func TestTenants_schedules(t *testing.T) {
	t.Parallel()
	b := newTenants(t)
	put := func(name, group, token string) answer {
		body := `{"cron": ["0 0 * * *"], "spec": ` + specOf(group) + `}`
		return call{method: http.MethodPut, path: "/api/v1/schedules/" + name, body: body, header: map[string]string{"Authorization": "Bearer " + token}}.do(t, b.base)
	}
	for _, name := range []string{"p", "acme.x", "acme.new"} {
		require.NotEqual(t, http.StatusForbidden, put(name, ours, "submitter-own").status, name)
		put(name, theirs, "submitter-own").problem(t, http.StatusForbidden, run.CodeForbidden)
		put(name, theirs, "submitter-foreign").problem(t, http.StatusForbidden, run.CodeForbidden)
	}
	taken, free := put("x", ours, "submitter-own"), put("y", ours, "submitter-own")
	taken.problem(t, http.StatusForbidden, run.CodeForbidden)
	require.Equal(t, strings.ReplaceAll(free.text(), " y:", " x:"), taken.text())
	require.NotEqual(t, http.StatusForbidden, put("y", ours, "submitter-all").status)
}

// text returns the body without the id of the request.
func (a answer) text() string {
	return regexp.MustCompile(`"request_id":"\w+",`).ReplaceAllString(a.body, "")
}

func quoted(text string) string { return `"` + strings.ReplaceAll(text, `"`, `\"`) + `"` }
