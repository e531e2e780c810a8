package runs

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore/changegroups"
	"github.com/drover-run/drover/records/internal/sqlstore/rows"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// ApproveTask implements records.Store.
func (s *Store) ApproveTask(ctx context.Context, id run.ID, task, subject string, token run.Token) error {
	return s.change(ctx, "approve a task", id, token, func(t *sqldb.Tx, r *rows.Run) error {
		x, approval, err := undecided(ctx, t, r, task)
		if err != nil {
			return err
		}
		if err := mayDecide(approval, task, subject, "approve"); err != nil {
			return err
		}
		done, err := t.Exec(ctx, `INSERT INTO approvals (run_id, task, subject, approved_at) VALUES (?, ?, ?, ?)
			ON CONFLICT DO NOTHING`, id, x.Number, subject, t.Now)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n == 0 {
			return cmp.Or[error](err, run.Errorf(run.CodeNotWaitingApproval, "%s has approved task %s before", subject, task))
		}
		if err := recordDecision(ctx, t, r, x, run.Action{Kind: run.ActionApprove, Actor: subject, Reason: run.CommentOf(ctx)}); err != nil {
			return err
		}
		var given int
		if err := t.QueryRow(ctx, `SELECT count(*) FROM approvals WHERE run_id = ? AND task = ?`, id, x.Number).Scan(&given); err != nil {
			return err
		}
		if given < approval.Approvers {
			r.Version++ // an approval changes the run, even if more are needed
			return nil
		}
		return decided(ctx, t, r, x)
	})
}

// RejectTask implements records.Store.
func (s *Store) RejectTask(ctx context.Context, id run.ID, task, subject, reason string, token run.Token) error {
	return s.change(ctx, "reject a task", id, token, func(t *sqldb.Tx, r *rows.Run) error {
		x, approval, err := undecided(ctx, t, r, task)
		if err != nil {
			return err
		}
		if err := mayDecide(approval, task, subject, "reject"); err != nil {
			return err
		}
		return reject(ctx, t, r, x, run.Action{Kind: run.ActionReject, Actor: subject, Reason: reason}, "rejected by "+subject+": "+reason)
	})
}

// undecided returns a task that waits for approval, and what it waits for.
func undecided(ctx context.Context, t *sqldb.Tx, r *rows.Run, task string) (*rows.Task, run.Approval, error) {
	x, err := rows.TaskNamed(ctx, t, r.ID, task)
	if err != nil {
		return nil, run.Approval{}, err
	}
	if x.Status != run.StatusWaitingApproval || r.Phase.Final() {
		return nil, run.Approval{}, run.Errorf(run.CodeNotWaitingApproval, "task %s is %s and does not wait for an approval", task, x.Status)
	}
	if slices.Contains(r.Approved, x.Number) {
		return nil, run.Approval{}, run.Errorf(run.CodeNotWaitingApproval, "task %s has been approved", task)
	}
	spec, err := rows.TaskSpec(ctx, t, r.ID, x.Node)
	if err != nil {
		return nil, run.Approval{}, err
	}
	return x, spec.Approval, nil
}

func mayDecide(a run.Approval, task, subject, verb string) error {
	if len(a.From) == 0 || slices.Contains(a.From, subject) {
		return nil
	}
	return run.Errorf(run.CodeForbidden, "%s may not %s task %s: its specification names %s", subject, verb, task, strings.Join(a.From, ", "))
}

// decided notifies the workflow that a task waits for no approval any more. The
// workflow also reads it with the run's progress, so that a lost signal, or a reset
// of the workflow, cannot lose the decision.
func decided(ctx context.Context, t *sqldb.Tx, r *rows.Run, x *rows.Task) error {
	r.Version++
	r.Approved = append(r.Approved, x.Number)
	if _, err := t.Exec(ctx, `DELETE FROM approval_waits WHERE run_id = ? AND task = ?`, r.ID, x.Number); err != nil {
		return err
	}
	return t.Enqueue(ctx, r.ID, records.OutboxApprove, x.Number)
}

// reject ends a task that waits for approval. The workflow gets the same notice as
// for an approval: it tries to queue the task, finds that the records have it as
// failed, and continues from there. So a workflow of an earlier version handles
// rejections too, and no workflow can start a rejected task.
func reject(ctx context.Context, t *sqldb.Tx, r *rows.Run, x *rows.Task, a run.Action, reason string) error {
	prev := x.Status
	x.Status, x.Reason, x.Ended = run.StatusFailed, sqldb.Clip(reason), t.Now
	r.Counts.Move(prev, x.Status)
	if err := rows.SaveTasks(ctx, t, r.ID, []*rows.Task{x}); err != nil {
		return err
	}
	if r.TaskGroups {
		if err := changegroups.ReleaseTasks(ctx, t, r.ID, []int{x.Number}); err != nil {
			return err
		}
	}
	if err := recordDecision(ctx, t, r, x, a); err != nil {
		return err
	}
	return decided(ctx, t, r, x)
}

