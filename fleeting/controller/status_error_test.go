package controller_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/fleeting"
	"github.com/drover-run/drover/fleeting/controller"
	"github.com/drover-run/drover/run"
)

func TestFleet_waiting_task_names_the_error_of_its_fleet(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.cloud.increase = func(*cloud, int) (int, error) { return 0, errors.New("quota exceeded") }
	w.put(nil)
	id := w.submit(1)
	reason := func() string {
		r, err := w.engine.Get(t.Context(), id)
		require.NoError(t, err)
		return r.Tasks[0].Reason
	}
	require.Equal(t, "no executor of pool linux is online; fleet linux: no fleet worker has watched it yet", reason())
	w.start()
	w.await("the reason", func() bool {
		f, err := w.fleets.Fleet(t.Context(), fleetName)
		return err == nil && f.Status.Error != ""
	})
	require.Regexp(t, `^no executor of pool linux is online; fleet linux: it requests no more instances before \d\d:\d\d:\d\d UTC, `+
		`after 1 failures in a row; the last: the plugin refused: quota exceeded$`, reason())
}

func TestFleet_hides_credentials_that_the_plugin_repeats(t *testing.T) {
	t.Parallel()
	const token = "t0ken-of-the-cloud"
	w := newEnv(t)
	w.cloud.increase = func(*cloud, int) (int, error) { return 0, errors.New("the API key " + token + " has expired") }
	w.put(func(s *run.FleetSpec) {
		s.PluginConfig = json.RawMessage(`{"endpoint": "cloud.example", "auth": {"api_key": "` + token + `"}}`)
	})
	w.submit(1)
	w.start()
	w.awaitCount(run.InstanceGone, 1)
	w.await("the status", func() bool {
		f, err := w.fleets.Fleet(t.Context(), fleetName)
		return err == nil && strings.Contains(f.Status.Error, "the API key *** has expired")
	})
	instances, err := w.fleets.FleetInstances(t.Context(), fleetName, true)
	require.NoError(t, err)
	events, err := w.fleets.FleetEvents(t.Context(), fleetName, 0, 100)
	require.NoError(t, err)
	v, err := w.store.ViewFleet(t.Context(), fleetName)
	require.NoError(t, err)
	require.NotContains(t, fmt.Sprintf("%+v %+v %+v %s", instances, events, v.Fleet.Status, v.PolicyState), token)
}

// failingBootstrapper fails every bootstrap.
type failingBootstrapper struct{}

func (failingBootstrapper) Bootstrap(context.Context, controller.Instance, fleeting.ConnectInfo) error {
	return errors.New("it does not answer")
}

func TestFleet_machines_of_one_request_that_fail_lead_to_one_pause(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.bootstrapper, w.running = failingBootstrapper{}, func() []string { return nil }
	w.newWorker()
	w.put(func(s *run.FleetSpec) { s.Bootstrap = run.BootstrapSSH })
	w.start()
	w.submit(5)
	w.awaitCount(run.InstanceGone, 5)
	w.await("the pause", func() bool {
		f, err := w.fleets.Fleet(t.Context(), fleetName)
		return err == nil && f.Status.BlockedBy == "backoff"
	})
	f, err := w.fleets.Fleet(t.Context(), fleetName)
	require.NoError(t, err)
	require.Equal(t, 1, f.Status.Failures)
	require.Contains(t, f.Status.Error, "it does not answer")
}
