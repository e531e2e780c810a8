package sqlstore

import (
	"context"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// Expand implements records.Store.
func (s *Store) Expand(ctx context.Context, id run.ID, task int) (records.Expanded, error) {
	var out records.Expanded
	err := s.write(ctx, "expand a foreach", func(t *tx) error {
		var err error
		out, err = t.expand(ctx, id, task)
		return err
	})
	return out, err
}

func (t *tx) expand(ctx context.Context, id run.ID, task int) (out records.Expanded, err error) {
	prev, err := t.lockRun(ctx, id)
	if err != nil {
		return out, err
	}
	x, err := taskNumbered(ctx, t, id, task)
	if err != nil {
		return out, err
	}
	// A task that stands for others has the smallest number of its node.
	if err := t.QueryRow(ctx, `SELECT COALESCE(MIN(number), 0), COUNT(*) FROM tasks WHERE run_id = ? AND node = ? AND number > ?`,
		id, x.node, task).Scan(&out.First, &out.Width); err != nil || out.Width > 0 {
		return out, err
	}
	if prev.phase.Final() {
		return out, run.Errorf(run.CodeConflict, "run %s is %s", id, prev.phase)
	}
	spec, err := taskSpec(ctx, t, id, x.node)
	if err != nil {
		return out, err
	}
	if err := t.QueryRow(ctx, `SELECT COUNT(*) FROM tasks WHERE run_id = ?`, id).Scan(&out.First); err != nil {
		return out, err
	}
	items, err := run.ForeachItems(spec.Foreach, t.outputs(ctx, id), run.MaxTasks-out.First)
	switch run.CodeOf(err) {
	case "":
	case run.CodeNotFound, run.CodeInvalid:
		return records.Expanded{Fault: clip(err.Error())}, nil
	default:
		return out, err
	}
	out.Width = len(items)
	return out, t.insertItems(ctx, prev, x, out.First, items)
}

// insertItems stores the tasks for the items of a list.
func (t *tx) insertItems(ctx context.Context, prev *runRow, x *taskRow, first int, items []string) error {
	axes := make([]string, len(items))
	for i, item := range items {
		var err error
		if axes[i], err = marshal(run.ItemAxis(item, i)); err != nil {
			return err
		}
	}
	if err := bulk(ctx, t, `INSERT INTO tasks (run_id, number, node, name, spec_name, axis, pool) VALUES `, `(?, ?, ?, ?, ?, ?, ?)`, ``, len(items),
		func(i int, args []any) []any {
			return append(args, prev.id, first+i, x.node, run.ItemName(x.name, i), x.specName, axes[i], x.pool)
		}); err != nil {
		return err
	}
	r := prev.clone()
	r.counts[run.StatusNotStarted] += len(items)
	return t.saveRun(ctx, prev, r)
}
