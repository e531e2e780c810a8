package sqlstore

import (
	"context"
	"iter"
	"time"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// openPage is how many runs are read at once by OpenRuns.
const openPage = 1000

// OpenRuns implements records.Store.
func (s *Store) OpenRuns(ctx context.Context) iter.Seq2[run.ID, error] {
	return func(yield func(run.ID, error) bool) {
		last := run.ID("")
		for {
			var page []run.ID
			err := s.read(ctx, "listing open runs", func(q Querier) error {
				page = nil
				return each(ctx, q, func(row scanner) error {
					var id run.ID
					err := row.Scan(&id)
					page = append(page, id)
					return err
				}, `SELECT run_id FROM (
						SELECT * FROM (SELECT run_id FROM run_states WHERE prefix = '' AND state = 'queued' AND run_id > ? ORDER BY run_id LIMIT ?) a
						UNION ALL
						SELECT * FROM (SELECT run_id FROM run_states WHERE prefix = '' AND state = 'running' AND run_id > ? ORDER BY run_id LIMIT ?) b) c
					ORDER BY run_id LIMIT ?`, last, openPage, last, openPage, openPage)
			})
			if err != nil {
				yield("", err)
				return
			}
			for _, id := range page {
				if !yield(id, nil) {
					return
				}
				last = id
			}
			if len(page) < openPage {
				return
			}
		}
	}
}

// Stats implements records.Store.
func (s *Store) Stats(ctx context.Context) (records.Stats, error) {
	var out records.Stats
	err := s.read(ctx, "counting", func(q Querier) error {
		out = records.Stats{OpenRuns: make(map[run.Phase]int), OpenTasks: make(map[run.Status]int)}
		if err := each(ctx, q, func(row scanner) error {
			var phase run.Phase
			var text string
			var runs int
			if err := row.Scan(&phase, &text, &runs); err != nil {
				return err
			}
			out.OpenRuns[phase] += runs
			var c counts
			if err := unmarshal(text, &c); err != nil {
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
			out.OldestOutbox = max(0, time.Duration(s.now().UnixNano()-oldest))
		}
		return nil
	})
	return out, err
}
