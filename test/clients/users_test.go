package clients

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/test/harness"
)

const reviewed = `name: release
group: %s
tasks:
  build: {steps: [{run: 'true'}]}
  deploy: {depends: [build], approval: true, steps: [{run: 'exit 3'}]}
`

// TestContexts_of_two_users: on one host, someone logs in with the tokens of two users and
// chooses between them by contexts. Each command does what the role of its user allows.
func TestContexts_of_two_users(t *testing.T) {
	t.Parallel()
	dev := harness.StartDev(t, nil, "--executor", "shell")
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	drover := func(args ...string) (string, int) {
		c := exec.CommandContext(t.Context(), harness.Drover(t), args...)
		c.Env = append(os.Environ(), "DROVER_CONTEXT="+filepath.Join(dir, "context.yaml"))
		out, err := c.CombinedOutput()
		if c.ProcessState == nil {
			require.NoError(t, err)
		}
		return string(out), c.ProcessState.ExitCode()
	}
	for name, binding := range map[string]string{"ci": "submitter=/acme/**", "lead": "approver=/acme/**", "globex": "submitter=/globex/**"} {
		out, code := drover("login", dev.Server, "--name", name, "--token-file", file(name, dev.User("user-"+name, binding).Token))
		require.Zero(t, code, out)
		require.Contains(t, out, "The current context is "+name)
	}
	spec := file("run.yaml", fmt.Sprintf(reviewed, "/acme/web"))

	out, code := drover("run", spec, "--context", "lead")
	require.Equal(t, 4, code, out)
	require.Contains(t, out, "user-lead does not have the role submitter")
	out, code = drover("context", "use", "ci")
	require.Zero(t, code, out)
	out, code = drover("run", spec)
	require.Zero(t, code, out)
	var list api.RunPage
	dev.AwaitPath("/api/v1/runs", func(body string) bool {
		require.NoError(t, json.Unmarshal([]byte(body), &list))
		return len(list.Runs) == 1
	})
	id := list.Runs[0].ID
	dev.Await(id, func(r api.Run) bool { return r.Tasks["build"].Status == "success" })

	out, code = drover("runs", "approve", id, "deploy")
	require.Equal(t, 4, code, out)
	require.Contains(t, out, "user-ci does not have the role approver")
	out, code = drover("runs", "approve", id, "deploy", "--context", "globex")
	require.Equal(t, 5, code, out)
	require.Contains(t, out, "there is no run "+id)
	out, code = drover("ps", "--context", "globex")
	require.Zero(t, code, out)
	require.NotContains(t, out, "release")
	out, code = drover("runs", "approve", id, "deploy", "--context", "lead")
	require.Zero(t, code, out)
	r := dev.AwaitPhase(id, api.PhaseFinished)
	require.EqualValues(t, "failed", r.Result, harness.Describe(r))
	require.Equal(t, []string{"user-lead"}, r.Tasks["deploy"].Approval.ApprovedBy)

	out, code = drover("context", "delete", "ci")
	require.Zero(t, code, out)
	out, code = drover("ps", "--context", "ci")
	require.NotZero(t, code, out)
	require.Contains(t, out, "ci")
	require.NoError(t, dev.Stop())
}

// TestNotifications_of_a_team: an administrator has the runs of a team reported to its
// channel. What its users do is reported there, and what others do is not; users of groups
// can neither read nor change the webhook.
func TestNotifications_of_a_team(t *testing.T) {
	t.Parallel()
	dev := harness.StartDev(t, nil, "--executor", "shell")
	ci, lead, globex := dev.User("acme-ci", "submitter=/acme/**"), dev.User("acme-lead", "operator=/acme/**"), dev.User("globex-ci", "submitter=/globex/**")
	admin := dev.User("admin-of-all", "admin=/**")
	c := newChannel(t)
	settings := fmt.Sprintf(`{"url": "http://%s/services/%s", "format": "slack", "results": ["failed"], "group": "/acme"}`, c.address, notifySecret)
	for _, user := range []*harness.Client{ci, lead} {
		for _, method := range []string{http.MethodPut, http.MethodGet, http.MethodDelete} {
			status, body, err := user.Do(t.Context(), method, "/api/v1/webhooks/ci", "application/json", settings)
			require.NoError(t, err)
			require.Equal(t, http.StatusForbidden, status, body)
			require.NotContains(t, body, notifySecret)
		}
	}
	hook(t, admin, http.MethodPut, settings)

	globex.AwaitPhase(globex.Submit("name: other\ngroup: /globex/web\ntasks: {a: {steps: [{run: 'exit 1'}]}}\n").ID, api.PhaseFinished)
	id := ci.Submit(fmt.Sprintf(reviewed, "/acme/web")).ID
	c.await("release #1: deploy waits for approval")
	out, code := ci.Command("runs", "approve", id, "deploy")
	require.Equal(t, 4, code, out)
	out, code = lead.Command("runs", "approve", id, "deploy")
	require.Zero(t, code, out)
	ci.AwaitPhase(id, api.PhaseFinished)
	c.await("release #1: deploy waits for approval", "release #1 failed")
	require.NoError(t, dev.Stop())
}
