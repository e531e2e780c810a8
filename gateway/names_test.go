package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/gateway"
	"github.com/drover-run/drover/gateway/exec"
	"github.com/drover-run/drover/internal/execstream"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/internal/testenv/pages"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/runtest"
)

const accessPage = "access.md"

// operation is an operation of the contract.
type operation struct{ id, method, path string }

// named has the rules of the parameters and fields that name something, by operation and
// parameter.
type named map[string]map[string]string

// readNamed reads the table of the page.
func readNamed(t *testing.T) named {
	t.Helper()
	out := named{}
	for _, row := range pages.Table(t, accessPage, "## Operations") {
		rules := map[string]string{}
		for entry := range strings.SplitSeq(row[1], ", ") {
			if name, rule, ok := strings.Cut(entry, ": "); ok {
				rules[strings.Trim(name, "`")] = rule
			} else {
				require.Equal(t, "nothing", entry)
			}
		}
		out[pages.Quoted(row[0])[0]] = rules
	}
	return out
}

// nameless are the parameters and fields that name nothing of Drover: the last elements of
// their paths, or whole paths after the operations for which that holds.
func nameless() []string {
	return slices.Concat(strings.Fields(`
		action admission after aliases allow_failure allowed_devices allowed_host_paths allowed_images allowed_pull_policies allowed_service_images allowed_volumes annotation annotations approval
		approvers arch attempt backoff backoff_factor backoff_jitter
		backoff_max bootstrap burst cache_max_age cache_total_bytes cancel_queued capacity_per_instance catchup_window checkout claim_proof clean cleanup_timeout code
		command comment connector_config cpu created_after created_before credentials cron cursor default deletion_retry_interval depends depth devices
		description download drain_timeout drained draining driver Drover-Direct dry_run email enabled end_at entrypoint environment error
		error_description events events_keep events_max_age every everywhere exclude exec exit_codes expires_at extra_hosts fail_fast
		failure_threshold features finally flavor follow force foreach format frames gone gpus health hold_down If-None-Match if image image_rewrites include
		input_values inputs instance_acquire_timeout instance_ready_command instances intervals jitter journal_id junit keep kubernetes labels
		Last-Event-ID length lfs limit logs_max_age matrix max_attempts max_instances max_running max_surge max_unavailable max_use_count memory mode
		note offset on on_busy on_executor_lost options order os overlap password_secret paths pattern pause_on_failure paused phase pids platform
		plugin plugin_config policy priority privileged pull_policy Range reason ref refspecs registries remove_after repository request_timeout
		required resources restore_cache restore_workspace result results resume retention retry return_to reuse root running
		runs_keep runs_max_age save_artifacts save_cache save_workspace scale_throttle scopes secret secret_files secrets services setup_errors sha
		service_network share_working_dir shared shell since size skip slots slots_used spec_version start_at starttls state step steps stream streams submodules
		tail task temporary template text timeout timestamps timezone title tmpfs to to_revision type unexpected untrusted update update_interval
		update_interval_when_expecting upcoming_tasks url user username version volumes weight when working_dir workspace_max_age`),
		strings.Fields(`
		checkout.* foreach.* inputs.* connector_config.* email.* frames.* kubernetes.* flavor.* policy.* depends.* services.name services.secrets save_artifacts.name
		steps.name steps.run save_cache.key restore_cache.keys volumes.path volumes.name volumes.host_path volumes.read_only`),
		[]string{
			"createRun name", "createRun tasks", "validateSpec name", "validateSpec tasks", "restartRun tasks", "restartRun from", "planRestart tasks", "planRestart from", "putFleet name", "putWebhook from",
			"backfillSchedule from", "streamEvents from", "listAuditRecords from", "exportAuditRecords from", "getArtifact name", "getArtifact path",
			"listArtifactEntries name", "beginSession token", "listRuns name", "listRuns created_by", "listRuns mine", "listRuns input", "listRuns warnings",
		})
}

