package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/drover-run/drover/run"
)

// GetRun implements records.Store.
func (s *Store) GetRun(ctx context.Context, id run.ID, tokenFor ...string) (run.Run, error) {
	var out run.Run
	err := s.read(ctx, "read a run", func(q Querier) error {
		var err error
		if out, err = summary(ctx, q, id); err != nil {
			return err
		}
		if out.Token, err = readToken(ctx, q, tokenFor); err != nil {
			return err
		}
		specs, err := taskSpecs(ctx, q, id)
		if err != nil {
			return err
		}
		rows, err := queryTasks(ctx, q, `run_id = ? ORDER BY number`, id)
		if err != nil {
			return err
		}
		out.Tasks = make([]run.Task, len(rows))
		for i := range rows {
			if out.Tasks[i], err = rows[i].task(specs[rows[i].node]); err != nil {
				return err
			}
		}
		if out.Tests, err = testsOf(ctx, q, id); err != nil {
			return err
		}
		return addOutputsAndApprovals(ctx, q, id, out.Tasks, "", nil)
	})
	return out, err
}

// GetSummary implements records.Store.
func (s *Store) GetSummary(ctx context.Context, id run.ID) (run.Run, error) {
	var out run.Run
	err := s.read(ctx, "read a run", func(q Querier) error {
		var err error
		out, err = summary(ctx, q, id)
		return err
	})
	return out, err
}

// GetTask implements records.Store.
func (s *Store) GetTask(ctx context.Context, id run.ID, name string) (run.Task, error) {
	var out run.Task
	err := s.read(ctx, "read a task", func(q Querier) error {
		row, err := taskNamed(ctx, q, id, name)
		if run.CodeOf(err) == run.CodeNotFound {
			if _, runErr := summary(ctx, q, id); runErr != nil {
				return runErr
			}
		}
		if err != nil {
			return err
		}
		spec, err := taskSpec(ctx, q, id, row.node)
		if err != nil {
			return err
		}
		tasks := make([]run.Task, 1)
		if tasks[0], err = row.task(spec); err != nil {
			return err
		}
		if err := addOutputsAndApprovals(ctx, q, id, tasks, ` AND task = ?`, []any{row.number}); err != nil {
			return err
		}
		out = tasks[0]
		out.LogsExpired, err = logsExpired(ctx, q, id, row.number)
		return err
	})
	return out, err
}

func summary(ctx context.Context, q Querier, id run.ID) (run.Run, error) {
	var row runRow
	var texts detailScan
	err := row.scan(q.QueryRow(ctx, `SELECT `+runColumns+`, `+detailColumns+` FROM runs r JOIN run_details d ON d.run_id = r.id
		WHERE r.id = ?`, id), texts.dest()...)
	if errors.Is(err, sql.ErrNoRows) {
		return run.Run{}, runNotFound(id)
	}
	if err != nil {
		return run.Run{}, err
	}
	details, err := texts.parse()
	if err != nil {
		return run.Run{}, err
	}
	return row.summary(&details), nil
}

// taskSpecs returns the specifications of a run's tasks by node.
func taskSpecs(ctx context.Context, q Querier, id run.ID) (map[int]*run.TaskSpec, error) {
	specs := make(map[int]*run.TaskSpec)
	err := each(ctx, q, func(row scanner) error {
		var node int
		var text string
		if err := row.Scan(&node, &text); err != nil {
			return err
		}
		spec := new(run.TaskSpec)
		specs[node] = spec
		return unmarshal(text, spec)
	}, `SELECT node, spec FROM task_specs WHERE run_id = ?`, id)
	return specs, err
}

func taskSpec(ctx context.Context, q Querier, id run.ID, node int) (*run.TaskSpec, error) {
	var text string
	if err := q.QueryRow(ctx, `SELECT spec FROM task_specs WHERE run_id = ? AND node = ?`, id, node).Scan(&text); err != nil {
		return nil, err
	}
	spec := new(run.TaskSpec)
	return spec, unmarshal(text, spec)
}

// addOutputsAndApprovals fills in the outputs and approvals of tasks, which are ordered by
// number. where narrows down the tasks.
func addOutputsAndApprovals(ctx context.Context, q Querier, id run.ID, tasks []run.Task, where string, args []any) error {
	find := func(number int) *run.Task {
		i, ok := slices.BinarySearchFunc(tasks, number, func(t run.Task, n int) int { return t.Number - n })
		if !ok {
			return &run.Task{}
		}
		return &tasks[i]
	}
	args = append([]any{id}, args...)
	if err := each(ctx, q, func(row scanner) error {
		var number, attempt, dispatch int
		var text string
		if err := row.Scan(&number, &attempt, &dispatch, &text); err != nil {
			return err
		}
		t := find(number)
		if t.Attempt != attempt || t.Dispatch != dispatch {
			return nil // of an earlier dispatch
		}
		return unmarshal(text, &t.Outputs)
	}, `SELECT task, attempt, dispatch, outputs FROM task_outputs WHERE run_id = ?`+where, args...); err != nil {
		return err
	}
	return each(ctx, q, func(row scanner) error {
		var number int
		var subject string
		if err := row.Scan(&number, &subject); err != nil {
			return err
		}
		t := find(number)
		t.ApprovedBy = append(t.ApprovedBy, subject)
		return nil
	}, `SELECT task, subject FROM approvals WHERE run_id = ?`+where+` ORDER BY approved_at, subject`, args...)
}

// each calls fn for each row of a query.
func each(ctx context.Context, q Querier, fn func(row scanner) error, query string, args ...any) error {
	rows, err := q.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := fn(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
