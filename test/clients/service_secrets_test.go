package clients

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/test/harness"
)

// TestSecrets_of_services starts a service in a container that prints a secret
// and exits. Its output is in the setup log and in the reason of the task, and
// both mask the secret.
func TestSecrets_of_services(t *testing.T) {
	t.Parallel()
	docker := testenv.RequireDocker(t)
	image := testenv.BusyboxImage(t, docker)
	// The task waits for a service with a port until it listens or ends.
	service := testenv.ImageVariant(t, docker, image, "EXPOSE 1")
	dev := harness.StartDev(t, nil, "--executor", "docker")
	client := harness.NewClient(t, dev.Server, dev.Token)
	secret := rand.Text()
	encoded := base64.StdEncoding.EncodeToString([]byte(secret))
	id := client.Submit(fmt.Sprintf(`name: services
group: /test/services
secrets: {PASSWORD: %s}
tasks:
  a:
    image: %s
    steps: [{run: 'true'}]
    services:
    - {name: db, image: %s, environment: {PASSWORD: %s, ENCODED: "%s"}, command: [/bin/sh, -c, 'echo "first $PASSWORD"; echo "$ENCODED"; echo "last $PASSWORD"; exit 3']}
`, secret, image, service, secret, encoded)).ID
	r := client.AwaitPhase(id, api.PhaseFinished)
	require.Equal(t, api.StatusFailed, r.Tasks["a"].Status)
	status, log, err := client.Do(t.Context(), http.MethodGet, "/api/v1/runs/"+id+"/tasks/a/logs?step=setup", "", "")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	for _, hidden := range []string{secret, encoded} {
		require.NotContains(t, log, hidden)
		require.NotContains(t, r.Tasks["a"].Reason, hidden)
	}
	require.Contains(t, log, "service db: first ***\n")
	require.Contains(t, r.Tasks["a"].Reason, "service db ("+service+") ended at once: ")
	require.Contains(t, r.Tasks["a"].Reason, ": last ***")
}

// TestLogs_of_services reads what a service printed, which the log of its task does not have,
// through the API and the command line.
func TestLogs_of_services(t *testing.T) {
	t.Parallel()
	docker := testenv.RequireDocker(t)
	image := testenv.BusyboxImage(t, docker)
	dev := harness.StartDev(t, nil, "--executor", "docker")
	client := harness.NewClient(t, dev.Server, dev.Token)
	secret := rand.Text()
	id := client.Submit(fmt.Sprintf(`name: services
group: /test/services
secrets: {PASSWORD: %[1]s}
tasks:
  a:
    image: %[2]s
    working_dir: /workspace
    steps: [{run: 'echo begun > go; until [ -e printed ]; do sleep 0.1; done; echo from the step'}]
    services:
    - name: db
      image: %[2]s
      environment: {PASSWORD: %[1]s}
      share_working_dir: true
      health: {command: ['true']}
      command: [/bin/sh, -c, 'cd /workspace; echo "ready with $PASSWORD"; until [ -e go ]; do sleep 0.1; done; echo a query; touch printed; sleep 300']
`, secret, image)).ID
	r := client.AwaitPhase(id, api.PhaseFinished)
	require.Equal(t, api.StatusSuccess, r.Tasks["a"].Status, r.Tasks["a"].Reason)
	read := func(query string) string {
		status, log, err := client.Do(t.Context(), http.MethodGet, "/api/v1/runs/"+id+"/tasks/a/logs"+query, "", "")
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status)
		return log
	}
	const want = "ready with ***\na query\n"
	require.Equal(t, want, read("?follow=true&stream=service:db"))
	require.Contains(t, read(""), "from the step\n")
	require.NotContains(t, read(""), "a query")
	out, code := client.Command("logs", id, "a", "--service", "db", "--tail", "1")
	require.Equal(t, 0, code, out)
	require.Equal(t, "a query\n", out)
}
