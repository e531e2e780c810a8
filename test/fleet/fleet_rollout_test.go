//go:build linux

package fleet

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/test/harness"
)

// rolloutEnv is a fleet of local processes, whose executors have the image of
// their settings as a label.
type rolloutEnv struct {
	*fleetEnv
	plugin, machines string
}

// putImage changes the image of the fleet. With command it starts that instead of
// an executor.
func (f *rolloutEnv) putImage(image string, command ...string) {
	f.t.Helper()
	if len(command) == 0 {
		command = []string{
			harness.Drover(f.t), "start", "executor", "--id", "x-{{.ID}}", "--pool", "linux", "--driver", "shell", "--slots", "1", "--state-dir", "{{.Dir}}/state",
			"--gateway-url", f.Server, "--token-file", filepath.Join(f.Dir, "executor.token"), "--temporal", f.Temporal(),
		}
	}
	f.putFleet(map[string]any{
		"plugin": f.plugin, "max_instances": 4, "policy": []any{map[string]any{"idle_count": 1}},
		"update": map[string]any{"max_surge": 1, "max_unavailable": 0}, "allowed_groups": []string{"/a/**"},
		"plugin_config": map[string]any{
			"name": "demo", "state_dir": f.machines, "stop_timeout": "5s", "command": command,
			"env": map[string]string{
				"DROVER_EXECUTOR__LABELS": "drover-fleet=linux,drover-instance={{.ID}},image=" + image, "DROVER_EXECUTOR__TEMPORARY": "true",
			},
		},
	})
}

// rollout runs a command of c on the rollout of the fleet, and returns its output and its
// exit code.
func rollout(c *harness.Client, args ...string) (string, int) {
	return c.Command(slices.Concat([]string{"fleets", "rollout", args[0], "linux"}, args[1:])...)
}

// images returns the images of the executors that take tasks.
func (f *rolloutEnv) images() []string {
	f.t.Helper()
	var list api.ExecutorList
	f.read("/api/v1/executors", &list)
	images := map[string]bool{}
	for _, e := range list.Executors {
		if e.State == "online" {
			images[e.Labels["image"]] = true
		}
	}
	return slices.Sorted(maps.Keys(images))
}

// undoByTenants undoes the failed rollout. Of the users of the fleet's groups, the operator
// may do that, and the submitter reads why it failed; others know of no such fleet.
func (f *rolloutEnv) undoByTenants() {
	f.t.Helper()
	submitter, operator, other := f.User("a-ci", "submitter=/a/**"), f.User("a-lead", "operator=/a/**"), f.User("other", "operator=/other/**")
	for _, c := range []*harness.Client{submitter, operator} {
		out, code := rollout(c, "status")
		require.Equal(f.t, 1, code, out)
		require.Contains(f.t, out, "revision 3 is failed")
	}
	out, code := rollout(submitter, "undo")
	require.Equal(f.t, 4, code, out)
	require.Contains(f.t, out, "does not have the role operator")
	for _, command := range []string{"status", "undo", "pause"} {
		out, code = rollout(other, command)
		require.Equal(f.t, 5, code, out)
		require.Contains(f.t, out, "there is no fleet")
	}
	out, code = rollout(operator, "pause")
	require.Zero(f.t, code, out)
	out, code = rollout(operator, "undo", "--reason", "nine does not start")
	require.Zero(f.t, code, out)
	out, code = rollout(operator, "resume")
	require.Zero(f.t, code, out)
}

