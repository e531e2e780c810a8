package changegroups

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/drover-run/drover/records/internal/sqlstore/rows"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// A mixed run, which names change groups itself and others for its tasks, holds slots while its
// tasks wait. A task that waits keeps its place in all of its groups, so one that waited for a
// slot that a mixed run holds could be in the way of that run's tasks, in another group, for
// ever. So no task of an open run may name what an open mixed run names itself. Nothing else
// can close a circle: tasks that wait and runs that wait hold no slots for that wait, runs that
// wait are in no task's way, and what holds slots and is not mixed ends by itself.

// The kinds of the change groups of a run whose tasks name some.
const (
	kindTask     = "task"      // a task names it
	kindMixedRun = "mixed_run" // the run names it itself
	kindDone     = "done"      // the run has ended
)

// GroupsOfTasks returns the change groups that tasks of a run name, sorted. They never
// change.
func GroupsOfTasks(ctx context.Context, q sqldb.Querier, r *rows.Run) ([]string, error) {
	if !r.TaskGroups {
		return nil, nil
	}
	var names []string
	err := sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
		var name string
		err := row.Scan(&name)
		names = append(names, name)
		return err
	}, `SELECT name FROM run_task_groups WHERE run_id = ? ORDER BY name`, r.ID)
	return names, err
}

// NameGroupsOfTasks stores the change groups that the tasks of a new run name, beside those
// that it names itself. All are locked.
func NameGroupsOfTasks(ctx context.Context, t *sqldb.Tx, id run.ID, ofTasks, ofRun []string) error {
	if len(ofTasks) == 0 {
		return nil
	}
	names := slices.Concat(ofTasks, ofRun)
	return sqldb.Bulk(ctx, t, `INSERT INTO run_task_groups (name, run_id, kind) VALUES `, `(?, ?, ?)`, ``, len(names),
		func(i int, args []any) []any {
			kind := kindTask
			if i >= len(ofTasks) {
				kind = kindMixedRun
			}
			return append(args, names[i], id, kind)
		})
}

// CheckStoredCircle is CheckCircle for a run that is stored.
func CheckStoredCircle(ctx context.Context, t *sqldb.Tx, r *rows.Run) error {
	if !r.TaskGroups {
		return nil
	}
	names := make(map[string][]string)
	if err := sqldb.Each(ctx, t, func(row sqldb.Scanner) error {
		var name, kind string
		err := row.Scan(&name, &kind)
		names[kind] = append(names[kind], name)
		return err
	}, `SELECT name, kind FROM run_task_groups WHERE run_id = ? ORDER BY name`, r.ID); err != nil {
		return err
	}
	return CheckCircle(ctx, t, names[kindTask], names[kindMixedRun])
}

// CheckCircle refuses a run that is about to be admitted, or to wait for that, if it and an open
// run could wait for each other for ever. Runs that wait for a start do not count: they are
// checked when they are started. The groups of the run are locked. Errors: changegroup_busy.
func CheckCircle(ctx context.Context, t *sqldb.Tx, ofTasks, ofRun []string) error {
	if len(ofTasks) == 0 {
		return nil
	}
	name, other, err := openWithKind(ctx, t, ofTasks, kindMixedRun)
	if err != nil {
		return err
	}
	if name != "" {
		return run.Errorf(run.CodeChangeGroupBusy, "a task names change group %s, and so does %s, which is open, for itself and not for a task: their tasks could wait for each other for ever; try again when it has ended, or name the group for the whole run, or for a task, in both",
			name, shownRun(ctx, other))
	}
	if len(ofRun) == 0 {
		return nil
	}
	if name, other, err = openWithKind(ctx, t, ofRun, kindTask); err != nil || name == "" {
		return err
	}
	return run.Errorf(run.CodeChangeGroupBusy, "the run names change group %s for itself and others for its tasks, and a task of %s, which is open, names %s: their tasks could wait for each other for ever; try again when it has ended, or name the group for the whole run, or for a task, in both",
		name, shownRun(ctx, other), name)
}

// shownRun names a run in an error, if the caller may know of all runs.
func shownRun(ctx context.Context, id run.ID) string {
	if run.OthersHidden(ctx) {
		return "another run"
	}
	return "run " + string(id)
}

// openWithKind returns a group that an open run has as a kind, and that run; "" if there is none.
// It reads the phase of the run: a process that does not know the groups of tasks does not
// mark them as done.
func openWithKind(ctx context.Context, t *sqldb.Tx, names []string, kind string) (name string, id run.ID, err error) {
	err = t.QueryRow(ctx, `SELECT g.name, g.run_id FROM run_task_groups g JOIN runs r ON r.id = g.run_id
		WHERE g.kind = ? AND g.name IN (`+sqldb.InList(len(names))+`)
		AND (r.phase = 'running' OR r.phase = 'queued' AND (r.admission <> 'manual' OR r.admitted)) ORDER BY g.name, g.run_id LIMIT 1`,
		append([]any{kind}, sqldb.InListArgs(names)...)...).Scan(&name, &id)
	if errors.Is(err, sql.ErrNoRows) {
		return "", "", nil
	}
	return name, id, err
}

// EndRunOfTasks releases all slots of the tasks of a run that has ended, also of those that
// a process ended which did not know them, and says that the run has ended. All groups of the
// run's tasks are locked.
func EndRunOfTasks(ctx context.Context, t *sqldb.Tx, r *rows.Run) error {
	if !r.TaskGroups {
		return nil
	}
	names, err := GroupsOfTasks(ctx, t, r)
	if err != nil {
		return err
	}
	BumpVersions(t, names...)
	if err := ReleaseTasks(ctx, t, r.ID, nil); err != nil {
		return err
	}
	_, err = t.Exec(ctx, `UPDATE run_task_groups SET kind = ? WHERE run_id = ?`, kindDone, r.ID)
	return err
}
