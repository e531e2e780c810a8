package runs

import (
	"context"
	"database/sql"
	"errors"
	"iter"
	"slices"

	"github.com/drover-run/drover/records/internal/sqlstore/archives"
	"github.com/drover-run/drover/records/internal/sqlstore/changegroups"
	"github.com/drover-run/drover/records/internal/sqlstore/logs"
	"github.com/drover-run/drover/records/internal/sqlstore/rows"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// DeleteRun implements records.Store.
func (s *Store) DeleteRun(ctx context.Context, id run.ID) error {
	return s.db.Write(ctx, "delete a run", func(t *sqldb.Tx) error {
		r, err := rows.LockRun(ctx, t, id)
		if err != nil {
			return err
		}
		if !r.Phase.Final() {
			return rows.WrongPhase(r, "only a run that is final can be deleted; stop or cancel it first")
		}
		groups, err := changegroups.GroupsOf(ctx, t, r)
		if err != nil {
			return err
		}
		ofTasks, err := changegroups.GroupsOfTasks(ctx, t, r)
		if err != nil {
			return err
		}
		groups = append(groups, ofTasks...)
		if err := changegroups.LockGroups(ctx, t, groups, nil); err != nil {
			return err
		}
		if err := changegroups.EndRunOfTasks(ctx, t, r); err != nil { // if an older process has ended it
			return err
		}
		if err := logs.DiscardLogs(ctx, t, id); err != nil {
			return err
		}
		if err := logs.ForgetPacking(ctx, t, id); err != nil {
			return err
		}
		if err := archives.DiscardArchives(ctx, t, id); err != nil {
			return err
		}
		if err := deleteLookups(ctx, t, r); err != nil {
			return err
		}
		for _, table := range []string{
			"run_changegroups", "run_task_groups", "run_warnings", "task_slots", "run_secrets", "run_details", "plan_pages", "task_specs", "task_outputs", "approvals", "approval_waits",
			"run_actions", "claims", "log_batches", "expired_logs", "tasks", "outbox",
		} {
			if _, err := t.Exec(ctx, `DELETE FROM `+table+` WHERE run_id = ?`, id); err != nil {
				return err
			}
		}
		if _, err := t.Exec(ctx, `DELETE FROM runs WHERE id = ?`, id); err != nil {
			return err
		}
		t.MarkChanged(id)
		changegroups.BumpVersions(t, groups...)
		return nil
	})
}

func deleteLookups(ctx context.Context, t *sqldb.Tx, r *rows.Run) error {
	if err := rows.DeleteState(ctx, t, r); err != nil {
		return err
	}
	var texts rows.DetailScan
	if err := t.QueryRow(ctx, `SELECT `+rows.DetailColumns+` FROM run_details d WHERE d.run_id = ?`, r.ID).Scan(texts.Dest()...); err != nil {
		return err
	}
	details, err := texts.Parse()
	if err != nil {
		return err
	}
	if err := deleteNamed(ctx, t, `run_annotations`, r.ID, details.Annotations); err != nil {
		return err
	}
	return deleteNamed(ctx, t, `run_inputs`, r.ID, details.Header.InputValues)
}

// DeleteRuns implements records.Store.
func (s *Store) DeleteRuns(ctx context.Context, q run.DeleteQuery) (run.Deleted, error) {
	var out run.Deleted
	for id, err := range s.deletable(ctx, q) {
		if err != nil {
			return out, err
		}
		if out.Runs == run.MaxDelete {
			out.More = true
			return out, nil
		}
		if q.Throttle != nil {
			if err := q.Throttle(ctx); err != nil {
				return out, err
			}
		}
		if !q.DryRun {
			switch err := s.DeleteRun(ctx, id); run.CodeOf(err) {
			case "":
			case run.CodeNotFound:
				continue // another process deleted it
			default:
				return out, err
			}
		}
		out.Runs++
	}
	return out, nil
}

// DueRuns implements records.Due.
func (s *Store) DueRuns(ctx context.Context, q run.DeleteQuery, n int) (run.RetentionDue, error) {
	out := run.RetentionDue{Kind: run.RetentionRuns}
	var first []run.ID // the smallest ids: they ascend with the creation time
	for id, err := range s.deletable(ctx, q) {
		if err != nil {
			return out, err
		}
		out.Count++
		i, _ := slices.BinarySearch(first, id)
		if first = slices.Insert(first, i, id); len(first) > max(n, 1) {
			first = first[:max(n, 1)]
		}
	}
	for i, id := range first {
		r, err := s.GetSummary(ctx, id)
		if run.CodeOf(err) == run.CodeNotFound {
			continue // it was deleted meanwhile
		}
		if err != nil {
			return out, err
		}
		if out.Oldest.IsZero() {
			out.Oldest = r.CreatedAt
		}
		if i < n {
			out.First = append(out.First, run.RetentionItem{Run: id, Since: r.CreatedAt})
		}
	}
	return out, nil
}

// deletePage is how many runs, or groups, one query reads.
const deletePage = 200

// deletable yields the final runs that a query selects, oldest first. If the
// newest of each group are kept, it yields them group by group.
func (s *Store) deletable(ctx context.Context, q run.DeleteQuery) iter.Seq2[run.ID, error] {
	return func(yield func(run.ID, error) bool) {
		if q.Keep == 0 {
			s.yieldPages(ctx, yield, func(tx sqldb.Querier, after run.ID) ([]run.ID, error) {
				w := accessPath{q: run.ListQuery{Ascending: true, CreatedBefore: q.Before}, filters: createdIn(run.ListQuery{CreatedBefore: q.Before})}
				path, _ := sqldb.QueryPath(q.Group)
				w.sources = stateSources(path, rows.States(finalPhases(), nil))
				c := w.candidates(cursor{id: after}, deletePage)
				return sqldb.QueryIDs(ctx, tx, c.Where, c.Args...)
			})
			return
		}
		for group := (run.GroupQuery{Under: q.Group}); ; {
			var paths []string
			if err := s.db.Read(ctx, "find groups with runs to delete", func(tx sqldb.Querier) error {
				var err error
				paths, err = pathsBelow(ctx, tx, group, deletePage)
				return err
			}); err != nil {
				yield("", err)
				return
			}
			for _, path := range paths {
				if !s.yieldPages(ctx, yield, func(tx sqldb.Querier, after run.ID) ([]run.ID, error) { return beyondNewest(ctx, tx, path, q, after) }) {
					return
				}
			}
			if len(paths) < deletePage {
				return
			}
			group.After = paths[len(paths)-1]
		}
	}
}

// yieldPages yields the ids of pages until one is not full. It returns false if
// the caller stopped or a read failed.
func (s *Store) yieldPages(
	ctx context.Context, yield func(run.ID, error) bool, read func(tx sqldb.Querier, after run.ID) ([]run.ID, error),
) bool {
	after := run.ID("")
	for {
		var ids []run.ID
		if err := s.db.Read(ctx, "find runs to delete", func(tx sqldb.Querier) error {
			var err error
			ids, err = read(tx, after)
			return err
		}); err != nil {
			yield("", err)
			return false
		}
		for _, id := range ids {
			if !yield(id, nil) {
				return false
			}
			after = id
		}
		if len(ids) < deletePage {
			return true
		}
	}
}

// beyondNewest returns the next runs of a group that are older than the newest ones,
// which are kept.
func beyondNewest(ctx context.Context, q sqldb.Querier, path string, of run.DeleteQuery, after run.ID) ([]run.ID, error) {
	var last run.ID
	err := q.QueryRow(ctx, `SELECT id FROM runs WHERE group_path = ? ORDER BY id DESC LIMIT 1 OFFSET ?`, path, of.Keep-1).Scan(&last)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	high := bound{last, ` <`}
	where, args := ``, []any{path, after}
	if !of.Before.IsZero() {
		high.narrow(bound{sqldb.IDBound(of.Before, true), ` <=`}, false)
		where = ` AND created_at < ?`
		args = append(args, of.Before.UnixNano())
	}
	final := sqldb.OneOf(`phase`, finalPhases())
	where = `group_path = ? AND id > ?` + where + ` AND id` + high.operator + ` ? AND ` + final.Where
	args = append(append(args, high.id), final.Args...)
	return sqldb.QueryIDs(ctx, q, `SELECT id FROM runs WHERE `+where+` ORDER BY id LIMIT ?`, append(args, deletePage)...)
}

func finalPhases() []run.Phase {
	return slices.DeleteFunc(run.Phases(), func(p run.Phase) bool { return !p.Final() })
}
