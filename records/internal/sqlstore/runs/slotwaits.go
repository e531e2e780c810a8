package runs

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore/rows"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// ResumeSlotWaits implements records.Store.
func (s *Store) ResumeSlotWaits(ctx context.Context, overdue time.Duration, n int) (int, error) {
	stuck := make(map[run.ID][]int)
	if err := s.db.Read(ctx, "find waits for slots that nothing ends", func(q sqldb.Querier) error {
		clear(stuck)
		return sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
			var id run.ID
			var task int
			err := row.Scan(&id, &task)
			stuck[id] = append(stuck[id], task)
			return err
		}, `SELECT t.run_id, t.number FROM tasks t JOIN runs r ON r.id = t.run_id
			WHERE t.status = 'waiting_changegroup' AND r.phase = 'running'
			AND NOT EXISTS (SELECT 1 FROM task_slots s WHERE s.run_id = t.run_id AND s.task = t.number AND (s.state = 'waiting' OR s.since > ?))
			ORDER BY t.run_id, t.number LIMIT ?`, s.db.Now().Add(-overdue).UnixNano(), n)
	}); err != nil {
		return 0, err
	}
	resumed, failed := 0, error(nil)
	for _, id := range slices.Sorted(maps.Keys(stuck)) {
		if err := s.db.Write(ctx, "resume waits for slots", func(t *sqldb.Tx) error { return resumeSlotWaits(ctx, t, id, stuck[id]) }); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		resumed += len(stuck[id])
	}
	return resumed, failed
}

// resumeSlotWaits gives tasks that wait for slots their places in the queues, if they have
// none, and notifies the workflow of the run, which reads who has got slots.
func resumeSlotWaits(ctx context.Context, t *sqldb.Tx, id run.ID, tasks []int) error {
	r, err := rows.LockRun(ctx, t, id)
	if err != nil || r.Phase.Final() {
		return err
	}
	m := newSlotMoves(t, r)
	changes := make([]run.TaskChange, len(tasks))
	for i, task := range tasks {
		changes[i] = run.TaskChange{Task: task, Status: run.StatusWaitingChangeGroup}
	}
	all, err := named(ctx, t, id, changes)
	if err != nil {
		return err
	}
	for _, x := range all {
		if x.Status == run.StatusWaitingChangeGroup {
			m.begin[x.Number] = x
		}
	}
	if err := m.save(ctx, nil); err != nil {
		return err
	}
	return t.EnqueueOnce(ctx, id, records.OutboxSlots)
}
