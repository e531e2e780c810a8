package executors

import (
	"context"
	"time"

	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
)

// openRuns selects the runs that are not final.
const openRuns = `SELECT run_id FROM run_states WHERE prefix = '' AND state IN ('queued', 'running')`

// ForgetExecutors implements records.Store. What keeps a row only ends and never
// begins: a removed executor cannot claim, and a final run stays final. So a row
// that is not needed when it is read is not needed later, and reading takes no
// part in the write.
//
// A claim does not expire by itself. It stays as long as its run, because it
// refuses a second claim of the same task after a reset of the workflow, and it
// is deleted with the run.
func (s *Store) ForgetExecutors(ctx context.Context, before time.Time, n int) (removed int, err error) {
	var ids []any
	if err := s.db.Read(ctx, "find removed executors to forget", func(q sqldb.Querier) error {
		ids = nil
		return sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
			var id string
			err := row.Scan(&id)
			ids = append(ids, id)
			return err
		}, `SELECT e.id FROM executors e WHERE e.removed AND e.removed_at > 0 AND e.removed_at < ?
			AND e.id NOT IN (SELECT t.executor FROM pools p JOIN tasks t ON t.pool = p.name AND t.status IN ('queued', 'running'))
			AND e.id NOT IN (SELECT c.executor FROM claims c WHERE c.run_id IN (`+openRuns+`))
			AND (e.set_name = '' OR e.set_name NOT IN (
				SELECT c.set_name FROM claims c WHERE c.set_name <> '' AND c.claimed_at <= ? AND c.run_id IN (`+openRuns+`)))
			AND NOT EXISTS (SELECT 1 FROM fleet_instances i WHERE e.fleet <> '' AND i.fleet = e.fleet AND i.instance = e.instance AND i.state <> 'gone')
			ORDER BY e.id LIMIT ?`, before.UnixNano(), before.UnixNano(), n)
	}); err != nil || len(ids) == 0 {
		return 0, err
	}
	err = s.db.Write(ctx, "forget removed executors", func(t *sqldb.Tx) error {
		done, err := t.Exec(ctx, `DELETE FROM executors WHERE removed AND id IN (`+sqldb.Tuples(`?`, len(ids))+`)`, ids...)
		if err != nil {
			return err
		}
		count, err := done.RowsAffected()
		removed = int(count)
		return err
	})
	return removed, err
}
