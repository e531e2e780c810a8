package kill

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/test/harness"
)

// TestReencrypt replaces the key with which secrets are encrypted at rest.
func TestReencrypt(t *testing.T) {
	t.Parallel()
	dev := harness.StartDev(t, nil, "--executor", "shell")
	spec := fmt.Sprintf(`{name: sealed, group: /test/reencrypt, secrets: {TOKEN: %[1]s}, tasks: {
		t: {steps: [{run: 'test "$TOKEN" = %[1]s'}]}}}`, rand.Text())
	id := dev.Submit(spec).ID
	require.Equal(t, api.ResultSuccess, dev.AwaitPhase(id, api.PhaseFinished).Result)
	require.NoError(t, dev.Stop())

	data := filepath.Join(dev.Dir, "data")
	keys := filepath.Join(data, "records.keys")
	env := []string{"DROVER_RECORDS__PATH=" + filepath.Join(data, "records.db"), "DROVER_RECORDS__KEYS_FILE=" + keys}
	drover := func(args ...string) string {
		t.Helper()
		log, err := harness.Start(t, dev.Dir, env, args...).AwaitEnd()
		require.NoError(t, err, log)
		return log
	}
	drover("keys", "create", "encryption", "--id", "k2", "--file", keys)
	require.Contains(t, drover("records", "reencrypt"), "1 secrets were encrypted again")
	require.Contains(t, drover("records", "reencrypt"), "0 secrets were encrypted again")
	log, err := harness.Start(t, dev.Dir, env, "keys", "create", "encryption", "--id", "k2", "--file", keys).AwaitEnd()
	require.ErrorContains(t, err, "exit status 2")
	require.Contains(t, log, "there is a key k2 already")

	// The old key is not needed any more.
	lines, err := os.ReadFile(keys)
	require.NoError(t, err)
	first, _, _ := strings.Cut(string(lines), "\n")
	require.True(t, strings.HasPrefix(first, "k2:"))
	require.NoError(t, os.WriteFile(keys, []byte(first+"\n"), 0o600))
	dev.Restart()
	status, text, err := dev.Do(t.Context(), "POST", "/api/v1/runs/"+id+"/restart", "application/json", `{"from": "start"}`)
	require.NoError(t, err)
	require.Equal(t, 201, status, text)
	again := dev.Get(id).RestartedAs[0]
	require.Equal(t, api.ResultSuccess, dev.AwaitPhase(again, api.PhaseFinished).Result)
}
