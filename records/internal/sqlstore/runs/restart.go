package runs

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore/archives"
	"github.com/drover-run/drover/records/internal/sqlstore/logs"
	"github.com/drover-run/drover/records/internal/sqlstore/rows"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// RestartSource implements records.Store.
func (s *Store) RestartSource(ctx context.Context, id run.ID) (records.Source, error) {
	old, err := s.GetRun(ctx, id)
	if err != nil {
		return records.Source{}, err
	}
	out := records.Source{Run: old}
	err = s.db.Read(ctx, "read the source of a restart", func(q sqldb.Querier) error {
		var err error
		if out.Spec, out.SecretsBy, err = readSpec(ctx, q, id, asWritten); err != nil {
			return err
		}
		if out.Ran, _, err = readSpec(ctx, q, id, asRun); err != nil {
			return err
		}
		out.Spec.Secrets = nil
		return sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
			var secrets string
			if err := row.Scan(&secrets); err != nil {
				return err
			}
			return sqldb.OpenSecrets(s.db.Keys, sqldb.RunLabel(id), secrets, &out.Spec.Secrets)
		}, `SELECT secrets FROM run_secrets WHERE run_id = ?`, id)
	})
	return out, err
}

// RunSpec implements records.Store. It does not read the values of secrets.
func (s *Store) RunSpec(ctx context.Context, id run.ID) (*run.Spec, error) {
	var spec *run.Spec
	err := s.db.Read(ctx, "read a specification", func(q sqldb.Querier) error {
		var err error
		spec, _, err = readSpec(ctx, q, id, asWritten)
		return err
	})
	return spec, err
}

// specForm is a form of the specification of a run.
type specForm int

const (
	asWritten specForm = iota // with its references to inputs
	asRun                     // as the tasks have it
)

// readSpec reads the specification of a run, with hidden secrets, and who gave their
// values.
func readSpec(ctx context.Context, q sqldb.Querier, id run.ID, form specForm) (*run.Spec, string, error) {
	spec := new(run.Spec)
	var header, annotations, names, secretsBy, source string
	err := q.QueryRow(ctx, `SELECT header, annotations, secret_names, secrets_by, source FROM run_details WHERE run_id = ?`, id).
		Scan(&header, &annotations, &names, &secretsBy, &source)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, "", rows.RunNotFound(id)
	}
	if err != nil {
		return nil, "", err
	}
	if form == asRun {
		source = ""
	}
	var secrets []string
	if err := errors.Join(sqldb.Unmarshal(cmp.Or(source, header), spec), sqldb.Unmarshal(annotations, &spec.Annotations), sqldb.Unmarshal(names, &secrets)); err != nil {
		return nil, "", err
	}
	for _, name := range secrets {
		if _, provided := spec.SecretsFrom[name]; provided {
			continue
		}
		if spec.Secrets == nil {
			spec.Secrets = make(map[string]run.Secret, len(secrets))
		}
		spec.Secrets[name] = run.HiddenSecret
	}
	if source != "" {
		return spec, secretsBy, nil // it has the tasks, as they were written
	}
	spec.Tasks = make(map[string]*run.TaskSpec)
	err = sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
		var name, text, matrix string
		if err := row.Scan(&name, &text, &matrix); err != nil {
			return err
		}
		task := new(run.TaskSpec)
		spec.Tasks[name] = task
		if err := sqldb.Unmarshal(text, task); err != nil {
			return err
		}
		return sqldb.Unmarshal(matrix, &task.Matrix)
	}, `SELECT t.name, s.spec, s.matrix FROM (SELECT DISTINCT node, spec_name AS name FROM tasks WHERE run_id = ?) t
		JOIN task_specs s ON s.node = t.node WHERE s.run_id = ?`, id, id)
	return spec, secretsBy, err
}

