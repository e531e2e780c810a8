//go:build linux

package fleet

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/fleeting/fleetingtest/cloud"
	"github.com/drover-run/drover/internal/testenv"
)

// TestFleet_create_that_does_not_return uses a plugin that creates two of three
// machines and never returns from the call. The two machines still run their
// tasks.
func TestFleet_create_that_does_not_return(t *testing.T) {
	t.Parallel()
	plugin := testenv.BuildProgram(t, ".", "./fleeting/fleetingtest/faulty")
	c, err := cloud.Open(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, c.Inject(cloud.Fault{Call: "Increase", Do: 2, Outcome: cloud.Hang, Times: 1}))
	var config map[string]any
	require.NoError(t, json.Unmarshal(c.Config(), &config))
	settings, err := json.Marshal(map[string]any{
		"pool": "linux", "plugin": plugin, "plugin_config": config, "max_use_count": 1, "max_instances": 3,
		"update_interval": "1s", "update_interval_when_expecting": "200ms", "hold_down": "0s",
	})
	require.NoError(t, err)
	f := newFleetEnv(t, string(settings))
	spec := "name: slow\ngroup: /fleets/slow\ntasks:\n"
	for i := range 3 {
		spec += fmt.Sprintf("  t%d: {pool: linux, steps: [{run: 'true'}]}\n", i)
	}
	id := f.Submit(spec).ID
	testenv.Await(t, func() (bool, string) {
		f.syncExecutors()
		done := 0
		for _, task := range f.Get(id).Tasks {
			if task.Status == "success" {
				done++
			}
		}
		return done == 2, fmt.Sprintf("%d of 2 tasks are done", done)
	})
	n, err := c.Count("Increase")
	require.NoError(t, err)
	require.Equal(t, 1, n, "the call has not returned")
}