// fieldsOf returns the parameters of an operation, and the fields of its body with their
// paths.
func fieldsOf(item *openapi3.PathItem, op *openapi3.Operation) []string {
	fields := map[string]bool{}
	for _, p := range slices.Concat(item.Parameters, op.Parameters) {
		fields[p.Value.Name] = true
	}
	if op.RequestBody != nil {
		for _, media := range op.RequestBody.Value.Content {
			if media.Schema != nil {
				addFields(fields, "", media.Schema, nil)
			}
		}
	}
	return slices.Sorted(maps.Keys(fields))
}

func addFields(fields map[string]bool, prefix string, ref *openapi3.SchemaRef, above []*openapi3.Schema) {
	if ref == nil || ref.Value == nil || slices.Contains(above, ref.Value) {
		return
	}
	s := ref.Value
	above = append(slices.Clone(above), s)
	for name, property := range s.Properties {
		fields[prefix+name] = true
		addFields(fields, prefix+name+".", property, above)
	}
	for _, part := range slices.Concat(s.AllOf, s.OneOf, s.AnyOf) {
		addFields(fields, prefix, part, above)
	}
	addFields(fields, prefix, s.Items, above)
	addFields(fields, prefix+"*.", s.AdditionalProperties.Schema, above)
}

// covers reports whether an entry stands for a field: it is the field, or something above.
func covers(entry, field string) bool { return field == entry || strings.HasPrefix(field, entry+".") }

// isNameless reports whether an entry of nameless stands for a field of an operation.
func isNameless(entry, op, field string) bool {
	if of, whole, ok := strings.Cut(entry, " "); ok {
		return of == op && whole == field
	}
	if above, ok := strings.CutSuffix(entry, ".*"); ok {
		return strings.HasPrefix(field, above+".") || strings.Contains(field, "."+above+".")
	}
	return field == entry || strings.HasSuffix(field, "."+entry)
}

// TestPage_names: each operation of the contract is in the table, with each parameter and
// each field of its body that names something. What names nothing is listed here.
func TestPage_names(t *testing.T) {
	t.Parallel()
	rows, used := readNamed(t), map[string]bool{}
	rules := map[string]bool{}
	for _, row := range pages.Table(t, accessPage, "## Rules") {
		rules[row[0]] = true
	}
	for _, item := range contract(t).Paths.Map() {
		for _, op := range item.Operations() {
			row, known := rows[op.OperationID]
			require.True(t, known, "the operation %s is not in the table of docs/%s", op.OperationID, accessPage)
			delete(rows, op.OperationID)
			left := maps.Clone(row)
			for _, field := range fieldsOf(item, op) {
				found := false
				for entry, rule := range row {
					require.True(t, rules[rule], "docs/%s does not explain %q", accessPage, rule)
					if covers(entry, field) {
						used[rule], found = true, true
						delete(left, entry)
					}
				}
				for _, entry := range nameless() {
					if isNameless(entry, op.OperationID, field) {
						used[entry], found = true, true
					}
				}
				require.True(t, found, "say in the table of docs/%s who may name the %s of %s, or list it as one that names nothing", accessPage, field, op.OperationID)
			}
			require.Empty(t, left, "%s does not have these", op.OperationID)
		}
	}
	require.Empty(t, rows, "these are no operations")
	for _, entry := range append(nameless(), slices.Collect(maps.Keys(rules))...) {
		require.True(t, used[entry], "%q stands for nothing", entry)
	}
}

// TestTenants_names tries each rule of the page for each parameter, with a caller who has
// all roles in /acme, and names of /other.
func TestTenants_names(t *testing.T) {
	t.Parallel()
	identity := testenv.StartIdentity(t)
	for _, kind := range []string{"tokens", "users"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			auth, token := tenantTokens(t)
			if kind == "users" {
				auth, token = tenantUsers(t, identity)
			}
			b := scheduledTenants(t, auth, token)
			for name, group := range map[string]string{"acme.p": ours, "other.x": theirs} {
				_, _, err := b.scheduler.PutSchedule(t.Context(), scheduleOf(name, group), "ops")
				require.NoError(t, err)
			}
			tried := nameChecks()
			rows := readNamed(t)
			for path, item := range contract(t).Paths.Map() {
				for method, op := range item.Operations() {
					for parameter, rule := range rows[op.OperationID] {
						t.Run(op.OperationID+"/"+parameter, func(t *testing.T) {
							t.Parallel()
							require.Contains(t, tried, rule)
							tried[rule](t, b, operation{op.OperationID, method, path}, parameter)
						})
					}
				}
			}
		})
	}
}