// beginWaits stores since when tasks wait for approval, once: a workflow that was
// reset does not extend the time.
func beginWaits(ctx context.Context, t *sqldb.Tx, id run.ID, tasks []*rows.Task) error {
	due := make(map[int]int64) // by node
	for _, x := range tasks {
		if _, known := due[x.Node]; known {
			continue
		}
		spec, err := rows.TaskSpec(ctx, t, id, x.Node)
		if err != nil {
			return err
		}
		due[x.Node] = 0
		if timeout := spec.Approval.Timeout; timeout > 0 {
			due[x.Node] = t.Now + int64(timeout)
		}
	}
	return sqldb.Bulk(ctx, t, `INSERT INTO approval_waits (run_id, task, since, due_at) VALUES `, `(?, ?, ?, ?)`, ` ON CONFLICT DO NOTHING`, len(tasks),
		func(i int, args []any) []any { return append(args, id, tasks[i].Number, t.Now, due[tasks[i].Node]) })
}

// ExpireApprovals implements records.Store.
func (s *Store) ExpireApprovals(ctx context.Context, n int) (int, error) {
	type wait struct {
		id   run.ID
		task int
	}
	var due []wait
	if err := s.db.Read(ctx, "find approvals that timed out", func(q sqldb.Querier) error {
		due = nil
		return sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
			var w wait
			err := row.Scan(&w.id, &w.task)
			due = append(due, w)
			return err
		}, `SELECT run_id, task FROM approval_waits WHERE due_at > 0 AND due_at <= ? ORDER BY due_at LIMIT ?`, s.db.Now().UnixNano(), n)
	}); err != nil {
		return 0, err
	}
	rejected := 0
	for _, w := range due {
		found := false
		err := s.change(ctx, "reject a task whose approval timed out", w.id, nil, func(t *sqldb.Tx, r *rows.Run) error {
			var err error
			found, err = expire(ctx, t, r, w.task)
			return err
		})
		switch {
		case run.CodeOf(err) == run.CodeNotFound: // an older process deleted the run
			err = s.db.Write(ctx, "forget an approval", func(t *sqldb.Tx) error {
				_, err := t.Exec(ctx, `DELETE FROM approval_waits WHERE run_id = ? AND task = ?`, w.id, w.task)
				return err
			})
		case err == nil && found:
			rejected++
		}
		if err != nil {
			return rejected, err
		}
	}
	return rejected, nil
}

// expire rejects a task whose time to be approved is over, and reports whether it did:
// the task may have been decided meanwhile, or ended with its run.
func expire(ctx context.Context, t *sqldb.Tx, r *rows.Run, task int) (bool, error) {
	var due int64
	err := t.QueryRow(ctx, `SELECT due_at FROM approval_waits WHERE run_id = ? AND task = ?`, r.ID, task).Scan(&due)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil || due > t.Now {
		return false, err
	}
	x, err := rows.TaskNumbered(ctx, t, r.ID, task)
	if err != nil {
		return false, err
	}
	_, approval, err := undecided(ctx, t, r, x.Name)
	if run.CodeOf(err) == run.CodeNotWaitingApproval {
		_, err := t.Exec(ctx, `DELETE FROM approval_waits WHERE run_id = ? AND task = ?`, r.ID, task)
		return false, err
	}
	if err != nil {
		return false, err
	}
	var given int
	if err := t.QueryRow(ctx, `SELECT count(*) FROM approvals WHERE run_id = ? AND task = ?`, r.ID, task).Scan(&given); err != nil {
		return false, err
	}
	reason := fmt.Sprintf("the approval timed out after %s: %d of %d given", approval.Timeout.Std(), given, approval.Approvers)
	return true, reject(ctx, t, r, x, run.Action{Kind: run.ActionReject, Reason: reason}, reason)
}

// maxApprovalsRead bounds the waiting tasks of all groups among which a page looks for
// those of its groups.
const maxApprovalsRead = 10_000

