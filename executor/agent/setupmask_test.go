package agent_test

import (
	"crypto/rand"
	"encoding/base64"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

// The output of a service that ends is in the log of the setup, and in the reason.
// Neither contains a secret of the task, or a password of a registry.
func TestAgent_hides_secrets_of_the_setup(t *testing.T) {
	withTestEnv(t, func(t *testing.T, w *testEnv) {
		secret, password := rand.Text(), rand.Text()
		w.api.hidden, w.api.auth = []string{secret}, map[string]run.Auth{"ghcr.io": {Username: "u", Password: password}}
		said := "service db: password " + secret + ", " + base64.StdEncoding.EncodeToString([]byte(secret)) + ", " + password
		w.script = func(run.Key) script {
			return script{setup: []string{"pulling", said}, failure: run.Errorf(run.CodeInvalid, "service db ended at once: %s", said)}
		}
		w.newHost(1).start(nil)
		w.submit(0)
		w.awaitEnd(time.Minute, 0)
		require.Equal(t, run.StatusFailed, w.outcome(0).Status)
		require.Equal(t, "service db ended at once: service db: password ***, ***, ***", w.outcome(0).Reason)
		w.requireLog(0)
		var log string
		for _, f := range w.api.log(w.api.lastClaim(0)) {
			log += string(f.Data)
		}
		require.Contains(t, log, "pulling\nservice db: password ***, ***, ***\n")
		require.NotContains(t, log, secret)
	})
}
