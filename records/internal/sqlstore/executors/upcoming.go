package executors

import (
	"context"

	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// UpcomingTasks implements records.Store.
func (s *Store) UpcomingTasks(ctx context.Context, pool string, n int) (count int, err error) {
	err = s.db.Read(ctx, "count upcoming tasks", func(q sqldb.Querier) error {
		count = 0
		// Only a run with a running task has upcoming tasks.
		var ids []run.ID
		if err := sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
			var id run.ID
			err := row.Scan(&id)
			ids = append(ids, id)
			return err
		}, `SELECT DISTINCT t.run_id FROM `+tasksHeld+` WHERE EXISTS
			(SELECT 1 FROM tasks o WHERE o.run_id = t.run_id AND o.pool = ? AND o.status = 'not_started') LIMIT ?`, pool, n); err != nil {
			return err
		}
		for _, id := range ids {
			ready, err := upcoming(ctx, q, id, pool)
			if err != nil {
				return err
			}
			count += ready
		}
		return nil
	})
	return count, err
}

// upcoming counts the upcoming tasks of one run.
func upcoming(ctx context.Context, q sqldb.Querier, id run.ID, pool string) (int, error) {
	var pages []run.Plan
	if err := sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
		var text string
		if err := row.Scan(&text); err != nil {
			return err
		}
		var page run.Plan
		err := sqldb.Unmarshal(text, &page)
		pages = append(pages, page)
		return err
	}, `SELECT plan FROM plan_pages WHERE run_id = ? ORDER BY page`, id); err != nil {
		return 0, err
	}
	statuses := map[int]run.Status{}
	if err := sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
		var number int
		var status run.Status
		err := row.Scan(&number, &status)
		statuses[number] = status
		return err
	}, `SELECT number, status FROM tasks WHERE run_id = ?`, id); err != nil {
		return 0, err
	}
	return run.Upcoming(run.MergePlans(pages), pool, func(task int) run.Status { return statuses[task] }), nil
}
