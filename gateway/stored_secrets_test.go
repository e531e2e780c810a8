package gateway_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/internal/testenv/pages"
	"github.com/drover-run/drover/run"
)

// TestPage_stored_secrets: each operation that may change something is in the table of the
// ways in which it meets stored secrets, with all fields of its body.
func TestPage_stored_secrets(t *testing.T) {
	t.Parallel()
	fields, whole := map[string][]string{}, map[string]bool{}
	for _, row := range pages.Table(t, accessPage, "## Stored secrets") {
		for part := range strings.SplitSeq(row[1], "; ") {
			ops, of, some := strings.Cut(part, ":")
			for _, op := range pages.Quoted(ops) {
				whole[op] = whole[op] || !some
				fields[op] = append(fields[op], pages.Quoted(of)...)
			}
		}
	}
	known := map[string]bool{}
	for _, item := range contract(t).Paths.Map() {
		for method, op := range item.Operations() {
			known[op.OperationID] = true
			if op.Extensions["x-scope"] == "executor" || method == http.MethodGet && op.Extensions["x-scope"] != "exec" {
				continue
			}
			require.Contains(t, fields, op.OperationID, "say in the last table of docs/%s what becomes of stored secrets", accessPage)
			if whole[op.OperationID] {
				continue
			}
			var inBody []string
			for _, media := range op.RequestBody.Value.Content {
				all := map[string]bool{}
				addFields(all, "", media.Schema, nil)
				inBody = slices.DeleteFunc(slices.Collect(maps.Keys(all)), func(name string) bool { return strings.Contains(name, ".") })
			}
			require.ElementsMatch(t, inBody, fields[op.OperationID], "the fields of %s in the last table of docs/%s", op.OperationID, accessPage)
		}
	}
	for op := range fields {
		require.True(t, known[op], "%s is no operation", op)
	}
}

// The callers of the tests of stored secrets: two of one tenant, and the admin.
const (
	ann = "submitter-own"
	bob = "operator-own"
	ops = "admin-all"
)

// steps is a specification with secrets, and an image that an input chooses. It replaces one
// text by another.
func steps(secrets string, replace ...string) string {
	return strings.NewReplacer(replace...).Replace(`{"name": "n", "group": "/acme/web", "admission": "manual", ` + secrets + `
		"inputs": {"image": {"default": "ours"}}, "input_values": {"image": "ours"}, "environment": {"URL": "ours"},
		"tasks": {"a": {"pool": "p", "image": "{{ input \"image\" }}", "steps": [{"run": "deploy"}]}}}`)
}

const token = `"secrets": {"TOKEN": "hush"},`

// secretsOf returns the values of the secrets of a run.
func (b tenants) secretsOf(t *testing.T, id string) map[string]run.Secret {
	t.Helper()
	source, err := b.store.RestartSource(t.Context(), run.ID(id))
	require.NoError(t, err)
	return source.Spec.Secrets
}

// restart restarts a run as a caller, and returns the secrets of the new one: nil if the call
// asks for the value of TOKEN.
func (b tenants) restart(t *testing.T, id, body, principal string) map[string]run.Secret {
	t.Helper()
	got := b.send(t, http.MethodPost, "/api/v1/runs/"+id+"/restart", body, principal)
	if got.status == http.StatusUnprocessableEntity {
		requireToken(t, got, "secrets.TOKEN")
		return nil
	}
	var r api.Run
	got.read(t, &r)
	out := b.secretsOf(t, r.ID)
	if out == nil {
		out = map[string]run.Secret{}
	}
	return out
}

func requireToken(t *testing.T, got answer, path string) {
	t.Helper()
	p := got.problem(t, http.StatusUnprocessableEntity, run.CodeInvalid)
	require.Len(t, p.Errors, 1, got.body)
	require.Equal(t, path, p.Errors[0].Path)
	require.Equal(t, string(run.FaultRequired), p.Errors[0].Code)
}

