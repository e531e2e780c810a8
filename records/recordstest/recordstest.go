// Package recordstest specifies the behaviour of a records.Store by tests: Run
// checks a store, and Bench measures it.
package recordstest

import (
	"testing"

	"github.com/drover-run/drover/records/recordstest/audit"
	"github.com/drover-run/drover/records/recordstest/changegroups"
	"github.com/drover-run/drover/records/recordstest/executors"
	"github.com/drover-run/drover/records/recordstest/fixture"
)

// Run checks a kind of store. newDatabase creates an empty database, which is
// removed with the test, and returns a function that opens stores on it.
func Run(t *testing.T, newDatabase func(t *testing.T) fixture.Open) {
	for _, group := range []struct {
		name  string
		tests map[string]func(t *testing.T, d *fixture.Database)
	}{
		{"Runs", runTests()},
		{"Calls", callTests()},
		{"Approvals", approvalTests()},
		{"List", listTests()},
		{"Progress", progressTests()},
		{"ChangeGroups", changegroups.Tests()},
		{"Restart", restartTests()},
		{"Claims", claimTests()},
		{"Frames", frameTests()},
		{"Packing", packingTests()},
		{"Expire", expireTests()},
		{"Due", dueTests()},
		{"Outputs", outputTests()},
		{"Foreach", foreachTests()},
		{"Conditions", conditionTests()},
		{"Finally", finallyTests()},
		{"Contact", executors.ContactTests()},
		{"Observer", observerTests()},
		{"Executors", executors.ExecutorTests()},
		{"Registry", executors.RegistryTests()},
		{"Removed", executors.RemovedTests()},
		{"Archives", archiveTests()},
		{"Outbox", outboxTests()},
		{"Events", eventTests()},
		{"EventFloor", floorTests()},
		{"Webhooks", webhookTests()},
		{"Schedules", scheduleTests()},
		{"Sharing", sharingTests()},
		{"Fleets", executors.FleetTests()},
		{"Membership", executors.MembershipTests()},
		{"Sessions", executors.SessionTests()},
		{"Tokens", executors.TokenTests()},
		{"Forget", executors.ForgetTests()},
		{"Audit", audit.Tests()},
		{"RoleGrants", roleGrantTests()},
	} {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			for name, test := range group.tests {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					test(t, &fixture.Database{Open: newDatabase(t)})
				})
			}
		})
	}
}
