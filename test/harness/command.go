package harness

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
)

// Command runs a client command with the token of c, and returns its output and its exit
// code.
func (c *Client) Command(args ...string) (string, int) {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), Drover(c.t), args...)
	cmd.Env = append(os.Environ(), "DROVER_SERVER="+c.Server, "DROVER_TOKEN="+c.Token)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		require.NoError(c.t, err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// User creates a token with bindings, each ROLE=PATTERN, and returns its client.
func (c *Client) User(name string, bindings ...string) *Client {
	c.t.Helper()
	body := map[string]any{"name": name}
	var roles []map[string]any
	for _, b := range bindings {
		role, pattern, _ := strings.Cut(b, "=")
		roles = append(roles, map[string]any{"role": role, "groups": []string{pattern}})
	}
	body["bindings"] = roles
	text, err := json.Marshal(body)
	require.NoError(c.t, err)
	status, answer, err := c.Do(c.t.Context(), http.MethodPost, "/api/v1/tokens", "application/json", string(text))
	require.NoError(c.t, err)
	require.Equal(c.t, http.StatusCreated, status, answer)
	var created api.NewToken
	require.NoError(c.t, json.Unmarshal([]byte(answer), &created))
	return NewClient(c.t, c.Server, created.Token)
}
