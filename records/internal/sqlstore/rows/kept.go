package rows

import (
	"context"
	"maps"
	"slices"

	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// KeptTasks are the tasks that a new run keeps of the run that it restarts.
type KeptTasks struct {
	Run, From run.ID
	Numbers   map[int]int // in the old run, by those in the new run
}

// Copy runs a statement for all tasks, some at a time. It can join the table kept with the columns
// run_id and task of the new run, and from_run and from_task of the old one.
func (k KeptTasks) Copy(ctx context.Context, t *sqldb.Tx, statement string) error {
	numbers := slices.Sorted(maps.Keys(k.Numbers))
	// The casts give PostgreSQL the types of the parameters.
	const tuple = `(CAST(? AS TEXT), CAST(? AS INTEGER), CAST(? AS TEXT), CAST(? AS INTEGER))`
	return sqldb.Bulk(ctx, t, `WITH kept (run_id, task, from_run, from_task) AS (VALUES `, tuple, `) `+statement, len(numbers), func(i int, args []any) []any {
		return append(args, k.Run, numbers[i], k.From, k.Numbers[numbers[i]])
	})
}