// scheduleOf is a schedule of runs of a group.
func scheduleOf(name, group string, changeGroups ...string) run.ScheduleSpec {
	return run.ScheduleSpec{Name: name, Cron: []string{"@yearly"}, Spec: &run.Spec{
		Name: "n", Group: group, ChangeGroups: changeGroups, Tasks: map[string]*run.TaskSpec{"a": {Steps: []run.Step{{Run: "true"}}}},
	}}
}

// nameChecks has a check for each rule.
func nameChecks() map[string]func(*testing.T, tenants, operation, string) {
	return map[string]func(*testing.T, tenants, operation, string){
		"run": checkNameOfRun, "filter": checkFilter, "group": checkGroupOfRun, "admin's group": checkDeletedGroup, "change group": checkChangeGroup,
		"cache": checkCache, "pool": checkPool, "provider": checkProvider, "subject": checkSubject, "own": checkOwnKey,
		"run file": checkRunFile, "unread": checkUnread, "schedule": checkNameOfSchedule, "new schedule": checkNewSchedule,
		"run of a schedule": checkRunOfSchedule, "fleet": checkUnseen("x"), "visible pool": checkUnseen("x"), "all groups": checkAllGroups,
		"executor": checkExecutor, "claim": checkExecutor,
	}
}

func (b tenants) send(t *testing.T, method, path, body, principal string) answer {
	t.Helper()
	return call{method: method, path: path, body: body, header: map[string]string{"Authorization": "Bearer " + b.token(principal)}}.do(t, b.base)
}

// put makes a call of an operation that takes a specification, in the group of a principal.
func (b tenants) put(t *testing.T, op, spec, principal string) answer {
	t.Helper()
	group := ours
	if principal == "submitter-below" {
		group = below
	}
	switch op {
	case "putSchedule":
		name := strings.ReplaceAll(strings.TrimPrefix(group, "/"), "/", ".") + ".new"
		return b.send(t, http.MethodPut, "/api/v1/schedules/"+name, `{"cron": ["@yearly"], "spec": `+spec+`}`, principal)
	case "restartRun", "planRestart":
		id := b.submit(t, group)
		_, err := b.Cancel(t.Context(), id, nil)
		require.NoError(t, err)
		text, err := json.Marshal(spec)
		require.NoError(t, err)
		return b.send(t, http.MethodPost, "/api/v1/runs/"+string(id)+map[string]string{"restartRun": "/restart", "planRestart": "/restart/plan"}[op], `{"from": "start", "spec": `+string(text)+`}`, principal)
	}
	return b.send(t, http.MethodPost, "/api/v1/runs", spec, principal)
}

// specWith is specOf with more keys of the run, and others of its task.
func specWith(group, keys, task string) string {
	if task == "" {
		task = `"steps": [{"run": "true"}]`
	}
	return `{"name": "n", "group": "` + group + `", "admission": "manual", ` + keys + `"tasks": {"a": {` + task + `}}}`
}

// sameAsAbsent demands that an answer does not tell a name from one that does not exist.
func sameAsAbsent(t *testing.T, got, absent answer, name, other string) {
	t.Helper()
	require.Equal(t, absent.status, got.status)
	require.Equal(t, strings.ReplaceAll(absent.text(), other, name), got.text())
}

