package changegroups

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

// testGroupPath limits the runs of a group path and of those below it.
func testGroupPath(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	before := fixture.Create(t, s, fixture.OneTask("/p/1"))
	fixture.Begin(t, s, before.ID)
	fixture.Limit(t, s, "group:/p", 2, run.OnBusyQueue)
	fixture.Limit(t, s, "group:/p/1", 1, run.OnBusyQueue)
	a := fixture.Create(t, s, fixture.OneTask("/p/1"))
	b := fixture.Create(t, s, fixture.OneTask("/p/1/deep"))
	c := fixture.Create(t, s, fixture.OneTask("/p/2"))
	e := fixture.Create(t, s, fixture.OneTask("/p/2"))
	other := fixture.Create(t, s, fixture.OneTask("/pp/1"))
	fixture.Begin(t, s, other.ID)
	running, waiting := members(t, s, "group:/p")
	require.Equal(t, []run.ID{a.ID}, running, "the run from before the limit does not count, and c does not overtake b")
	require.Equal(t, []run.ID{b.ID, c.ID, e.ID}, waiting)
	running, waiting = members(t, s, "group:/p/1")
	require.Equal(t, []run.ID{a.ID}, running)
	require.Equal(t, []run.ID{b.ID}, waiting)
	require.Empty(t, fixture.Get(t, s, b.ID).ChangeGroups)
	waits, err := s.GroupWaits(t.Context(), b.ID)
	require.NoError(t, err)
	require.Len(t, waits, 2)
	fixture.Finish(t, s, a.ID)
	require.Equal(t, []run.ID{b.ID, c.ID}, grantAll(t, s))
	fixture.Finish(t, s, b.ID)
	require.Equal(t, []run.ID{e.ID}, grantAll(t, s))
}
