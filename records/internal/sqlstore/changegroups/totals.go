package changegroups

import (
	"context"

	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// unitsOfLimit is how many of a group's slots a row of task_slots, with the alias s, takes. The
// group has the alias g. A task that needs more slots than the group has takes all of them.
const unitsOfLimit = `CASE WHEN g.max_running > 0 AND s.units > g.max_running THEN g.max_running ELSE s.units END`

// addTotals fills in how many slots of groups are held, and how many runs and tasks wait, after
// their runs: tasks may be more than a group lists.
func addTotals(ctx context.Context, q sqldb.Querier, groups []run.ChangeGroup) error {
	if len(groups) == 0 {
		return nil
	}
	byName := make(map[string]*run.ChangeGroup, len(groups))
	names := make([]string, len(groups))
	for i := range groups {
		g := &groups[i]
		g.Held, g.Waiting = len(g.Running), len(g.Queued)
		byName[g.Name], names[i] = g, g.Name
	}
	return sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
		var name string
		var state SlotState
		var tasks, units int
		err := row.Scan(&name, &state, &tasks, &units)
		if state == SlotHolding {
			byName[name].Held += units
		} else {
			byName[name].Waiting += tasks
		}
		return err
	}, `SELECT s.name, s.state, count(*), sum(`+unitsOfLimit+`) FROM task_slots s JOIN changegroups g ON g.name = s.name
		WHERE s.name IN (`+sqldb.InList(len(names))+`)`+OpenTask+` GROUP BY s.name, s.state`, sqldb.InListArgs(names)...)
}