func checkNameOfRun(t *testing.T, b tenants, op operation, _ string) {
	t.Helper()
	foreign := b.submit(t, theirs)
	ask := func(id run.ID) answer {
		if op.id == "streamEvents" {
			return b.send(t, op.method, op.path+"?run="+string(id), "", "admin-own")
		}
		return b.call(t, op.id, op.method, op.path, "admin-own", id)
	}
	got := ask(foreign)
	got.problem(t, http.StatusNotFound, run.CodeNotFound)
	sameAsAbsent(t, got, ask(runID), string(foreign), runID)
}

func checkFilter(t *testing.T, b tenants, op operation, parameter string) {
	t.Helper()
	shared := `"changegroups": ["shared"], `
	var mine, foreign api.Run
	b.send(t, http.MethodPost, "/api/v1/runs", specWith(ours, shared, ""), "submitter-own").read(t, &mine)
	if op.id == "streamEvents" {
		s := open(t, b.base+op.path+"?from=now&"+parameter+"=/", map[string]string{"Authorization": "Bearer " + b.token("admin-own")})
		b.send(t, http.MethodPost, "/api/v1/runs", specOf(theirs), "submitter-foreign").read(t, &foreign)
		b.send(t, http.MethodPost, "/api/v1/runs", specOf(ours), "submitter-own").read(t, &mine)
		for e := s.next(t); !strings.Contains(e.data, mine.ID); e = s.next(t) {
			require.NotContains(t, e.data, theirs)
		}
		return
	}
	if op.id == "listApprovals" {
		b.checkApprovals(t, op, parameter)
		return
	}
	b.send(t, http.MethodPost, "/api/v1/runs", specWith(theirs, shared, ""), "submitter-foreign").read(t, &foreign)
	for _, value := range map[bool][]string{true: {"shared", "group:/other"}, false: {"/", "/other", theirs}}[parameter == "changegroup"] {
		got := b.send(t, op.method, op.path+"?"+parameter+"="+url.QueryEscape(value), "", "admin-own")
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.NotContains(t, got.body, foreign.ID, value)
		require.NotContains(t, got.body, `"group":"`+theirs, value)
	}
}

// checkApprovals is checkFilter for the tasks that wait for approval.
func (b tenants) checkApprovals(t *testing.T, op operation, parameter string) {
	t.Helper()
	waiting := func(group string) string {
		r, err := b.Create(t.Context(), run.CreateRequest{Spec: &run.Spec{
			Name: "n", Group: group, Tasks: map[string]*run.TaskSpec{"a": {Approval: run.Approval{Approvers: 1}, Steps: []run.Step{{Run: "true"}}}},
		}})
		require.NoError(t, err)
		fixture.Begin(t, b.store, r.ID)
		fixture.Apply(t, b.store, r.ID, records.Changes{Tasks: []run.TaskChange{{Task: 0, Status: run.StatusWaitingApproval}}})
		return string(r.ID)
	}
	mine, foreign := waiting(ours), waiting(theirs)
	for value, seen := range map[string]bool{"/": true, ours: true, "/other": false, theirs: false} {
		path := op.path + "?" + parameter + "=" + url.QueryEscape(value)
		got := b.send(t, op.method, path, "", "viewer-own")
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.Equal(t, seen, strings.Contains(got.body, mine), "%s: %s", value, got.body)
		require.NotContains(t, got.body, foreign, value)
		require.NotContains(t, got.body, theirs, value)
		require.Equal(t, value != ours, strings.Contains(b.send(t, op.method, path, "", "viewer-all").body, foreign), value)
	}
}

func checkGroupOfRun(t *testing.T, b tenants, op operation, _ string) {
	t.Helper()
	for _, group := range []string{theirs, "/other", "/acmes/web"} {
		got := b.put(t, op.id, specOf(group), "admin-own")
		require.Contains(t, []int{http.StatusForbidden, http.StatusUnprocessableEntity}, got.status, "%s: %s", group, got.body)
	}
	got := b.put(t, op.id, specOf(theirs), "admin-own")
	got.problem(t, http.StatusForbidden, run.CodeForbidden)
	require.Less(t, b.put(t, op.id, specOf(ours), "submitter-own").status, 300)
}

