package executors

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

const (
	// maxWaitingLabels bounds for how many sets of labels an executor polls.
	maxWaitingLabels = 100
	// maxLabelsRead bounds how many sets of labels of waiting tasks are read.
	maxLabelsRead = 10_000
	// permitRotation is how long an executor keeps the free slots of a limited pool
	// while tasks wait that it does not take.
	permitRotation = 15 * time.Second
)

// setDemand adds to the answer for an executor for which waiting tasks it polls, and how
// many of its slots it may use.
func setDemand(ctx context.Context, t *sqldb.Tx, e *ExecutorRow, w *run.DesiredState) error {
	var text string
	var own map[string]string
	var pool run.Pool
	err := t.QueryRow(ctx, `SELECT labels, max_running FROM pools WHERE name = ?`, e.Pool).Scan(&text, &pool.MaxRunning)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	if err := errors.Join(sqldb.Unmarshal(text, &pool.Labels), sqldb.Unmarshal(e.labels, &own)); err != nil {
		return err
	}
	waiting, err := waitingLabels(ctx, t, e.Pool)
	if err != nil {
		return err
	}
	all := pool.WithLabels(own)
	for _, required := range waiting {
		if run.HasLabels(all, required) && len(w.Labels) < maxWaitingLabels {
			w.Labels = append(w.Labels, required)
		}
	}
	if pool.MaxRunning == 0 && len(w.Labels) == 0 {
		return nil
	}
	var plain bool // tasks wait that any executor may run
	if err := t.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM tasks WHERE pool = ? AND status IN ('queued', 'running') AND status = 'queued' AND labels = '')`,
		e.Pool).Scan(&plain); err != nil {
		return err
	}
	w.LabelsOnly = len(w.Labels) > 0 && !plain
	if pool.MaxRunning == 0 {
		return nil
	}
	slots, err := permittedSlots(ctx, t, e, pool, waiting, plain)
	w.Slots = &slots
	return err
}

// waitingLabels returns the sets of labels that queued tasks of a pool require of their
// executor, in the order of their canonical forms. The query reads the index once for
// each set, and not once for each task.
func waitingLabels(ctx context.Context, q sqldb.Querier, pool string) ([]map[string]string, error) {
	var out []map[string]string
	err := sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
		var text string
		if err := row.Scan(&text); err != nil {
			return err
		}
		var labels map[string]string
		err := sqldb.Unmarshal(text, &labels)
		out = append(out, labels)
		return err
	}, `WITH RECURSIVE waiting (labels) AS (
			SELECT min(t.labels) FROM tasks t WHERE t.pool = ? AND t.status = 'queued' AND t.labels <> ''
			UNION ALL
			SELECT (SELECT min(t.labels) FROM tasks t WHERE t.pool = ? AND t.status = 'queued' AND t.labels <> '' AND t.labels > w.labels)
			FROM waiting w WHERE w.labels IS NOT NULL)
		SELECT labels FROM waiting WHERE labels IS NOT NULL LIMIT ?`, pool, pool, maxLabelsRead)
	return out, err
}

// permittedSlots divides what a pool with a limit may still run among its executors,
// and returns how many slots the executor may use. plain says that tasks without labels
// wait. A claim checks the limit again, so
// the division needs to be right only most of the time: it keeps executors from
// receiving tasks that they may not run.
func permittedSlots(ctx context.Context, t *sqldb.Tx, e *ExecutorRow, pool run.Pool, waiting []map[string]string, plain bool) (int, error) {
	held := map[string]int{}
	free := pool.MaxRunning
	if err := sqldb.Each(ctx, t, func(row sqldb.Scanner) error {
		var id string
		var n int
		err := row.Scan(&id, &n)
		held[id], free = n, free-n
		return err
	}, `SELECT executor, count(*) FROM tasks WHERE pool = ? AND status IN ('queued', 'running') AND status = 'running' GROUP BY executor`, e.Pool); err != nil {
		return 0, err
	}
	if free <= 0 { // the usual state of a busy pool, without a look at all executors
		return held[e.ID], nil
	}
	var candidates []run.Permitted
	if err := eachExecutor(ctx, t, t.Now, func(x run.Executor) {
		if x.Pool != e.Pool || x.State != run.ExecutorOnline && x.ID != e.ID {
			return
		}
		useful := plain || len(waiting) == 0
		all := pool.WithLabels(x.Labels)
		for i := 0; i < len(waiting) && !useful; i++ {
			useful = run.HasLabels(all, waiting[i])
		}
		if room := x.Slots - held[x.ID]; useful && room > 0 {
			candidates = append(candidates, run.Permitted{Executor: x.ID, Room: room})
		}
	}); err != nil {
		return 0, err
	}
	turn := 0
	if plain || len(waiting) > 0 {
		turn = int(t.Now / int64(permitRotation))
	}
	return held[e.ID] + run.DividePermits(free, turn, candidates)[e.ID], nil
}