// Approvals implements records.Store. A page of some groups may have fewer tasks than its
// limit, or none, although others follow.
func (s *Store) Approvals(ctx context.Context, q run.ApprovalQuery) (run.ApprovalPage, error) {
	after, number, err := afterApproval(q.After)
	if err != nil {
		return run.ApprovalPage{}, err
	}
	limit := q.Limit
	if limit < 1 {
		limit = sqldb.DefaultLimit
	}
	var groups sqldb.Condition
	if path, all := sqldb.QueryPath(q.Group); !all {
		groups = sqldb.InGroups(`r.group_path`, []string{path})
	}
	groups = sqldb.AllOf(groups, sqldb.InGroups(`r.group_path`, q.Within))
	var page run.ApprovalPage
	err = s.db.Read(ctx, "list approvals", func(tx sqldb.Querier) error {
		page = run.ApprovalPage{Approvals: []run.WaitingApproval{}}
		c := sqldb.Condition{Where: `t.status = 'waiting_approval' AND (t.run_id > ? OR t.run_id = ? AND t.number > ?)`, Args: []any{after, after, number}}
		if groups.Where != "" {
			// The waiting tasks of other groups may be many: the page ends with them.
			var last run.WaitingApproval
			switch err := tx.QueryRow(ctx, `SELECT t.run_id, t.number FROM tasks t WHERE `+c.Where+` ORDER BY t.run_id, t.number LIMIT 1 OFFSET ?`,
				append(c.Args, maxApprovalsRead-1)...).Scan(&last.Run, &last.Number); {
			case errors.Is(err, sql.ErrNoRows):
			case err != nil:
				return err
			default:
				page.After = approvalPosition(last)
				c = sqldb.AllOf(c, sqldb.Condition{Where: `(t.run_id < ? OR t.run_id = ? AND t.number <= ?)`, Args: []any{last.Run, last.Run, last.Number}})
			}
		}
		c = sqldb.AllOf(c, groups)
		read, last := 0, run.WaitingApproval{}
		if err := sqldb.Each(ctx, tx, func(row sqldb.Scanner) error {
			w, decided, err := scanApproval(row)
			if err == nil && !decided {
				page.Approvals = append(page.Approvals, w)
			}
			read, last = read+1, w
			return err
		}, `SELECT t.run_id, r.name, r.group_path, t.number, t.name, s.spec, COALESCE(w.since, 0), COALESCE(w.due_at, 0), r.approved
			FROM tasks t JOIN runs r ON r.id = t.run_id JOIN task_specs s ON s.run_id = t.run_id AND s.node = t.node
			LEFT JOIN approval_waits w ON w.run_id = t.run_id AND w.task = t.number
			WHERE `+c.Where+` ORDER BY t.run_id, t.number LIMIT ?`, append(c.Args, limit)...); err != nil {
			return err
		}
		if read == limit {
			page.After = approvalPosition(last)
		}
		for i := range page.Approvals {
			if err := addApprovers(ctx, tx, &page.Approvals[i]); err != nil {
				return err
			}
		}
		return nil
	})
	return page, err
}

// approvalPosition returns the position of the page after a task.
func approvalPosition(w run.WaitingApproval) string {
	return string(w.Run) + ":" + strconv.Itoa(w.Number)
}

// afterApproval parses the position of a page.
func afterApproval(after string) (run.ID, int, error) {
	if after == "" {
		return "", 0, nil
	}
	id, text, found := strings.Cut(after, ":")
	number, err := strconv.Atoi(text)
	if !found || err != nil {
		return "", 0, run.Errorf(run.CodeInvalid, "%q is not the position of a page of approvals", after)
	}
	return run.ID(id), number, nil
}

// scanApproval reads a task that waits for approval. It also reports whether the task
// is decided: its workflow has not queued it yet.
func scanApproval(row sqldb.Scanner) (w run.WaitingApproval, decided bool, err error) {
	var text, approved string
	var since, due int64
	if err := row.Scan(&w.Run, &w.RunName, &w.Group, &w.Number, &w.Task, &text, &since, &due, &approved); err != nil {
		return w, false, err
	}
	var spec run.TaskSpec
	var numbers []int
	if err := errors.Join(sqldb.Unmarshal(text, &spec), sqldb.Unmarshal(approved, &numbers)); err != nil {
		return w, false, err
	}
	w.Approval, w.Since, w.Due = spec.Approval, sqldb.ToTime(since), sqldb.ToTime(due)
	return w, slices.Contains(numbers, w.Number), nil
}

func addApprovers(ctx context.Context, q sqldb.Querier, w *run.WaitingApproval) error {
	return sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
		var subject string
		err := row.Scan(&subject)
		w.ApprovedBy = append(w.ApprovedBy, subject)
		return err
	}, `SELECT subject FROM approvals WHERE run_id = ? AND task = ? ORDER BY approved_at, subject`, w.Run, w.Number)
}

// addDecisions adds to tasks, which are ordered by number, when they are rejected, and
// by whom they were.
func addDecisions(ctx context.Context, q sqldb.Querier, id run.ID, tasks []run.Task, actions []run.Action) error {
	rejected := make(map[string]string)
	for _, a := range actions {
		if a.Kind == run.ActionReject {
			rejected[a.Task] = a.Actor
		}
	}
	for i := range tasks {
		tasks[i].RejectedBy = rejected[tasks[i].Name]
	}
	return sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
		var number int
		var due int64
		if err := row.Scan(&number, &due); err != nil {
			return err
		}
		i, found := slices.BinarySearchFunc(tasks, number, func(t run.Task, n int) int { return t.Number - n })
		if found && tasks[i].Status == run.StatusWaitingApproval {
			tasks[i].ApprovalDue = sqldb.ToTime(due)
		}
		return nil
	}, `SELECT task, due_at FROM approval_waits WHERE run_id = ? AND due_at > 0`, id)
}
