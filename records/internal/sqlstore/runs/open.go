package runs

import (
	"context"
	"time"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore/rows"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// OpenRuns implements records.Store.
func (s *Store) OpenRuns(ctx context.Context, after run.ID, n int) (ids []run.ID, err error) {
	err = s.db.Read(ctx, "list open runs", func(q sqldb.Querier) error {
		ids, err = sqldb.QueryIDs(ctx, q, `SELECT run_id FROM (
				SELECT * FROM (SELECT run_id FROM run_states WHERE prefix = '' AND state = 'queued' AND run_id > ?`+nothingPending+` ORDER BY run_id LIMIT ?) a
				UNION ALL
				SELECT * FROM (SELECT run_id FROM run_states WHERE prefix = '' AND state = 'running' AND run_id > ?`+nothingPending+` ORDER BY run_id LIMIT ?) b) c
			ORDER BY run_id LIMIT ?`, after, n, after, n, n)
		return err
	})
	return ids, err
}

// nothingPending selects the runs without outbox rows.
const nothingPending = ` AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.run_id = run_states.run_id)`

// Stats implements records.Store.
func (s *Store) Stats(ctx context.Context) (records.Stats, error) {
	var out records.Stats
	err := s.db.Read(ctx, "count runs and outbox rows", func(q sqldb.Querier) error {
		out = records.Stats{OpenRuns: make(map[run.Phase]int), OpenTasks: make(map[run.Status]int)}
		if err := sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
			var phase run.Phase
			var text string
			var runs int
			if err := row.Scan(&phase, &text, &runs); err != nil {
				return err
			}
			out.OpenRuns[phase] += runs
			var c rows.Counts
			if err := sqldb.Unmarshal(text, &c); err != nil {
				return err
			}
			for status, n := range c {
				out.OpenTasks[status] += n * runs
			}
			return nil
		}, `SELECT i.state, r.counts, count(*) FROM run_states i JOIN runs r ON r.id = i.run_id
			WHERE i.prefix = '' AND i.state IN ('queued', 'running') GROUP BY i.state, r.counts`); err != nil {
			return err
		}
		var oldest int64
		if err := q.QueryRow(ctx, `SELECT count(*), coalesce(min(created_at), 0) FROM outbox`).Scan(&out.Outbox, &oldest); err != nil {
			return err
		}
		if oldest != 0 {
			out.OldestOutbox = max(0, time.Duration(s.db.Now().UnixNano()-oldest))
		}
		return nil
	})
	return out, err
}
