package fleets

import (
	"context"
	"time"

	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
)

// ForgetInstances implements records.Store.
func (s *Store) ForgetInstances(ctx context.Context, before time.Time, n int) (removed int, err error) {
	err = s.db.Write(ctx, "forget gone instances", func(t *sqldb.Tx) error {
		done, err := t.Exec(ctx, `DELETE FROM fleet_instances WHERE (fleet, number) IN (
			SELECT fleet, number FROM fleet_instances WHERE state = 'gone' AND gone_at > 0 AND gone_at < ? ORDER BY fleet, number LIMIT ?)`,
			before.UnixNano(), n)
		if err != nil {
			return err
		}
		count, err := done.RowsAffected()
		removed = int(count)
		return err
	})
	return removed, err
}