// changed has changes of a specification after which its runs could show a secret.
func changed() map[string][]string {
	return map[string][]string{
		"text":        {"deploy", "printenv TOKEN | rev"},
		"environment": {`"URL": "ours"`, `"URL": "theirs"`},
		"input":       {`"input_values": {"image": "ours"}`, `"input_values": {"image": "theirs"}`},
		"image":       {`{{ input \"image\" }}`, `theirs`},
		"group":       {`/acme/web`, `/acme/web/dev`},
		"pool":        {`"pool": "p", `, `"requires": {"driver": "docker"}, `},
	}
}

// TestTenants_stored_secrets tries the ways of the page with two tenants' tokens, and with
// two users of the test provider.
func TestTenants_stored_secrets(t *testing.T) {
	t.Parallel()
	identity := testenv.StartIdentity(t)
	for _, kind := range []string{"tokens", "users"} {
		auth, signed := tenantTokens(t)
		if kind == "users" {
			auth, signed = tenantUsers(t, identity)
		}
		b := scheduledTenants(t, auth, signed)
		for name, check := range map[string]func(*testing.T, tenants){
			"restart": checkSecretsOfRestart, "schedule": checkSecretsOfSchedule, "webhook": checkSecretsOfWebhook, "fleet": checkSecretsOfFleet, "pool": checkSecretsOfPool,
		} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				check(t, b)
			})
		}
	}
}

func checkSecretsOfRestart(t *testing.T, b tenants) {
	t.Helper()
	kept := map[string]run.Secret{"TOKEN": "hush"}
	mine := map[string]run.Secret{"TOKEN": "mine"}
	var r api.Run
	b.put(t, "createRun", steps(token), ann).read(t, &r)
	_, err := b.Cancel(t.Context(), run.ID(r.ID), nil)
	require.NoError(t, err)
	hidden := b.put(t, "createRun", steps(`"secrets": {"TOKEN": "[redacted]"},`), bob)
	hidden.problem(t, http.StatusUnprocessableEntity, run.CodeInvalid)
	stranger := b.send(t, http.MethodPost, "/api/v1/runs/"+r.ID+"/restart", `{"from": "start"}`, "admin-foreign")
	stranger.problem(t, http.StatusNotFound, run.CodeNotFound)

	for _, body := range []string{`{"from": "start"}`, `{"tasks": ["a"]}`, `{"from": "start", "environment": {"URL": "ours"}, "input_values": {"image": "ours"}}`} {
		require.Equal(t, kept, b.restart(t, r.ID, body, bob), body)
	}
	for _, more := range []string{
		`"environment": {"BASH_ENV": "$(env | rev >&2)"}`, `"environment": {"URL": "theirs"}`, `"input_values": {"image": "theirs"}`, `"secrets": {"OTHER": "x"}`,
	} {
		body := `{"from": "start", ` + more + `}`
		require.Nil(t, b.restart(t, r.ID, body, bob), body)
		require.Equal(t, run.Secret("hush"), b.restart(t, r.ID, body, ann)["TOKEN"], body)
		if !strings.Contains(more, "OTHER") {
			require.Equal(t, mine, b.restart(t, r.ID, strings.Replace(body, "{", `{"secrets": {"TOKEN": "mine"}, `, 1), bob), body)
		}
	}
	for name, change := range changed() {
		for _, secrets := range []string{`"secrets": {"TOKEN": "[redacted]"},`, ""} {
			text, err := json.Marshal(steps(secrets, change...))
			require.NoError(t, err)
			body := `{"from": "start", "spec": ` + string(text) + `}`
			if secrets == "" {
				require.Empty(t, b.restart(t, r.ID, body, bob), name)
				continue
			}
			require.Nil(t, b.restart(t, r.ID, body, bob), name)
			require.Equal(t, kept, b.restart(t, r.ID, body, ann), name)
			require.Equal(t, mine, b.restart(t, r.ID, strings.Replace(body, "{", `{"secrets": {"TOKEN": "mine"}, `, 1), bob), name)
		}
	}
	// A restart does not make the secrets those of the caller.
	var again api.Run
	b.send(t, http.MethodPost, "/api/v1/runs/"+r.ID+"/restart", `{"from": "start"}`, bob).read(t, &again)
	_, err = b.Cancel(t.Context(), run.ID(again.ID), nil)
	require.NoError(t, err)
	require.Nil(t, b.restart(t, again.ID, `{"from": "start", "environment": {"X": "y"}}`, bob))
	require.Equal(t, kept, b.restart(t, again.ID, `{"from": "start", "environment": {"X": "y"}}`, ann))
}

