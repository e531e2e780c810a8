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
