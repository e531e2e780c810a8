package main

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/sqlite"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

// TestGenerate compares the rows of a generated run with those of a run that
// the store created: as many in each table, with the same columns set.
func TestGenerate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "m.db")
	store, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	to, err := openFile(path)
	require.NoError(t, err)
	const n = openQueued + openRunning + 2000
	now := time.Now()
	require.NoError(t, generate(t.Context(), to, n, now))
	require.NoError(t, to.close(t.Context()))
	db, err := sql.Open("sqlite", "file:"+path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	for _, status := range []run.Status{run.StatusSuccess, run.StatusFailed} {
		generated := succeeded(t, store, status)
		created := createLike(t, store, generated)
		for _, table := range tablesOfRuns(t, db) {
			require.Equal(t, set(t, db, table, created), set(t, db, table, generated.ID), table)
		}
	}
}

// succeeded returns a run that succeeded and whose task has a status.
func succeeded(t *testing.T, s records.Store, status run.Status) run.Run {
	t.Helper()
	for q := (run.ListQuery{Results: []run.Result{run.ResultSuccess}, Limit: 1}); ; {
		page, err := s.ListRuns(t.Context(), q)
		require.NoError(t, err)
		if len(page.Runs) > 0 && page.Runs[0].TaskCounts[status] > 0 {
			return page.Runs[0]
		}
		require.NotEmpty(t, page.Next, "there is no such run")
		q.Cursor = page.Next
	}
}

// createLike creates a run like another, which succeeded, and finishes it.
func createLike(t *testing.T, s records.Store, like run.Run) run.ID {
	t.Helper()
	warned := like.TaskCounts[run.StatusFailed] > 0
	of := &run.Spec{
		Name: like.Name, Group: like.Group, ChangeGroups: []string{"own"}, Annotations: like.Annotations, Environment: like.Environment,
		Inputs: map[string]run.Input{"commit": {}, "env": {}}, InputValues: map[string]string{"commit": "1", "env": "dev"},
		Tasks: map[string]*run.TaskSpec{"build": {Pool: "shell", AllowFailure: warned, Steps: []run.Step{{Run: "true"}, {Run: "true"}}}},
	}
	x, faults := spec.Expand(of, func(_ string, t *run.TaskSpec) (string, error) { return t.Pool, nil })
	require.Empty(t, faults)
	ctx := t.Context()
	r, err := s.CreateRun(ctx, records.NewRun{Spec: of, Plan: x.Plan, Tasks: x.Tasks, Actor: like.CreatedBy})
	require.NoError(t, err)
	_, err = s.Begin(ctx, r.ID)
	require.NoError(t, err)
	apply := func(c records.Changes) {
		_, _, err := s.Apply(ctx, r.ID, c)
		require.NoError(t, err)
	}
	apply(records.Changes{Tasks: []run.TaskChange{{Attempt: 1, Dispatch: 1, Status: run.StatusQueued}}})
	key := run.Key{Run: r.ID, Attempt: 1, Dispatch: 1}
	_, err = s.Claim(ctx, run.ClaimRequest{Key: key, Executor: "host-1", JournalID: "j"})
	require.NoError(t, err)
	require.NoError(t, s.ApplyFrames(ctx, run.FrameBatch{Key: key, Executor: "host-1", Stored: 100, Frames: []run.Frame{
		{Version: 1, N: 1, Kind: run.FrameStepStart, Time: time.Now()}, {Version: 1, N: 2, Kind: run.FrameTaskEnd, Time: time.Now()},
	}}))
	code, status := 0, run.StatusSuccess
	if warned {
		code, status = 1, run.StatusFailed
	}
	step := run.StepResult{Status: status, ExitCode: &code, Started: time.Now(), Ended: time.Now()}
	apply(records.Changes{Tasks: []run.TaskChange{{Attempt: 1, Dispatch: 1, Status: status, Result: &run.TaskResult{
		Status: status, ExitCode: &code, Started: time.Now(), Ended: time.Now(), Steps: []run.StepResult{step, step},
	}}}, Result: run.ResultSuccess, Finish: true})
	return r.ID
}

// tablesOfRuns lists the tables with rows of runs, except those whose rows are
// removed over time.
func tablesOfRuns(t *testing.T, db *sql.DB) (tables []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `SELECT m.name FROM sqlite_master m WHERE m.type = 'table' AND m.name NOT IN ('events', 'outbox')
		AND EXISTS (SELECT 1 FROM pragma_table_info(m.name) c WHERE c.name = 'run_id' OR m.name = 'runs' AND c.name = 'id')`)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var name string
		require.NoError(t, rows.Scan(&name))
		tables = append(tables, name)
	}
	require.NoError(t, rows.Err())
	return tables
}

// set returns for each of a run's rows which columns are not empty.
func set(t *testing.T, db *sql.DB, table string, id run.ID) (out []map[string]bool) {
	t.Helper()
	key := "run_id"
	if table == "runs" {
		key = "id"
	}
	rows, err := db.QueryContext(t.Context(), `SELECT * FROM `+table+` WHERE `+key+` = ?`, id)
	require.NoError(t, err)
	defer rows.Close()
	names, err := rows.Columns()
	require.NoError(t, err)
	for rows.Next() {
		cells, dest := make([]any, len(names)), make([]any, len(names))
		for i := range cells {
			dest[i] = &cells[i]
		}
		require.NoError(t, rows.Scan(dest...))
		row := make(map[string]bool)
		for i, cell := range cells {
			text := fmt.Sprint(cell)
			row[names[i]] = text != "" && text != "0" && text != "false" // nil counts as set
		}
		out = append(out, row)
	}
	require.NoError(t, rows.Err())
	return out
}
