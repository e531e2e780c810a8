package runs

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/records/internal/sqlstore/rows"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

const (
	// outputsTimeout is how long tasks that need the outputs of a succeeded task
	// wait for its last frames.
	outputsTimeout = 2 * time.Minute
	// shownKeys is how many outputs an error lists if one is missing.
	shownKeys = 5
)

// outputs looks up the outputs of tasks of a run. Its errors have the code
// not_found if there is no such output, and unavailable while frames of the
// task are missing: those may hold other values of the same keys.
func outputs(ctx context.Context, t *sqldb.Tx, id run.ID) run.Outputs {
	known := make(map[string]map[string]string)
	return func(ref run.OutputRef) (string, error) {
		values, ok := known[ref.Task]
		if !ok {
			var err error
			if values, err = outputsOfTask(ctx, t, id, ref); err != nil {
				return "", err
			}
			known[ref.Task] = values
		}
		value, ok := values[ref.Key]
		if !ok {
			return "", outputNotFound(ref, values)
		}
		return value, nil
	}
}

// outputsOfTask returns all outputs of the task that a reference names, once
// they are complete.
func outputsOfTask(ctx context.Context, t *sqldb.Tx, id run.ID, ref run.OutputRef) (map[string]string, error) {
	x, err := rows.TaskNamed(ctx, t, id, ref.Task)
	switch {
	case run.CodeOf(err) == run.CodeNotFound:
		return nil, run.Errorf(run.CodeNotFound, "there is no task %s with an output %q", ref.Task, ref.Key)
	case err != nil:
		return nil, err
	case x.Attempt == 0:
		return nil, run.Errorf(run.CodeNotFound, "task %s has no output %q: it is %s", ref.Task, ref.Key, x.Status)
	}
	if err := checkComplete(ctx, t, id, x); err != nil {
		return nil, err
	}
	return storedOutputs(ctx, t, id, x)
}

// storedOutputs returns the outputs of the newest dispatch of a task that have
// arrived.
func storedOutputs(ctx context.Context, t *sqldb.Tx, id run.ID, x *rows.Task) (map[string]string, error) {
	var text string
	err := t.QueryRow(ctx, `SELECT outputs FROM task_outputs WHERE run_id = ? AND task = ? AND attempt = ? AND dispatch = ?`,
		id, x.Number, x.Attempt, x.Dispatch).Scan(&text)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	var values map[string]string
	return values, sqldb.Unmarshal(text, &values)
}

// outputNotFound returns the error for an output that a task does not have.
func outputNotFound(ref run.OutputRef, values map[string]string) error {
	if len(values) == 0 {
		return run.Errorf(run.CodeNotFound, "task %s has no outputs, so no %q", ref.Task, ref.Key)
	}
	keys := slices.Sorted(maps.Keys(values))
	more := ""
	if len(keys) > shownKeys {
		keys, more = keys[:shownKeys], ", ..."
	}
	return run.Errorf(run.CodeNotFound, "task %s has no output %q; its outputs: %s%s", ref.Task, ref.Key, strings.Join(keys, ", "), more)
}

// checkComplete returns CodeUnavailable while the last frames of a succeeded task
// are missing: an executor that lost the gateway completes the task first, and
// sends its frames later.
func checkComplete(ctx context.Context, t *sqldb.Tx, id run.ID, x *rows.Task) error {
	if x.Status != run.StatusSuccess || x.Attempt == 0 || sqldb.ToTime(t.Now).Sub(sqldb.ToTime(x.Ended)) > outputsTimeout {
		return nil
	}
	var complete bool
	err := t.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM log_batches WHERE run_id = ? AND task = ? AND attempt = ? AND dispatch = ? AND task_end)`,
		id, x.Number, x.Attempt, x.Dispatch).Scan(&complete)
	if err == nil && !complete {
		err = run.Errorf(run.CodeUnavailable, "the outputs of task %s have not all arrived yet", x.Name)
	}
	return err
}
