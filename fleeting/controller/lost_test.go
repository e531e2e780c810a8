package controller_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/fleeting"
	"github.com/drover-run/drover/run"
)

func TestFleet_machines_lost_before_they_run_are_in_the_ledger(t *testing.T) {
	t.Parallel()
	for _, state := range []fleeting.State{fleeting.StateDeleting, fleeting.StateDeleted, fleeting.StateTimeout} {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			w.cloud.do(func() {
				w.cloud.instances["old"] = state // older than the fleet
				w.cloud.increase = func(c *cloud, n int) (int, error) {
					c.instances["short-lived"], c.increase = state, nil
					return n, nil
				}
			})
			w.put(nil)
			stop := w.start()
			rows := func(machine string) []run.FleetInstance {
				return slices.DeleteFunc(w.ledger(), func(i run.FleetInstance) bool { return i.Instance != machine })
			}
			w.await("the old machine", func() bool { return len(rows("old")) == 1 })
			w.submit(1)
			w.await("the lost machine", func() bool { return len(rows("short-lived")) == 1 })
			lost := rows("short-lived")[0]
			require.Equal(t, run.InstanceGone, lost.State)
			require.Equal(t, run.CauseRequested, lost.Cause)
			require.Equal(t, "vanished", lost.Reason)
			require.Contains(t, lost.Message, string(state))
			require.False(t, lost.GoneAt.IsZero())
			w.await("the pause", func() bool {
				f, err := w.fleets.Fleet(t.Context(), fleetName)
				return err == nil && f.Status.Failures == 1
			})
			w.awaitCount(run.InstanceReady, 1)
			stop()
			// Another process knows them from the ledger while they are still
			// listed.
			w.newWorker()
			w.start()
			w.awaitListings(10)
			require.Len(t, w.ledger(), 3)
			require.Equal(t, run.CausePreexisted, rows("old")[0].Cause)
			require.Equal(t, run.InstanceGone, rows("old")[0].State)
			w.cloud.do(func() { require.Equal(t, []int{1, 1}, w.cloud.increases) })
		})
	}
}
