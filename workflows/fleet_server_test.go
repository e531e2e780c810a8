package workflows_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/fleeting/controller"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/workers"
)

// runFleetScenarios plays fleet workflows on the server.
func (f *cluster) runFleetScenarios(t *testing.T) {
	grow, drain := controller.Plan{Request: controller.Request{Count: 2, Reason: "demand", Message: "two tasks wait"}}, controller.Plan{Drain: order(1)}
	for name, c := range map[string]struct {
		plans  []controller.Plan
		signal string // sent once the plans are done
		more   int    // watches that follow the signal
		late   bool   // the plugin takes long for the request
	}{
		"life":      {[]controller.Plan{grow, {Bootstrap: []controller.Order{{Number: 1}, {Number: 2}}}, drain, {Delete: order(1), Lost: order(2)}}, contract.SignalFleet, 0, false},
		"continued": {[]controller.Plan{grow, drain}, contract.SignalForceContinue, 1, false},
		"beside":    {[]controller.Plan{grow, {Bootstrap: []controller.Order{{Number: 1}}}, drain, {Lost: order(2)}}, contract.SignalForceContinue, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &fakeFleetWorker{plans: slices.Clone(c.plans), over: t.Context().Done(), ending: make(chan struct{})}
			if c.late {
				w.stepGate = make(chan struct{})
			}
			fleet := string(newRunID())
			running := worker.New(f.client, contract.FleetQueue(fleet), worker.Options{
				DisableWorkflowWorker: true, DisableRegistrationAliasing: true, WorkerStopTimeout: time.Second,
			})
			workers.RegisterFleet(running, w)
			require.NoError(t, running.Start())
			t.Cleanup(running.Stop)
			id := contract.FleetWorkflowID(fleet)
			trigger := func(signal string) {
				_, err := f.client.SignalWithStartWorkflow(t.Context(), id, signal, nil, client.StartWorkflowOptions{
					ID: id, TaskQueue: contract.ControlQueue,
				}, contract.FleetWorkflow, contract.FleetInput{Fleet: fleet})
				require.NoError(t, err)
			}
			watched := func(n int) {
				testenv.Await(t, func() (bool, string) {
					w.mu.Lock()
					defer w.mu.Unlock()
					return len(w.watches) >= n, "too few watches"
				})
			}
			trigger(contract.SignalFleet)
			watched(len(c.plans) + 1)
			if c.late {
				close(w.stepGate)
			}
			trigger(c.signal)
			watched(len(c.plans) + 1 + c.more)
			close(w.ending)
			f.keep(t, contract.FleetWorkflow, name, id)
		})
	}
}
