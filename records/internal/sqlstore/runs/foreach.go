package runs

import (
	"context"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore/rows"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// Expand implements records.Store.
func (s *Store) Expand(ctx context.Context, id run.ID, task int) (records.Expanded, error) {
	var out records.Expanded
	err := s.decide(ctx, func(work *deciding) error {
		return s.db.Write(ctx, "expand a foreach", func(t *sqldb.Tx) error {
			work.reset()
			var err error
			out, err = expand(ctx, t, id, task, work)
			return err
		})
	})
	return out, err
}

func expand(ctx context.Context, t *sqldb.Tx, id run.ID, task int, work *deciding) (out records.Expanded, err error) {
	prev, err := rows.LockRun(ctx, t, id)
	if err != nil {
		return out, err
	}
	x, err := rows.TaskNumbered(ctx, t, id, task)
	if err != nil {
		return out, err
	}
	// A task that stands for others has the smallest number of its node.
	if err := t.QueryRow(ctx, `SELECT COALESCE(MIN(number), 0), COUNT(*) FROM tasks WHERE run_id = ? AND node = ? AND number > ?`,
		id, x.Node, task).Scan(&out.First, &out.Width); err != nil || out.Width > 0 {
		return out, err
	}
	if prev.Phase.Final() {
		return out, run.Errorf(run.CodeConflict, "run %s is %s", id, prev.Phase)
	}
	if x.Status == run.StatusFailed { // its approval was refused
		return records.Expanded{Fault: x.Reason}, nil
	}
	if fault, skipped, err := decideList(ctx, t, prev, x, work); err != nil || fault != "" || skipped != "" {
		return records.Expanded{Fault: fault, Skipped: skipped}, err
	}
	spec, err := rows.TaskSpec(ctx, t, id, x.Node)
	if err != nil {
		return out, err
	}
	if err := t.QueryRow(ctx, `SELECT COUNT(*) FROM tasks WHERE run_id = ?`, id).Scan(&out.First); err != nil {
		return out, err
	}
	items, err := spec.Foreach.Items(outputs(ctx, t, id), run.MaxTasks-out.First)
	switch run.CodeOf(err) {
	case "":
	case run.CodeNotFound, run.CodeInvalid:
		return records.Expanded{Fault: sqldb.Clip(err.Error())}, nil
	default:
		return out, err
	}
	if out.Width = len(items); out.Width == 0 {
		return out, nil
	}
	return out, insertItems(ctx, t, prev, x, out.First, items, conditionsOf(spec))
}

// decideList evaluates the condition of a foreach task, if no approval has done so.
// It returns why the task has no valid condition, or why it is skipped.
func decideList(ctx context.Context, t *sqldb.Tx, r *rows.Run, x *rows.Task, work *deciding) (fault, skipped string, err error) {
	if x.Conditions != rows.ConditionsOpen {
		return "", "", nil
	}
	d := newDecider(t, r, nil, work)
	v, err := d.decide(ctx, x)
	switch {
	case err != nil:
		return "", "", err
	case v.unavailable != nil:
		return "", "", v.unavailable
	case v.status == run.StatusSkipped:
		return "", sqldb.Clip(v.reason), nil
	case v.status == run.StatusFailed:
		return sqldb.Clip(v.reason), "", nil
	}
	return "", "", d.save(ctx)
}

// insertItems stores the tasks for the items of a list.
func insertItems(ctx context.Context, t *sqldb.Tx, prev *rows.Run, x *rows.Task, first int, items []string, conditions string) error {
	axes := make([]string, len(items))
	for i, item := range items {
		var err error
		if axes[i], err = sqldb.Marshal(run.ItemAxis(item, i)); err != nil {
			return err
		}
	}
	if err := sqldb.Bulk(ctx, t, `INSERT INTO tasks (run_id, number, node, name, spec_name, axis, pool, conditions, labels) VALUES `, `(?, ?, ?, ?, ?, ?, ?, ?, ?)`, ``, len(items),
		func(i int, args []any) []any {
			return append(args, prev.ID, first+i, x.Node, run.ItemName(x.Name, i), x.SpecName, axes[i], x.Pool, conditions, x.Labels)
		}); err != nil {
		return err
	}
	r := prev.Clone()
	r.Counts[run.StatusNotStarted] += len(items)
	return rows.SaveRun(ctx, t, prev, r)
}