func checkSecretsOfSchedule(t *testing.T, b tenants) {
	t.Helper()
	const path = "/api/v1/schedules/acme.secret"
	kept := map[string]run.Secret{"TOKEN": "hush"}
	put := func(principal, spec string, more ...string) answer {
		return b.send(t, http.MethodPut, path, `{"cron": ["@yearly"], `+strings.Join(more, "")+`"spec": `+spec+`}`, principal)
	}
	require.Equal(t, http.StatusCreated, put(ann, steps(token)).status)
	for name, change := range changed() {
		requireToken(t, put(bob, steps("", change...)), "spec.secrets.TOKEN")
		require.NotEqual(t, http.StatusOK, put("admin-foreign", steps("", change...)).status, name)
	}
	got := put(bob, steps(""), `"timezone": "Europe/Berlin", "jitter": "1m", "note": "later", "overlap": "buffer_one", `)
	require.Equal(t, http.StatusOK, got.status, "the runs are the same: %s", got.body)
	for _, action := range []string{"/trigger", "/pause", "/resume"} {
		require.Equal(t, http.StatusOK, b.send(t, http.MethodPost, path+action, "{}", bob).status)
	}
	fired := string(b.fire(t, "acme.secret"))
	require.Equal(t, kept, b.secretsOf(t, fired))
	_, err := b.Cancel(t.Context(), run.ID(fired), nil)
	require.NoError(t, err)
	require.Equal(t, kept, b.restart(t, fired, `{"from": "start"}`, bob))
	require.Nil(t, b.restart(t, fired, `{"from": "start", "environment": {"X": "y"}}`, bob))
	require.Equal(t, kept, b.restart(t, fired, `{"from": "start", "environment": {"X": "y"}}`, ann), "they are hers, also in a run of the schedule")

	require.Equal(t, http.StatusOK, put(ann, steps("", "deploy", "deploy again")).status)
	require.Equal(t, kept, b.secretsOf(t, string(b.fire(t, "acme.secret"))))
	require.Equal(t, http.StatusOK, put(bob, steps(`"secrets": {},`)).status)
	require.Empty(t, b.secretsOf(t, string(b.fire(t, "acme.secret"))))
	require.Equal(t, http.StatusOK, put(bob, steps(`"secrets": {"TOKEN": "mine"},`)).status)
	requireToken(t, put(ann, steps("", "deploy", "other")), "spec.secrets.TOKEN")

	require.Equal(t, http.StatusNoContent, b.send(t, http.MethodDelete, path, "{}", ann).status)
	require.Equal(t, http.StatusCreated, put(ann, steps("")).status)
	require.Empty(t, b.secretsOf(t, string(b.fire(t, "acme.secret"))))
}

