package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/fleeting"
	"github.com/drover-run/drover/fleeting/bootstrap"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/internal/tokens"
	"github.com/drover-run/drover/test/harness"
)

// instances are hosts, reached over SSH, that become executors of a pool.
type instances struct {
	*harness.Relayed
	t    *testing.T
	ssh  *bootstrap.SSH
	keys *tokens.Keys
	dir  string // holds all files of the executors
}

func startInstances(t *testing.T) *instances {
	t.Helper()
	parts := harness.StartRelayed(t, "host-7", "shell", "1")
	keys, err := tokens.ReadKeys(parts.Keys)
	require.NoError(t, err)
	ca, err := os.ReadFile(parts.CA)
	require.NoError(t, err)
	i := &instances{Relayed: parts, t: t, keys: keys, dir: filepath.Join(parts.Dir, "instances")}
	drover := harness.Drover(t)
	i.ssh, err = bootstrap.NewSSH(bootstrap.Options{
		Executor: bootstrap.Executor{
			Pool: "fleet", Driver: "shell", Slots: 2, Gateway: parts.Server,
			Relay: bootstrap.Relay{Address: parts.Address, CA: ca, ServerName: harness.RelayName},
		},
		Binaries: &bootstrap.Binaries{Drover: drover, Shim: filepath.Join(filepath.Dir(drover), "drover-shim")},
		Dir:      i.dir, Interval: 50 * time.Millisecond, Ready: "true",
	})
	require.NoError(t, err)
	return i
}

// target describes the executor that the bootstrap installs on the host of an
// SSH server.
func (i *instances) target(server *testenv.SSHD, id string) bootstrap.Target {
	return bootstrap.Target{
		Connect: fleeting.ConnectInfo{
			ID: id, InternalAddr: server.Address, Connector: fleeting.Connector{Username: server.User, Key: server.Key},
		},
		Executor: id,
		Credential: func(context.Context) (string, error) {
			return i.keys.IssueShortLived(tokens.Binding{Executor: id, Pool: "fleet"}, time.Now(), time.Hour)
		},
		Registered: func(ctx context.Context) (bool, error) { return i.state(ctx, id) == "online", nil },
	}
}

func (i *instances) state(ctx context.Context, id string) string {
	_, body, err := i.Do(ctx, http.MethodGet, "/api/v1/executors/"+id, "", "")
	var e api.Executor
	if err != nil || json.Unmarshal([]byte(body), &e) != nil {
		return fmt.Sprintf("not known: %s %v", body, err)
	}
	return string(e.State)
}

// TestBootstrap installs an executor on a host that is reached over SSH. The
// executor serves its pool through the relay, and its credential permits nothing
// else.
func TestBootstrap(t *testing.T) {
	t.Parallel()
	i := startInstances(t)
	server := testenv.StartSSHD(t)
	target := i.target(server, "fleet-1")
	r, err := i.ssh.Start(t.Context(), target)
	require.NoError(t, err)
	require.Equal(t, []string{"drover", "drover-shim"}, r.Uploaded)

	id := i.Submit("name: on-the-instance\ngroup: /test/fleet\ntasks: {a: {pool: fleet, steps: [{run: 'echo \"served by $PPID\"'}]}}\n").ID
	done := i.AwaitPhase(id, "finished")
	require.Equal(t, api.Result("success"), done.Result)
	require.Equal(t, "fleet-1", done.Tasks["a"].Executor)

	// A second start only replaces the credential.
	again, err := i.ssh.Start(t.Context(), target)
	require.NoError(t, err)
	require.Empty(t, again.Uploaded)
	require.False(t, again.Started)

	text, err := os.ReadFile(filepath.Join(i.dir, "executors", "fleet-1", "token"))
	require.NoError(t, err)
	stolen := harness.NewClient(t, i.Server, strings.TrimSpace(string(text)))
	for _, tt := range []struct{ call, body, refusal string }{
		{"register", `{"id":"fleet-2","journal_id":"j","pool":"fleet","driver":"shell","slots":1}`, "may not act as fleet-2"},
		{"register", `{"id":"fleet-1","journal_id":"j","pool":"shell","driver":"shell","slots":1}`, "may not serve pool shell"},
		{"renew", `{"executor":"host-7","journal_id":"j"}`, "may not act as host-7"},
		{"claim-states", `{"executor":"host-7","keys":[]}`, "may not act as host-7"},
	} {
		status, body, err := stolen.Do(t.Context(), http.MethodPost, "/api/v1/executor/"+tt.call, "application/json", tt.body)
		require.NoError(t, err)
		require.Equal(t, http.StatusForbidden, status, body)
		require.Contains(t, body, tt.refusal)
	}
	status, body, err := stolen.Do(t.Context(), http.MethodGet, "/api/v1/runs/"+id, "", "")
	require.NoError(t, err)
	require.Equal(t, http.StatusForbidden, status, body)

	require.NoError(t, i.ssh.Stop(t.Context(), target))
	require.NoFileExists(t, filepath.Join(i.dir, "executors", "fleet-1", "token"))
	testenv.Await(t, func() (bool, string) {
		state := i.state(t.Context(), "fleet-1")
		return state != "online", "the executor is " + state
	})
}
