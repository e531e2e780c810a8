//go:build linux

package fleet

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/test/harness"
)

const sshFleet = `
pool: linux
plugin: %s
plugin_config:
  name: lab
  state_dir: %s
  hosts: [%s]
connector_config: {protocol: ssh, username: %s}
bootstrap: ssh
instance_ready_command: "true"
max_instances: 2
update_interval: 1s
update_interval_when_expecting: 200ms
hold_down: 0s
`

// TestFleet_over_ssh scales a fleet from zero on hosts that are reached over
// SSH, and waits until it is at zero again. The tasks run there, through the relay,
// and no process of the executors remains on the hosts.
func TestFleet_over_ssh(t *testing.T) {
	t.Parallel()
	first, second := testenv.StartSSHD(t), testenv.StartSSHD(t)
	plugin := testenv.BuildProgram(t, "plugins", "./cmd/fleeting-plugin-static")
	parts := harness.StartRelayed(t, "host-7", "shell", "1")
	dir := filepath.Join(parts.Dir, "instances")
	parts.LaunchFleets(dir)
	var hosts []string
	for n, server := range []*testenv.SSHD{first, second} {
		key := filepath.Join(t.TempDir(), fmt.Sprintf("key-%d", n))
		require.NoError(t, os.WriteFile(key, server.Key, 0o600))
		hosts = append(hosts, fmt.Sprintf("{address: %q, key_path: %q}", server.Address, key))
	}
	for _, put := range [][2]string{ // the pool of a fleet must exist
		{"/api/v1/pools/linux", `{"driver": "shell"}`},
		{"/api/v1/fleets/linux", fmt.Sprintf(sshFleet, plugin, filepath.Join(parts.Dir, "static"), strings.Join(hosts, ", "), first.User)},
	} {
		status, answer, err := parts.Do(t.Context(), http.MethodPut, put[0], "application/yaml", put[1])
		require.NoError(t, err)
		require.Less(t, status, 300, answer)
	}
	id := parts.Submit("name: on-hosts\ngroup: /fleets/ssh\ntasks:\n  a: {pool: linux, steps: [{run: 'sleep 1'}]}\n  b: {pool: linux, steps: [{run: 'sleep 1'}]}\n").ID
	done := parts.AwaitPhase(id, "finished")
	require.Equal(t, api.Result("success"), done.Result)
	for _, task := range done.Tasks {
		require.Contains(t, task.Executor, "linux-", "an instance of the fleet")
	}
	var list api.FleetInstanceList
	testenv.Await(t, func() (bool, string) {
		status, body, err := parts.Do(t.Context(), http.MethodGet, "/api/v1/fleets/linux/instances?gone=true", "", "")
		if err != nil || status != http.StatusOK || json.Unmarshal([]byte(body), &list) != nil {
			return false, body
		}
		return !slices.ContainsFunc(list.Instances, func(i api.FleetInstance) bool { return i.State != "gone" }), body
	})
	uses := 0
	for _, i := range list.Instances {
		uses += i.Uses
	}
	require.Equal(t, 2, uses)
	testenv.Await(t, func() (bool, string) {
		left := runningBelow(t, dir)
		return len(left) == 0, "processes are left: " + strings.Join(left, "; ")
	})
}

// runningBelow lists the command lines of processes that name a file below a
// directory.
func runningBelow(t *testing.T, dir string) []string {
	t.Helper()
	lists, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	var found []string
	for _, list := range lists {
		line, err := os.ReadFile(list)
		if text := strings.ReplaceAll(string(line), "\x00", " "); err == nil && strings.Contains(text, dir+"/") {
			found = append(found, text)
		}
	}
	return found
}