func checkSecretsOfWebhook(t *testing.T, b tenants) {
	t.Helper()
	put := func(name, body string) answer { return b.send(t, http.MethodPut, "/api/v1/webhooks/"+name, body, ops) }
	secretOf := func(name string) run.Secret {
		d, err := b.store.AcquireWebhook(t.Context(), name) // as the worker that delivers it
		require.NoError(t, err)
		return d.Secret
	}
	const key = "0123456789abcdef"
	require.Equal(t, http.StatusCreated, put("signed", `{"url": "http://one", "secret": "`+key+`"}`).status)
	require.Equal(t, http.StatusOK, put("signed", `{"url": "http://two", "group": "/acme"}`).status)
	require.Equal(t, run.Secret(key), secretOf("signed"), "it signs, and is never sent")
	requireToken(t, put("signed", `{"url": "smtp://two", "format": "email", "email": {"from": "a@b.c", "to": ["a@b.c"], "username": "u"}}`), "secret")

	email := func(url, user, more string) string {
		return `{"url": "` + url + `", "format": "email", ` + more + `"email": {"from": "a@b.c", "to": ["a@b.c"], "username": "` + user + `"}}`
	}
	require.Equal(t, http.StatusCreated, put("mail", email("smtp://one", "u", `"secret": "`+key+`", `)).status)
	requireToken(t, put("mail", email("smtp://two", "u", "")), "secret")
	requireToken(t, put("mail", email("smtp://one:26", "u", "")), "secret")
	requireToken(t, put("mail", email("smtp://one", "v", "")), "secret")
	require.Equal(t, http.StatusOK, put("mail", email("smtp://one", "u", `"groups": ["/acme"], `)).status)
	require.Equal(t, run.Secret(key), secretOf("mail"))

	require.Equal(t, http.StatusCreated, put("chat", `{"url": "https://one/secret", "format": "slack"}`).status)
	requireToken(t, put("chat", `{"url": "https://two/[redacted]", "format": "slack"}`), "url")
	requireToken(t, put("chat", `{"url": "https://one/[redacted]", "format": "teams"}`), "url")
	require.Equal(t, http.StatusOK, put("chat", `{"url": "https://one/[redacted]", "format": "slack", "results": ["failed"]}`).status)
	require.Equal(t, run.Secret("https://one/secret"), secretOf("chat"))
}

func checkSecretsOfFleet(t *testing.T, b tenants) {
	t.Helper()
	const path = "/api/v1/fleets/p"
	put := func(config string) {
		got := b.send(t, http.MethodPut, path, `{"pool": "p", "plugin": "docker", "allowed_groups": ["/acme/web/**"], "plugin_config": `+config+`}`, ops)
		require.Equal(t, http.StatusOK, got.status, got.body)
	}
	config := func() string {
		f, err := b.store.GetFleet(t.Context(), "p")
		require.NoError(t, err)
		return string(f.Spec.PluginConfig)
	}
	put(`{"api_token": "hush-hush", "image": "a"}`)
	earlier := b.send(t, http.MethodGet, path, "", ops)
	var f api.Fleet
	earlier.read(t, &f)
	put(`{"image": "b"}`)
	require.JSONEq(t, `{"image": "b"}`, config(), "nothing is kept")
	undo := fmt.Sprintf(`{"to_revision": %d}`, f.Revision)
	refused := b.send(t, http.MethodPost, path+"/rollout/undo", undo, "admin-foreign")
	refused.problem(t, http.StatusNotFound, run.CodeNotFound)
	undone := b.send(t, http.MethodPost, path+"/rollout/undo", undo, bob)
	require.Equal(t, http.StatusOK, undone.status, undone.body)
	require.JSONEq(t, `{"api_token": "hush-hush", "image": "a"}`, config())
	for _, got := range []answer{
		earlier, undone, b.send(t, http.MethodGet, path, "", ops), b.send(t, http.MethodGet, path, "", bob), b.send(t, http.MethodGet, path+"/rollout", "", bob),
	} {
		require.NotContains(t, got.body, "hush-hush")
	}
}

func checkSecretsOfPool(t *testing.T, b tenants) {
	t.Helper()
	put := func(groups string) {
		got := b.send(t, http.MethodPut, "/api/v1/pools/q", `{"driver": "docker", "allowed_groups": ["`+groups+`"]}`, ops)
		require.Less(t, got.status, 300, got.body)
	}
	put("/acme/**")
	var r api.Run
	b.put(t, "createRun", steps(token, `"pool": "p"`, `"pool": "q"`), ann).read(t, &r)
	put("/other/**")
	b.send(t, http.MethodGet, "/api/v1/runs/"+r.ID, "", ann).read(t, &r)
	require.Equal(t, "q", r.Tasks["a"].Pool)
	_, err := b.Cancel(t.Context(), run.ID(r.ID), nil)
	require.NoError(t, err)
	got := b.send(t, http.MethodPost, "/api/v1/runs/"+r.ID+"/restart", `{"from": "start"}`, ann)
	require.Equal(t, "tasks.a.pool", got.problem(t, http.StatusUnprocessableEntity, run.CodeInvalid).Errors[0].Path)
}
