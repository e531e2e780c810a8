// Package recordstest specifies the behaviour of a records.Store by tests: Run
// checks a store, and Bench measures it.
package recordstest

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// Open opens one more store on a database. The store uses the clock and
// notifies the observer.
type Open func(t testing.TB, now func() time.Time, observer records.Observer) records.Store

// Run checks a kind of store. newDatabase creates an empty database, which is
// removed with the test, and returns a function that opens stores on it.
func Run(t *testing.T, newDatabase func(t *testing.T) Open) {
	for _, group := range []struct {
		name  string
		tests map[string]func(t *testing.T, d *database)
	}{
		{"Runs", runTests()},
		{"Calls", callTests()},
		{"List", listTests()},
		{"Progress", progressTests()},
		{"ChangeGroups", changeGroupTests()},
		{"Restart", restartTests()},
		{"Claims", claimTests()},
		{"Frames", frameTests()},
		{"Packing", packingTests()},
		{"Expire", expireTests()},
		{"Due", dueTests()},
		{"Outputs", outputTests()},
		{"Foreach", foreachTests()},
		{"Contact", contactTests()},
		{"Observer", observerTests()},
		{"Executors", executorTests()},
		{"Registry", registryTests()},
		{"Removed", removedTests()},
		{"Archives", archiveTests()},
		{"Outbox", outboxTests()},
		{"Events", eventTests()},
		{"EventFloor", floorTests()},
		{"Webhooks", webhookTests()},
		{"Schedules", scheduleTests()},
		{"Sharing", sharingTests()},
		{"Fleets", fleetTests()},
		{"Membership", membershipTests()},
	} {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			for name, test := range group.tests {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					test(t, &database{open: newDatabase(t)})
				})
			}
		})
	}
}

// database is the database of one test.
type database struct {
	open  Open
	clock clock
}

// store opens a store, which is closed when the test ends.
func (d *database) store(t *testing.T) records.Store {
	t.Helper()
	s := d.open(t, d.clock.now, nil)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// clock is a clock that tests can advance or stop.
type clock struct {
	offset atomic.Int64
	fixed  atomic.Int64 // the time at which the clock stands still, unless 0
}

func (c *clock) now() time.Time {
	if at := c.fixed.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Now().Add(time.Duration(c.offset.Load()))
}

func (c *clock) advance(d time.Duration) { c.offset.Add(int64(d)) }

func requireCode(t require.TestingT, want run.Code, err error) {
	require.Error(t, err)
	require.Equal(t, want, run.CodeOf(err), "%v", err)
}

// eventTimeout bounds how long a test waits for an event.
const eventTimeout = 20 * time.Second

// lastEvent waits until the store has numbered want events.
func lastEvent(t testing.TB, s records.Store, want int64) {
	t.Helper()
	testenv.Await(t, eventTimeout, func() (bool, string) {
		n, err := s.LastEvent(t.Context())
		require.NoError(t, err)
		return n == want, time.Now().String() + ": the last event is number " + itoa(n)
	})
}