// TestFleet_rollout changes the image of a fleet while a task runs. The worker and
// the plugin are killed in between. The task finishes on its machine, and each
// machine is replaced. An image that does not start stops its rollout, which is
// then undone.
func TestFleet_rollout(t *testing.T) {
	t.Parallel()
	f := &rolloutEnv{
		fleetEnv: &fleetEnv{Parts: harness.StartFleets(t), t: t}, machines: t.TempDir(),
		plugin: testenv.BuildProgram(t, "plugins", "./cmd/fleeting-plugin-process"),
	}
	f.put("/api/v1/pools/linux", `{"driver": "shell"}`)
	f.putImage("seven")
	release, began := filepath.Join(t.TempDir(), "release"), filepath.Join(t.TempDir(), "began")
	id := f.Submit(fmt.Sprintf(`{name: long, group: /a/b, tasks: {t: {pool: linux, steps: [{run: 'echo x >> %s; until test -e %s; do sleep 0.1; done'}]}}}`, began, release)).ID
	testenv.Await(t, func() (bool, string) {
		_, err := os.Stat(began)
		return err == nil, fmt.Sprint(err)
	})
	f.await("an idle instance beside the busy one", func(all []api.FleetInstance) bool {
		return len(slices.DeleteFunc(slices.Clone(all), func(i api.FleetInstance) bool { return i.State != "ready" })) == 2
	})

	f.putImage("eight")
	f.killPlugin()
	f.await("a drained instance", func(all []api.FleetInstance) bool {
		return slices.ContainsFunc(all, func(i api.FleetInstance) bool { return i.Reason == "rollout" && i.State != "requested" })
	})
	f.Processes[harness.Fleet].Kill()
	f.Launch(harness.Fleet).AwaitReady()
	f.await("the end of the idle instance, and the drain of the busy one", func(all []api.FleetInstance) bool {
		old := slices.DeleteFunc(slices.Clone(all), func(i api.FleetInstance) bool { return i.Revision != 1 || i.State == "gone" })
		return len(old) == 1 && old[0].State == "draining" && old[0].Tasks == 1
	})
	out, code := rollout(f.Client, "status", "--wait", "--timeout", "1s")
	require.Equal(t, 1, code, out)
	require.Contains(t, out, "revision 2 is progressing")
	require.Contains(t, out, "the timeout has passed")
	require.Equal(t, api.PhaseRunning, f.Get(id).Phase, "the task continues")
	require.NoError(t, os.WriteFile(release, nil, 0o600))
	out, code = rollout(f.Client, "status", "--wait", "--timeout", "3m")
	require.Zero(t, code, out)
	require.Contains(t, out, "revision 2 is complete")
	require.EqualValues(t, "success", f.AwaitPhase(id, api.PhaseFinished).Result)
	text, err := os.ReadFile(began)
	require.NoError(t, err)
	require.Equal(t, "x\n", string(text), "the task ran once")
	require.Equal(t, []string{"eight"}, f.images())

	f.putImage("nine", "/bin/false")
	out, code = rollout(f.Client, "status", "--wait", "--timeout", "3m")
	require.Equal(t, 1, code, out)
	require.Contains(t, out, "revision 3 is failed")
	require.Equal(t, []string{"eight"}, f.images(), "the instances of revision 2 stay")
	out, code = rollout(f.Client, "undo", "--to-revision", "7")
	require.Equal(t, 5, code, out)
	require.Contains(t, out, "there is no revision 7")
	f.undoByTenants()
	out, code = rollout(f.Client, "status", "--wait", "--timeout", "3m")
	require.Zero(t, code, out)
	require.Contains(t, out, "revision 4 is complete")
	require.Equal(t, []string{"eight"}, f.images())
	out, code = rollout(f.Client, "history", "-o", "json")
	require.Zero(t, code, out)
	var history api.FleetRollout
	require.NoError(t, json.Unmarshal([]byte(out), &history))
	require.Equal(t, 4, history.Revisions[0].Number, "revision 2 is revision 4 now")
	require.Equal(t, []int{3, 1}, []int{history.Revisions[1].Number, history.Revisions[2].Number})
	for _, i := range f.ledger() {
		require.EqualValues(t, "requested", i.Cause, "the worker recognizes all machines")
		require.NotEmpty(t, i.Reason)
	}
	f.remove()
}