func checkDeletedGroup(t *testing.T, b tenants, op operation, parameter string) {
	t.Helper()
	for group, status := range map[string]int{ours: 200, "/acme": 200, theirs: 403, "/": 403, "/acmes": 403, "": 403} {
		path := op.path + "?keep=1&dry_run=true"
		if group != "" {
			path += "&" + parameter + "=" + group
		}
		require.Equal(t, status, b.send(t, op.method, path, "{}", "admin-own").status, group)
	}
}

func checkChangeGroup(t *testing.T, b tenants, op operation, parameter string) {
	t.Helper()
	id := b.submit(t, ours)
	for name, refused := range map[string]bool{
		"group:" + ours: false, "group:" + ours + "/x": false, "free": false,
		"group:" + theirs: true, "group:/other": true, "group:/acmes": true, "group:/acme": false,
	} {
		token := run.Token{name: 0}.String()
		path := strings.NewReplacer("{id}", string(id), "{task}", "a").Replace(op.path)
		var got answer
		switch {
		case parameter == "token_for":
			got = b.send(t, op.method, path+"?token_for="+url.QueryEscape(name), "", "operator-own")
		case parameter == "changegroups":
			got = b.put(t, op.id, specWith(ours, `"changegroups": ["`+name+`"], `, ""), "operator-own")
		case op.id == "createRun":
			got = b.put(t, op.id, specWith(ours, `"changegroup_token": "`+token+`", `, ""), "operator-own")
		case strings.HasSuffix(op.id, "Annotations"):
			got = b.send(t, op.method, path+"?changegroup_token="+token, "{}", "operator-own")
		default:
			got = b.send(t, op.method, path, `{"changegroup_token": "`+token+`"}`, "operator-own")
		}
		if refused {
			got.problem(t, http.StatusForbidden, run.CodeForbidden)
		} else {
			require.NotEqual(t, http.StatusForbidden, got.status, "%s: %s", name, got.body)
		}
	}
}

func checkCache(t *testing.T, b tenants, op operation, parameter string) {
	t.Helper()
	step := `"restore_cache": {"keys": ["k"], "scope": "%s"}`
	if strings.Contains(parameter, "save_cache") {
		step = `"save_cache": {"key": "k", "paths": ["x"], "scope": "%s"}`
	}
	put := func(scope string) answer {
		return b.put(t, op.id, specWith(below, "", `"steps": [{`+fmt.Sprintf(step, scope)+`}]`), "submitter-below")
	}
	require.Less(t, put(below).status, 300)
	for _, scope := range []string{ours, ""} { // also that of a step which names none
		got := put(scope)
		require.Contains(t, got.problem(t, http.StatusForbidden, run.CodeForbidden).Detail, "has a cache of the scope "+ours)
	}
}

func checkPool(t *testing.T, b tenants, op operation, parameter string) {
	t.Helper()
	const steps = `"steps": [{"run": "true"}]`
	if strings.HasSuffix(parameter, "requires") {
		var r api.Run
		got := b.put(t, op.id, specWith(ours, "", `"image": "i", "requires": {"driver": "docker"}, `+steps), "submitter-own")
		require.Less(t, got.status, 300, got.body)
		if op.id != "putSchedule" && op.id != "planRestart" {
			got.read(t, &r)
			require.Equal(t, "p", r.Tasks["a"].Pool, "also x has the driver")
		}
		return
	}
	put := func(pool, principal string) answer {
		return b.put(t, op.id, specWith(ours, "", `"image": "i", "pool": "`+pool+`", `+steps), principal)
	}
	require.Less(t, put("p", "submitter-own").status, 300)
	for _, principal := range []string{"admin-own", "admin-all"} {
		got := put("x", principal)
		got.problem(t, http.StatusUnprocessableEntity, run.CodeInvalid)
		sameAsAbsent(t, got, put("absent", principal), "x", "absent")
	}
}

