package clients

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/test/harness"
)

// TestClient_secrets submits a run whose variables and secrets come from the
// command line, from the environment and files of the client, and from the
// provider of `drover dev`. The steps have the values, and the log masks them.
func TestClient_secrets(t *testing.T) {
	t.Parallel()
	fromEnv, fromFile, given, provided := rand.Text(), rand.Text(), rand.Text(), rand.Text()
	dev := harness.StartDev(t, []string{"SECRET_PROVIDED=" + provided}, "--executor", "shell")
	dir := t.TempDir()
	for name, text := range map[string]string{
		"run.yaml": `name: secrets
group: /test/client
environment: {WHO: Ada, PLACE: here}
secrets_from:
  PROVIDED: {provider: env, name: PROVIDED}
  ENV: {provider: env, name: NOT_READ}
tasks:
  a:
    steps:
    - run: for v in "$ENV" "$FILE" "$GIVEN" "$PROVIDED"; do printf %s "$v" | sha256sum; done
    - run: echo "$WHO $PLACE $MORE"; echo "$ENV $FILE $GIVEN $PROVIDED"
`,
		"key.txt": fromFile + "\n",
		"env":     "# comment\nWHO=Grace\nPLACE=\"over there\"\nMORE=none\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	c := exec.CommandContext(t.Context(), harness.Drover(t), "run", "run.yaml", "--follow", "--plain",
		"--secret", "ENV", "--secret", "FILE=@key.txt", "--secret", "GIVEN="+given, "--env-file", "env", "-e", "WHO")
	c.Dir = dir
	c.Env = append(os.Environ(), "DROVER_SERVER="+dev.Server, "DROVER_TOKEN="+dev.Token, "ENV="+fromEnv, "WHO=Barbara")
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, secret := range []string{fromEnv, fromFile, given, provided} {
		sum := sha256.Sum256([]byte(secret))
		require.Contains(t, string(out), "a | "+hex.EncodeToString(sum[:])+"  -\n")
		require.NotContains(t, string(out), secret)
	}
	require.Contains(t, string(out), "a | Barbara over there none\na | *** *** *** ***\n")
}
