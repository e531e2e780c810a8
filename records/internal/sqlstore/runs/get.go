package runs

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/drover-run/drover/records/internal/sqlstore/archives"
	"github.com/drover-run/drover/records/internal/sqlstore/changegroups"
	"github.com/drover-run/drover/records/internal/sqlstore/logs"
	"github.com/drover-run/drover/records/internal/sqlstore/rows"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// GetRun implements records.Store.
func (s *Store) GetRun(ctx context.Context, id run.ID, tokenFor ...string) (run.Run, error) {
	var out run.Run
	err := s.db.Read(ctx, "read a run", func(q sqldb.Querier) error {
		var err error
		if out, err = summary(ctx, q, id); err != nil {
			return err
		}
		if out.Token, err = changegroups.ReadToken(ctx, q, tokenFor); err != nil {
			return err
		}
		specs, err := rows.TaskSpecs(ctx, q, id)
		if err != nil {
			return err
		}
		rows, err := rows.QueryTasks(ctx, q, `run_id = ? ORDER BY number`, id)
		if err != nil {
			return err
		}
		out.Tasks = make([]run.Task, len(rows))
		for i := range rows {
			if out.Tasks[i], err = rows[i].Task(specs[rows[i].Node]); err != nil {
				return err
			}
		}
		if out.Tests, err = archives.TestsOf(ctx, q, id); err != nil {
			return err
		}
		if out.Actions, err = queryActions(ctx, q, id); err != nil {
			return err
		}
		if err := addDecisions(ctx, q, id, out.Tasks, out.Actions); err != nil {
			return err
		}
		return addOutputsAndApprovals(ctx, q, id, out.Tasks, "", nil)
	})
	return out, err
}

// GetSummary implements records.Store.
func (s *Store) GetSummary(ctx context.Context, id run.ID) (run.Run, error) {
	var out run.Run
	err := s.db.Read(ctx, "read a run", func(q sqldb.Querier) error {
		var err error
		out, err = summary(ctx, q, id)
		return err
	})
	return out, err
}

// GetTask implements records.Store.
func (s *Store) GetTask(ctx context.Context, id run.ID, name string) (run.Task, error) {
	var out run.Task
	err := s.db.Read(ctx, "read a task", func(q sqldb.Querier) error {
		row, err := rows.TaskNamed(ctx, q, id, name)
		if run.CodeOf(err) == run.CodeNotFound {
			if _, runErr := summary(ctx, q, id); runErr != nil {
				return runErr
			}
		}
		if err != nil {
			return err
		}
		spec, err := rows.TaskSpec(ctx, q, id, row.Node)
		if err != nil {
			return err
		}
		tasks := make([]run.Task, 1)
		if tasks[0], err = row.Task(spec); err != nil {
			return err
		}
		if err := addOutputsAndApprovals(ctx, q, id, tasks, ` AND task = ?`, []any{row.Number}); err != nil {
			return err
		}
		out = tasks[0]
		out.LogsExpired, err = logs.Expired(ctx, q, id, row.Number)
		return err
	})
	return out, err
}

func summary(ctx context.Context, q sqldb.Querier, id run.ID) (run.Run, error) {
	var row rows.Run
	var texts rows.DetailScan
	err := row.Scan(q.QueryRow(ctx, `SELECT `+rows.RunColumns+`, `+rows.DetailColumns+` FROM runs r JOIN run_details d ON d.run_id = r.id
		WHERE r.id = ?`, id), texts.Dest()...)
	if errors.Is(err, sql.ErrNoRows) {
		return run.Run{}, rows.RunNotFound(id)
	}
	if err != nil {
		return run.Run{}, err
	}
	details, err := texts.Parse()
	if err != nil {
		return run.Run{}, err
	}
	return row.Summary(&details), nil
}

// addOutputsAndApprovals fills in the outputs and approvals of tasks, which are ordered by
// number. where narrows down the tasks.
func addOutputsAndApprovals(ctx context.Context, q sqldb.Querier, id run.ID, tasks []run.Task, where string, args []any) error {
	find := func(number int) *run.Task {
		i, ok := slices.BinarySearchFunc(tasks, number, func(t run.Task, n int) int { return t.Number - n })
		if !ok {
			return &run.Task{}
		}
		return &tasks[i]
	}
	args = append([]any{id}, args...)
	if err := sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
		var number, attempt, dispatch int
		var text string
		if err := row.Scan(&number, &attempt, &dispatch, &text); err != nil {
			return err
		}
		t := find(number)
		if t.Attempt != attempt || t.Dispatch != dispatch {
			return nil // of an earlier dispatch
		}
		return sqldb.Unmarshal(text, &t.Outputs)
	}, `SELECT task, attempt, dispatch, outputs FROM task_outputs WHERE run_id = ?`+where, args...); err != nil {
		return err
	}
	return sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
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
