package sqlstore

import (
	"context"
	"slices"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// DeleteRun implements records.Store.
func (s *Store) DeleteRun(ctx context.Context, id run.ID) error {
	return s.write(ctx, "deleting a run", func(t *tx) error {
		r, err := t.lockRun(ctx, id)
		if err != nil {
			return err
		}
		if !r.phase.Final() {
			return wrongPhase(r, "only a run that is final can be deleted; stop or cancel it first")
		}
		groups, err := t.groupsOf(ctx, r)
		if err != nil {
			return err
		}
		if err := t.lockGroups(ctx, groups); err != nil {
			return err
		}
		if err := t.discardLogs(ctx, id); err != nil {
			return err
		}
		if err := t.deleteLookups(ctx, r); err != nil {
			return err
		}
		for _, table := range []string{
			"run_changegroups", "run_secrets", "run_details", "plan_pages", "task_specs", "task_outputs", "approvals", "claims",
			"log_batches", "tasks", "outbox",
		} {
			if _, err := t.Exec(ctx, `DELETE FROM `+table+` WHERE run_id = ?`, id); err != nil {
				return err
			}
		}
		if _, err := t.Exec(ctx, `DELETE FROM runs WHERE id = ?`, id); err != nil {
			return err
		}
		t.touch(id)
		t.renew(groups...)
		return nil
	})
}

func (t *tx) deleteLookups(ctx context.Context, r *runRow) error {
	prefixes := groupPrefixes(r.group)
	if _, err := t.Exec(ctx, `DELETE FROM run_groups WHERE prefix IN (`+tuples(`?`, len(prefixes))+`) AND run_id = ?`,
		append(texts(prefixes), r.id)...); err != nil {
		return err
	}
	if err := t.dropResult(ctx, r); err != nil {
		return err
	}
	var text string
	if err := t.QueryRow(ctx, `SELECT annotations FROM run_details WHERE run_id = ?`, r.id).Scan(&text); err != nil {
		return err
	}
	var annotations map[string]string
	if err := unmarshal(text, &annotations); err != nil {
		return err
	}
	for name, value := range annotations {
		if _, err := t.Exec(ctx, `DELETE FROM run_annotations WHERE name = ? AND value = ? AND run_id = ?`, name, value, r.id); err != nil {
			return err
		}
	}
	return nil
}

// discardLogs notes the batches of a run that is being deleted whose bytes
// nobody needs any more. Bytes of its own stay where a run that was made of it
// kept them, and bytes that it kept from a run that is gone go with the last
// one that names them.
func (t *tx) discardLogs(ctx context.Context, id run.ID) error {
	if _, err := t.Exec(ctx, `INSERT INTO garbage (run_id, task, attempt, dispatch, first_frame)
		SELECT b.run_id, b.task, b.attempt, b.dispatch, b.first_frame FROM log_batches b WHERE b.run_id = ? AND b.source_run = ''
		AND NOT EXISTS (SELECT 1 FROM log_batches o WHERE o.source_run = b.run_id AND o.source_task = b.task AND o.source_run <> ''
			AND o.attempt = b.attempt AND o.dispatch = b.dispatch AND o.first_frame = b.first_frame)
		ON CONFLICT DO NOTHING`, id); err != nil {
		return err
	}
	_, err := t.Exec(ctx, `INSERT INTO garbage (run_id, task, attempt, dispatch, first_frame)
		SELECT b.source_run, b.source_task, b.attempt, b.dispatch, b.first_frame FROM log_batches b WHERE b.run_id = ? AND b.source_run <> ''
		AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = b.source_run)
		AND NOT EXISTS (SELECT 1 FROM log_batches o WHERE o.source_run = b.source_run AND o.source_task = b.source_task AND o.source_run <> ''
			AND o.attempt = b.attempt AND o.dispatch = b.dispatch AND o.first_frame = b.first_frame AND o.run_id <> b.run_id)
		ON CONFLICT DO NOTHING`, id)
	return err
}

// DeleteRuns implements records.Store.
func (s *Store) DeleteRuns(ctx context.Context, q run.DeleteQuery) (run.Deleted, error) {
	var out run.Deleted
	after := run.ID("")
	for {
		ids, last, err := s.deletable(ctx, q, after, run.MaxDelete+1-out.Runs)
		if err != nil {
			return out, err
		}
		for _, id := range ids {
			if out.Runs == run.MaxDelete {
				out.More = true
				return out, nil
			}
			if !q.DryRun {
				switch err := s.DeleteRun(ctx, id); run.CodeOf(err) {
				case "":
				case run.CodeNotFound:
					continue // somebody else was faster
				default:
					return out, err
				}
			}
			out.Runs++
		}
		if last == "" {
			return out, nil
		}
		after = last
	}
}

// deletePage is how many runs are looked at at once.
const deletePage = 2000

// deletable returns up to n final runs that a query selects among the next
// ones after an id, oldest first, and the last id looked at, "" at the end.
func (s *Store) deletable(ctx context.Context, q run.DeleteQuery, after run.ID, n int) (ids []run.ID, last run.ID, err error) {
	table, column, where, args := `runs r`, `r.id`, `1 = 1`, []any{}
	if path, all := queryPath(q.Group); !all {
		table, column, where, args = `run_groups i JOIN runs r ON r.id = i.run_id`, `i.run_id`, `i.prefix = ?`, []any{path}
	}
	where += ` AND ` + column + ` > ?`
	args = append(args, after)
	if !q.Before.IsZero() {
		where += ` AND ` + column + ` <= ? AND r.created_at < ?`
		args = append(args, idBound(q.Before, true), q.Before.UnixNano())
	}
	spared := `FALSE`
	if q.Keep > 0 {
		spared = `(SELECT count(*) FROM (SELECT 1 FROM runs n WHERE n.group_path = r.group_path AND n.id > r.id LIMIT ?) s) < ?`
		args = append([]any{q.Keep, q.Keep}, args...)
	}
	err = s.read(ctx, "looking for runs to delete", func(tx Querier) error {
		ids, last = nil, ""
		seen := 0
		err := each(ctx, tx, func(row scanner) error {
			var id run.ID
			var phase run.Phase
			var keep bool
			if err := row.Scan(&id, &phase, &keep); err != nil {
				return err
			}
			seen++
			if len(ids) < n {
				last = id
				if phase.Final() && !keep {
					ids = append(ids, id)
				}
			}
			return nil
		}, `SELECT r.id, r.phase, `+spared+` FROM `+table+` WHERE `+where+` ORDER BY `+column+` LIMIT ?`, append(slices.Clone(args), deletePage)...)
		if seen < deletePage && len(ids) < n {
			last = ""
		}
		return err
	})
	return ids, last, err
}

// TakeGarbage implements records.Store.
func (s *Store) TakeGarbage(ctx context.Context, n int) ([]records.GarbageBatch, error) {
	var out []records.GarbageBatch
	err := s.read(ctx, "reading what deleted runs left", func(q Querier) error {
		out = nil
		return each(ctx, q, func(row scanner) error {
			var g records.GarbageBatch
			err := row.Scan(&g.Key.Run, &g.Key.Task, &g.Key.Attempt, &g.Key.Dispatch, &g.First)
			out = append(out, g)
			return err
		}, `SELECT run_id, task, attempt, dispatch, first_frame FROM garbage LIMIT ?`, n)
	})
	return out, err
}

// DoneGarbage implements records.Store.
func (s *Store) DoneGarbage(ctx context.Context, done []records.GarbageBatch) error {
	return s.write(ctx, "forgetting what deleted runs left", func(t *tx) error {
		for _, g := range done {
			if _, err := t.Exec(ctx, `DELETE FROM garbage WHERE run_id = ? AND task = ? AND attempt = ? AND dispatch = ? AND first_frame = ?`,
				g.Key.Run, g.Key.Task, g.Key.Attempt, g.Key.Dispatch, g.First); err != nil {
				return err
			}
		}
		return nil
	})
}
