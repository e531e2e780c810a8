package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/drover-run/drover/internal/keyring"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/records/sqlite"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStore(t *testing.T) {
	t.Parallel()
	recordstest.Run(t, func(t *testing.T) fixture.Open {
		t.Helper()
		path := filepath.Join(t.TempDir(), "data", "drover.db")
		ring := recordstest.NewRing(t, "k")
		return func(t testing.TB, now func() time.Time, observer records.Observer) records.Store {
			t.Helper()
			s, err := sqlite.Open(t.Context(), path, sqlite.Options{Now: now, Observer: observer, Keys: ring})
			require.NoError(t, err)
			return s
		}
	})
}

func TestSealed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "drover.db")
	recordstest.RunSealed(t, func(keys *keyring.Ring) records.Store {
		s, err := sqlite.Open(t.Context(), path, sqlite.Options{Keys: keys})
		require.NoError(t, err)
		return s
	})
	for _, name := range []string{path, path + "-wal"} {
		data, err := os.ReadFile(name)
		if !os.IsNotExist(err) {
			require.NoError(t, err)
		}
		// The file also holds what was stored before there was a key, until its
		// pages are reused.
		require.Equal(t, name == path && len(data) > 0, strings.Contains(string(data), "drover-sealed:1:k2:"), name)
	}
}

// create creates a run with a secret through a store of its own.
func create(t *testing.T, path string) run.Run {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	of := &run.Spec{
		Name: "secretive", Group: "/a/b", Secrets: map[string]run.Secret{"TOKEN": "hunter2hunter2"},
		Registries: map[string]run.Registry{"r": {Username: "u", PasswordSecret: "TOKEN"}},
		Tasks:      map[string]*run.TaskSpec{"build": {Steps: []run.Step{{Run: "true"}}}},
	}
	x, faults := spec.Expand(of, nil)
	require.Empty(t, faults)
	r, err := s.CreateRun(t.Context(), records.NewRun{Spec: of, Plan: x.Plan, Tasks: x.Tasks})
	require.NoError(t, err)
	_, err = s.Begin(t.Context(), r.ID)
	require.NoError(t, err)
	_, err = s.Claim(t.Context(), run.ClaimRequest{Key: run.Key{Run: r.ID, Attempt: 1, Dispatch: 1}, Executor: "x", JournalID: "j"})
	require.NoError(t, err)
	return r
}

func raw(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func TestOpen_odd_path(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a b", "100%", "what?#x.db")
	create(t, path)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "the file holds secrets")
}

func TestOpen_newer_schema(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "drover.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	_, err = raw(t, path).ExecContext(t.Context(), "INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, 1)")
	require.NoError(t, err)
	require.Equal(t, run.CodeUnavailable, run.CodeOf(s.Check(t.Context())))
	_, err = sqlite.Open(t.Context(), path, sqlite.Options{})
	require.Equal(t, run.CodeNotSupported, run.CodeOf(err))
	require.ErrorContains(t, err, "newer than this build")
}

func TestOpen_no_database(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "drover.db")
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("this is no database ", 100)), 0o600))
	_, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	require.Equal(t, run.CodeUnavailable, run.CodeOf(err))
	require.ErrorContains(t, err, "file is not a database")
	_, err = sqlite.Open(t.Context(), filepath.Join(path, "below", "a.db"), sqlite.Options{})
	require.Equal(t, run.CodeUnavailable, run.CodeOf(err))
}

// TestStore_secrets_are_in_one_place scans every column of every table.
func TestStore_secrets_are_in_one_place(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "drover.db")
	create(t, path)
	require.Equal(t, []string{"run_secrets.secrets"}, columnsWith(t, path, "hunter2"))
}