// restart makes a new run the restart of an old one, which is locked: it links
// them, and copies the kept tasks.
func restart(ctx context.Context, t *sqldb.Tx, r *rows.Run, how *records.Restart, old *rows.Run) error {
	if old == nil {
		return rows.RunNotFound(how.From)
	}
	if !old.Phase.Final() {
		return rows.WrongPhase(old, "only a run that is final can be restarted")
	}
	if err := link(ctx, t, r, old); err != nil {
		return err
	}
	if len(how.Kept) == 0 {
		return nil
	}
	if err := keepTasks(ctx, t, r, how); err != nil {
		return err
	}
	if err := logs.LockSharing(ctx, t); err != nil {
		return err
	}
	if err := logs.KeepExpired(ctx, t, r.ID, how.From, how.Kept); err != nil {
		return err
	}
	kept := rows.KeptTasks{Run: r.ID, From: how.From, Numbers: how.Kept}
	if err := kept.Copy(ctx, t, `INSERT INTO task_outputs (run_id, task, attempt, dispatch, outputs)
		SELECT kept.run_id, kept.task, o.attempt, o.dispatch, o.outputs
		FROM kept JOIN task_outputs o ON o.run_id = kept.from_run AND o.task = kept.from_task`); err != nil {
		return err
	}
	if err := archives.KeepArchives(ctx, t, kept); err != nil {
		return err
	}
	return kept.Copy(ctx, t, `INSERT INTO log_batches (run_id, task, attempt, dispatch, first_frame, last_frame, task_end, packed, bytes, outline,
		source_run, source_task)
		SELECT kept.run_id, kept.task, b.attempt, b.dispatch, b.first_frame, b.last_frame, b.task_end, b.packed, b.bytes, b.outline,
		CASE WHEN b.source_run = '' THEN b.run_id ELSE b.source_run END, CASE WHEN b.source_run = '' THEN b.task ELSE b.source_task END
		FROM kept JOIN log_batches b ON b.run_id = kept.from_run AND b.task = kept.from_task`)
}

// link adds the new run to the restarts of the old one.
func link(ctx context.Context, t *sqldb.Tx, r, old *rows.Run) error {
	var text string
	if err := t.QueryRow(ctx, `SELECT restarted_as FROM run_details WHERE run_id = ?`, old.ID).Scan(&text); err != nil {
		return err
	}
	var as []run.ID
	if err := sqldb.Unmarshal(text, &as); err != nil {
		return err
	}
	text, err := sqldb.Marshal(append(as, r.ID))
	if err != nil {
		return err
	}
	if _, err := t.Exec(ctx, `UPDATE run_details SET restarted_as = ? WHERE run_id = ?`, text, old.ID); err != nil {
		return err
	}
	return rows.SaveRun(ctx, t, old, old.Clone())
}

// keepTasks copies the end states of tasks.
func keepTasks(ctx context.Context, t *sqldb.Tx, r *rows.Run, how *records.Restart) error {
	tasks, err := rows.QueryTasks(ctx, t, `run_id = ? ORDER BY number`, how.From)
	if err != nil {
		return err
	}
	kept := make([]*rows.Task, 0, len(how.Kept))
	for _, n := range slices.Sorted(maps.Keys(how.Kept)) {
		old := how.Kept[n]
		if old < 0 || old >= len(tasks) || !tasks[old].Status.Final() {
			return run.Errorf(run.CodeConflict, "task %d of run %s cannot be kept as task %d", old, how.From, n)
		}
		x := tasks[old]
		// Frames that arrive after this copy would reach the old run only.
		if err := checkComplete(ctx, t, how.From, &x); err != nil {
			return err
		}
		x.Number = n
		kept = append(kept, &x)
		r.Counts.Move(run.StatusNotStarted, x.Status)
		if x.Annotations == "" {
			continue
		}
		if _, err := t.Exec(ctx, `UPDATE tasks SET annotations = ? WHERE run_id = ? AND number = ?`, x.Annotations, r.ID, n); err != nil {
			return err
		}
	}
	if err := rows.SaveTasks(ctx, t, r.ID, kept); err != nil {
		return err
	}
	counted, err := sqldb.Marshal(r.Counts)
	if err != nil {
		return err
	}
	_, err = t.Exec(ctx, `UPDATE runs SET counts = ? WHERE id = ?`, counted, r.ID)
	return err
}
