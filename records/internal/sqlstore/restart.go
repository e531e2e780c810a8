package sqlstore

import (
	"context"
	"maps"
	"slices"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// RestartSource implements records.Store.
func (s *Store) RestartSource(ctx context.Context, id run.ID) (*run.Spec, run.Run, error) {
	old, err := s.GetRun(ctx, id)
	if err != nil {
		return nil, run.Run{}, err
	}
	spec := new(run.Spec)
	err = s.read(ctx, "read the source of a restart", func(q Querier) error {
		*spec = run.Spec{}
		var header, annotations string
		if err := q.QueryRow(ctx, `SELECT header, annotations FROM run_details WHERE run_id = ?`, id).Scan(&header, &annotations); err != nil {
			return err
		}
		if err := unmarshal(header, spec); err != nil {
			return err
		}
		if err := unmarshal(annotations, &spec.Annotations); err != nil {
			return err
		}
		if err := each(ctx, q, func(row scanner) error {
			var secrets string
			if err := row.Scan(&secrets); err != nil {
				return err
			}
			return openSecrets(s.keys, runLabel(id), secrets, &spec.Secrets)
		}, `SELECT secrets FROM run_secrets WHERE run_id = ?`, id); err != nil {
			return err
		}
		spec.Tasks = make(map[string]*run.TaskSpec)
		return each(ctx, q, func(row scanner) error {
			var name, text, matrix string
			if err := row.Scan(&name, &text, &matrix); err != nil {
				return err
			}
			task := new(run.TaskSpec)
			spec.Tasks[name] = task
			if err := unmarshal(text, task); err != nil {
				return err
			}
			return unmarshal(matrix, &task.Matrix)
		}, `SELECT t.name, s.spec, s.matrix FROM (SELECT DISTINCT node, spec_name AS name FROM tasks WHERE run_id = ?) t
			JOIN task_specs s ON s.node = t.node WHERE s.run_id = ?`, id, id)
	})
	return spec, old, err
}

// restart makes a new run the restart of an old one, which is locked: it links
// them, and copies the kept tasks.
func (t *tx) restart(ctx context.Context, r *runRow, how *records.Restart, old *runRow) error {
	if old == nil {
		return runNotFound(how.From)
	}
	if !old.phase.Final() {
		return wrongPhase(old, "only a run that is final can be restarted")
	}
	if err := t.link(ctx, r, old); err != nil {
		return err
	}
	if len(how.Kept) == 0 {
		return nil
	}
	kept, err := t.keepTasks(ctx, r, how)
	if err != nil {
		return err
	}
	if err := t.lockSharing(ctx); err != nil {
		return err
	}
	if err := t.keepExpired(ctx, r.id, how.From, kept); err != nil {
		return err
	}
	return inChunks(kept, func(placeholders string, args []any) error {
		args = append([]any{r.id, how.From}, args...)
		if _, err := t.Exec(ctx, `INSERT INTO task_outputs (run_id, task, attempt, dispatch, outputs)
			SELECT ?, task, attempt, dispatch, outputs FROM task_outputs WHERE run_id = ? AND task IN `+placeholders, args...); err != nil {
			return err
		}
		if err := t.keepArchives(ctx, placeholders, args); err != nil {
			return err
		}
		_, err := t.Exec(ctx, `INSERT INTO log_batches (run_id, task, attempt, dispatch, first_frame, last_frame, task_end, packed, bytes, outline,
			source_run, source_task)
			SELECT ?, task, attempt, dispatch, first_frame, last_frame, task_end, packed, bytes, outline,
			CASE WHEN source_run = '' THEN run_id ELSE source_run END, CASE WHEN source_run = '' THEN task ELSE source_task END
			FROM log_batches WHERE run_id = ? AND task IN `+placeholders, args...)
		return err
	})
}

// link adds the new run to the restarts of the old one.
func (t *tx) link(ctx context.Context, r, old *runRow) error {
	var text string
	if err := t.QueryRow(ctx, `SELECT restarted_as FROM run_details WHERE run_id = ?`, old.id).Scan(&text); err != nil {
		return err
	}
	var as []run.ID
	if err := unmarshal(text, &as); err != nil {
		return err
	}
	text, err := marshal(append(as, r.id))
	if err != nil {
		return err
	}
	if _, err := t.Exec(ctx, `UPDATE run_details SET restarted_as = ? WHERE run_id = ?`, text, old.id); err != nil {
		return err
	}
	return t.saveRun(ctx, old, old.clone())
}

// keepTasks copies the end states of tasks, and returns their numbers, which
// are the same in both runs.
func (t *tx) keepTasks(ctx context.Context, r *runRow, how *records.Restart) ([]int, error) {
	rows, err := queryTasks(ctx, t, `run_id = ? ORDER BY number`, how.From)
	if err != nil {
		return nil, err
	}
	numbers := slices.Sorted(maps.Keys(how.Kept))
	kept := make([]*taskRow, 0, len(numbers))
	for _, n := range numbers {
		if how.Kept[n] != n || n >= len(rows) || !rows[n].status.Final() {
			return nil, run.Errorf(run.CodeConflict, "task %d of run %s cannot be kept as task %d", how.Kept[n], how.From, n)
		}
		x := &rows[n]
		// Frames that arrive after this copy would reach the old run only.
		if err := t.checkComplete(ctx, how.From, x); err != nil {
			return nil, err
		}
		kept = append(kept, x)
		r.counts.move(run.StatusNotStarted, x.status)
		if x.annotations == "" {
			continue
		}
		if _, err := t.Exec(ctx, `UPDATE tasks SET annotations = ? WHERE run_id = ? AND number = ?`, x.annotations, r.id, n); err != nil {
			return nil, err
		}
	}
	if err := t.saveTasks(ctx, r.id, kept); err != nil {
		return nil, err
	}
	counted, err := marshal(r.counts)
	if err != nil {
		return nil, err
	}
	_, err = t.Exec(ctx, `UPDATE runs SET counts = ? WHERE id = ?`, counted, r.id)
	return numbers, err
}
