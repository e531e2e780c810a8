package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/run"
)

const (
	// lateOutputs is how long the last frames of a task that succeeded are
	// waited for by those that need its outputs.
	lateOutputs = 2 * time.Minute
	// shownKeys is how many outputs are named where one is missing.
	shownKeys = 5
)

// outputs tells the outputs of tasks of a run. Its errors have the code
// not_found where there is no such output, and unavailable where there may be
// one soon.
func (t *tx) outputs(ctx context.Context, id run.ID) run.Outputs {
	known := make(map[string]map[string]string)
	return func(ref run.OutputRef) (string, error) {
		values, ok := known[ref.Task]
		if !ok {
			var err error
			if values, err = t.outputsOfTask(ctx, id, ref); err != nil {
				return "", err
			}
			known[ref.Task] = values
		}
		value, ok := values[ref.Key]
		if !ok {
			return "", t.noOutput(ctx, id, ref, values)
		}
		return value, nil
	}
}

func (t *tx) outputsOfTask(ctx context.Context, id run.ID, ref run.OutputRef) (map[string]string, error) {
	var text string
	err := t.QueryRow(ctx, `SELECT o.outputs FROM tasks t JOIN task_outputs o
		ON o.run_id = t.run_id AND o.task = t.number AND o.attempt = t.attempt AND o.dispatch = t.dispatch
		WHERE t.run_id = ? AND t.name = ?`, id, ref.Task).Scan(&text)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	var values map[string]string
	return values, unmarshal(text, &values)
}

// noOutput says why there is no such output.
func (t *tx) noOutput(ctx context.Context, id run.ID, ref run.OutputRef, values map[string]string) error {
	x, err := taskNamed(ctx, t, id, ref.Task)
	switch {
	case run.CodeOf(err) == run.CodeNotFound:
		return run.Errorf(run.CodeNotFound, "there is no task %s whose output %q it could be", ref.Task, ref.Key)
	case err != nil:
		return err
	case x.attempt == 0:
		return run.Errorf(run.CodeNotFound, "task %s put out no %q: it is %s", ref.Task, ref.Key, x.status)
	}
	late, err := t.lacksFrames(ctx, id, x)
	switch {
	case err != nil:
		return err
	case late:
		return run.Errorf(run.CodeUnavailable, "the outputs of task %s have not all arrived yet", ref.Task)
	case len(values) == 0:
		return run.Errorf(run.CodeNotFound, "task %s put out nothing, so no %q", ref.Task, ref.Key)
	}
	keys := slices.Sorted(maps.Keys(values))
	more := ""
	if len(keys) > shownKeys {
		keys, more = keys[:shownKeys], ", ..."
	}
	return run.Errorf(run.CodeNotFound, "task %s put out no %q; what it put out: %s%s", ref.Task, ref.Key, strings.Join(keys, ", "), more)
}

// lacksFrames reports whether the last frames of a task that succeeded are
// still to come: an executor that lost the gateway completes first, and ships
// on.
func (t *tx) lacksFrames(ctx context.Context, id run.ID, x *taskRow) (bool, error) {
	if x.status != run.StatusSuccess || toTime(t.now).Sub(toTime(x.ended)) > lateOutputs {
		return false, nil
	}
	var whole bool
	err := t.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM log_batches WHERE run_id = ? AND task = ? AND attempt = ? AND dispatch = ? AND task_end)`,
		id, x.number, x.attempt, x.dispatch).Scan(&whole)
	return !whole, err
}