func checkProvider(t *testing.T, b tenants, op operation, _ string) {
	t.Helper()
	const keys = `"secrets_from": {"TOKEN": {"provider": "theirs", "name": "TOKEN"}}, `
	for _, principal := range []string{"admin-own", "admin-all"} {
		p := b.put(t, op.id, specWith(ours, keys, ""), principal).problem(t, http.StatusUnprocessableEntity, run.CodeInvalid)
		require.Equal(t, string(run.FaultUnknownSecret), p.Errors[0].Code)
	}
	if op.id == "createRun" {
		require.Equal(t, http.StatusCreated, b.put(t, op.id, specWith(theirs, keys, ""), "submitter-foreign").status)
	}
}

func checkSubject(t *testing.T, b tenants, op operation, _ string) {
	t.Helper()
	var who api.Session
	b.send(t, http.MethodGet, "/api/v1/session", "", "viewer-own").read(t, &who)
	got := b.put(t, op.id, specWith(ours, "", `"approval": {"approvers": 1, "from": ["`+who.Subject+`"]}, "steps": [{"run": "true"}]`), "submitter-own")
	require.Less(t, got.status, 300, got.body)
	if op.id == "putSchedule" || op.id == "planRestart" {
		return
	}
	var r api.Run
	got.read(t, &r)
	got = b.send(t, http.MethodPost, "/api/v1/runs/"+r.ID+"/tasks/a/approve", "{}", "viewer-own")
	got.problem(t, http.StatusForbidden, run.CodeForbidden)
}

func checkOwnKey(t *testing.T, b tenants, op operation, parameter string) {
	t.Helper()
	path, body := op.path, specOf(ours)
	if op.id == "restartRun" {
		id := b.submit(t, ours)
		_, err := b.Cancel(t.Context(), id, nil)
		require.NoError(t, err)
		path, body = strings.Replace(path, "{id}", string(id), 1), `{"from": "start"}`
	}
	made := map[string]bool{}
	for _, principal := range []string{"submitter-own", "operator-own", "submitter-own"} {
		c := call{method: op.method, path: path, body: body, header: map[string]string{"Authorization": "Bearer " + b.token(principal), parameter: "of " + op.id}}
		var r api.Run
		c.do(t, b.base).read(t, &r)
		made[r.ID] = true
	}
	require.Len(t, made, 2)
}

// checkRunFile tries everything that a specification may name.
func checkRunFile(t *testing.T, b tenants, op operation, _ string) {
	t.Helper()
	for parameter, rule := range readNamed(t)["createRun"] {
		if parameter != "changegroup_token" && parameter != "Idempotency-Key" { // beside the keys of a specification
			nameChecks()[rule](t, b, op, parameter)
		}
	}
}

func checkUnread(t *testing.T, b tenants, op operation, _ string) {
	t.Helper()
	token := run.Token{"group:/other": 0}.String()
	spec := specWith(theirs, `"changegroups": ["group:/other"], "changegroup_token": "`+token+`", "secrets_from": {"T": {"provider": "theirs", "name": "N"}}, `,
		`"pool": "x", "approval": {"approvers": 1, "from": ["x"]}, "steps": [{"restore_cache": {"keys": ["k"], "scope": "/other/web"}},
		{"save_cache": {"key": "k", "paths": ["x"], "scope": "/other/web"}}]`)
	got := b.send(t, op.method, op.path, spec, "submitter-own")
	require.Equal(t, http.StatusOK, got.status, got.body)
	for _, other := range []string{`"pool": "absent"`, `"image": "i", "requires": {"driver": "docker"}`} {
		absent := b.send(t, op.method, op.path, strings.Replace(spec, `"pool": "x"`, other, 1), "submitter-own")
		require.Equal(t, got.body, absent.body)
	}
}