// TestStore_delete_leaves_nothing deletes a run that ended with a warning.
func TestStore_delete_leaves_nothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "drover.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	require.NoError(t, err)
	of := &run.Spec{
		Name: "deleted", Group: "/a/b", Secrets: map[string]run.Secret{"TOKEN": "hunter2hunter2"}, Annotations: map[string]string{"k": "v"},
		Inputs: map[string]run.Input{"x": {Default: new("a")}}, InputValues: map[string]string{"x": "b"},
		Tasks: map[string]*run.TaskSpec{"build": {Steps: []run.Step{{Run: "true"}}, AllowFailure: true}},
	}
	x, faults := spec.Expand(of, nil)
	require.Empty(t, faults)
	r, err := s.CreateRun(t.Context(), records.NewRun{Spec: of, Source: of, Plan: x.Plan, Tasks: x.Tasks, Actor: "ann"})
	require.NoError(t, err)
	_, err = s.Begin(t.Context(), r.ID)
	require.NoError(t, err)
	_, err = s.Claim(t.Context(), run.ClaimRequest{Key: run.Key{Run: r.ID, Attempt: 1, Dispatch: 1}, Executor: "x", JournalID: "j"})
	require.NoError(t, err)
	_, _, err = s.Apply(t.Context(), r.ID, records.Changes{
		Tasks: []run.TaskChange{{Attempt: 1, Dispatch: 1, Status: run.StatusFailed}}, Result: run.ResultSuccess, Finish: true,
	})
	require.NoError(t, err)
	require.Subset(t, columnsWith(t, path, string(r.ID)), []string{"run_inputs.run_id", "run_warnings.run_id", "tasks.run_id"})
	require.NoError(t, s.DeleteRun(t.Context(), r.ID))
	require.Equal(t, []string{"counters.last_id", "events.run_id"}, columnsWith(t, path, string(r.ID)), "its id is that of the last run, and an event says that it was deleted")
	require.NoError(t, s.Close())
}

// columnsWith returns the columns that have a text in a value.
func columnsWith(t *testing.T, path, text string) []string {
	t.Helper()
	db := raw(t, path)
	rows, err := db.QueryContext(t.Context(), `SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table'`)
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	var columns [][2]string
	for rows.Next() {
		var c [2]string
		require.NoError(t, rows.Scan(&c[0], &c[1]))
		columns = append(columns, c)
	}
	require.NoError(t, rows.Err())
	var found []string
	for _, c := range columns {
		var n int
		require.NoError(t, db.QueryRowContext(t.Context(),
			fmt.Sprintf(`SELECT count(*) FROM %s WHERE CAST(%s AS TEXT) LIKE '%%%s%%'`, c[0], c[1], text)).Scan(&n))
		if n > 0 {
			found = append(found, c[0]+"."+c[1])
		}
	}
	return found
}

// TestStore_busy holds the write lock on another connection.
func TestStore_busy(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "drover.db")
	r := create(t, path)
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	conn, err := raw(t, path).Conn(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	_, err = conn.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	require.NoError(t, err)

	_, err = s.GetRun(t.Context(), r.ID)
	require.NoError(t, err, "reads continue")
	short, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, context.DeadlineExceeded)
	defer cancel()
	require.Equal(t, run.CodeTimeout, run.CodeOf(s.StopRun(short, r.ID, nil)))

	done := make(chan error, 1)
	go func() { done <- s.StopRun(t.Context(), r.ID, nil) }()
	_, err = conn.ExecContext(t.Context(), "ROLLBACK")
	require.NoError(t, err)
	require.NoError(t, <-done)
}

// TestStore_lists_many_groups_by_index: the runs of many groups are read from ranges of an
// index, each in the order of the list, and not all of them to sort them.
func TestStore_lists_many_groups_by_index(t *testing.T) {
	t.Parallel()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "drover.db"), sqlite.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	ranges := func(groups int) (n int) {
		var q run.ListQuery
		for i := range groups {
			q.Groups = append(q.Groups, fmt.Sprintf("/a/%d", i))
		}
		plan, err := s.PlanList(t.Context(), q)
		require.NoError(t, err)
		for _, step := range plan {
			if strings.HasPrefix(step, "SEARCH run_states ") {
				n++
			}
		}
		return n
	}
	one := ranges(1)
	require.Positive(t, one)
	for _, groups := range []int{2, 25, 26, 100} {
		require.Equal(t, groups*one, ranges(groups), "%d groups", groups)
	}
}

// TestStore_grants_without_the_writer searches a queue in which no run may be admitted, while
// another process writes.
func TestStore_grants_without_the_writer(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "drover.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{Readers: 1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	fixture.Limit(t, s, "full", 1, run.OnBusyQueue)
	for range 3 {
		fixture.Create(t, s, fixture.Grouped(3, "full", "open"))
	}
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	_, err = conn.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	require.NoError(t, err)
	granted, more, err := s.Grant(t.Context(), "open")
	require.NoError(t, err)
	require.Empty(t, granted)
	require.False(t, more)
	_, err = conn.ExecContext(t.Context(), "ROLLBACK")
	require.NoError(t, err)
}