// checkUnseen demands that a name is answered like one that does not exist.
func checkUnseen(foreign string) func(*testing.T, tenants, operation, string) {
	return func(t *testing.T, b tenants, op operation, _ string) {
		t.Helper()
		ask := func(name string) answer {
			body := map[string]string{"scaleFleet": `{"instances": 1}`, "backfillSchedule": `{"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}`}[op.id]
			if body == "" {
				body = "{}"
			}
			return b.send(t, op.method, strings.Replace(op.path, "{name}", name, 1), body, "admin-own")
		}
		got := ask(foreign)
		got.problem(t, http.StatusNotFound, run.CodeNotFound)
		sameAsAbsent(t, got, ask("absent"), foreign, "absent")
	}
}

func checkNameOfSchedule(t *testing.T, b tenants, op operation, parameter string) {
	t.Helper()
	checkUnseen("other.x")(t, b, op, parameter)
}

func checkNewSchedule(t *testing.T, b tenants, _ operation, _ string) {
	t.Helper()
	put := func(name string) answer {
		return b.send(t, http.MethodPut, "/api/v1/schedules/"+name, `{"cron": ["@yearly"], "spec": `+specOf(ours)+`}`, "admin-own")
	}
	got := put("other.x")
	got.problem(t, http.StatusForbidden, run.CodeForbidden)
	sameAsAbsent(t, got, put("other.y"), "other.x", "other.y")
	require.Less(t, put("acme.made").status, 300)
	require.Less(t, put("acme.p").status, 300)
}

// checkRunOfSchedule: a trigger is a submission, so the caller must be one who may submit
// what the schedule of its group names.
func checkRunOfSchedule(t *testing.T, b tenants, op operation, parameter string) {
	t.Helper()
	checkNameOfSchedule(t, b, op, parameter)
	for name, changeGroup := range map[string]string{"acme.foreign-" + strings.ToLower(op.id): "group:/other", "acme.own-" + strings.ToLower(op.id): "group:/acme"} {
		_, _, err := b.scheduler.PutSchedule(t.Context(), scheduleOf(name, ours, changeGroup), "ops")
		require.NoError(t, err)
		body := "{}"
		if op.id == "backfillSchedule" {
			body = `{"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}`
		}
		got := b.send(t, op.method, strings.Replace(op.path, "{name}", name, 1), body, "admin-own")
		if changeGroup == "group:/acme" {
			require.Equal(t, http.StatusOK, got.status, got.body)
			continue
		}
		got.problem(t, http.StatusForbidden, run.CodeForbidden)
	}
}

func checkAllGroups(t *testing.T, b tenants, op operation, _ string) {
	t.Helper()
	path := strings.NewReplacer("{name}", "p", "{id}", "host-1").Replace(op.path)
	got := b.send(t, op.method, path, "{}", "admin-own")
	got.problem(t, http.StatusForbidden, run.CodeForbidden)
}

// noSessions are sessions that no call may reach.
type noSessions struct{ exec.Sessions }

// AwaitSessions implements exec.Sessions.
func (noSessions) AwaitSessions(context.Context, string, string) ([]execstream.Offer, error) {
	return nil, nil
}

func checkExecutor(t *testing.T, _ tenants, op operation, _ string) {
	t.Helper()
	base := serve(t, gateway.Deps{ExecutorAPI: &runtest.ExecutorAPI{}, Sessions: noSessions{}, Auth: boundTokens(t)}, gateway.Options{})
	const body = `{"id": "host-8", "executor": "host-8", "journal_id": "j", "pool": "linux", "driver": "shell", "slots": 1, "set": "",
		"key": {"run": "` + runID + `", "task": 0, "attempt": 1, "dispatch": 1}, "keys": [], "frames": []}`
	c := call{method: op.method, path: strings.Replace(op.path, "{session}", "s", 1) + "?executor=host-8", body: body}
	if !slices.Contains([]string{"joinSession", "openArchive", "saveArchive"}, op.id) {
		c.path, _, _ = strings.Cut(c.path, "?")
	}
	c.header = map[string]string{"Authorization": "Bearer seven", "Drover-Archive": "a", "Drover-Session": "t"}
	if op.id == "saveArchive" {
		c.header["Content-Type"] = "application/zstd"
	}
	c.do(t, base).problem(t, http.StatusForbidden, run.CodeForbidden)
}
