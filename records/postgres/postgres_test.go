package postgres_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/drover-run/drover/internal/keyring"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/postgres"
	"github.com/drover-run/drover/records/recordstest"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

func TestMain(m *testing.M) {
	testenv.Parallel(3) // the tests mostly wait for the server
	goleak.VerifyTestMain(m)
}

func TestStore(t *testing.T) {
	t.Parallel()
	testenv.RequirePostgres(t) // reports once that there is no server
	recordstest.Run(t, func(t *testing.T) fixture.Open {
		t.Helper()
		dsn := testenv.RequirePostgres(t)
		ring := recordstest.NewRing(t, "k")
		return func(t testing.TB, now func() time.Time, observer records.Observer) records.Store {
			t.Helper()
			s, err := postgres.Open(t.Context(), dsn, postgres.Options{Now: now, Observer: observer, Keys: ring, MaxConns: 8})
			require.NoError(t, err)
			return s
		}
	})
}

func TestSealed(t *testing.T) {
	t.Parallel()
	dsn := testenv.RequirePostgres(t)
	recordstest.RunSealed(t, func(keys *keyring.Ring) records.Store {
		s, err := postgres.Open(t.Context(), dsn, postgres.Options{Keys: keys})
		require.NoError(t, err)
		return s
	})
}

func BenchmarkStore(b *testing.B) {
	recordstest.Bench(b, func(b *testing.B) records.Store {
		b.Helper()
		return open(b, testenv.RequirePostgres(b))
	})
}

func open(t testing.TB, dsn string) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), dsn, postgres.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func create(t testing.TB, s records.Store) run.Run {
	t.Helper()
	of := &run.Spec{Name: "x", Group: "/a/b", Tasks: map[string]*run.TaskSpec{"build": {Steps: []run.Step{{Run: "true"}}}}}
	x, faults := spec.Expand(of, nil)
	require.Empty(t, faults)
	r, err := s.CreateRun(t.Context(), records.NewRun{Spec: of, Plan: x.Plan, Tasks: x.Tasks})
	require.NoError(t, err)
	return r
}

func raw(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func TestOpen_newer_schema(t *testing.T) {
	t.Parallel()
	dsn := testenv.RequirePostgres(t)
	s := open(t, dsn)
	_, err := raw(t, dsn).ExecContext(t.Context(), "INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, true)")
	require.NoError(t, err)
	require.Equal(t, run.CodeUnavailable, run.CodeOf(s.Check(t.Context())))
	_, err = postgres.Open(t.Context(), dsn, postgres.Options{})
	require.Equal(t, run.CodeNotSupported, run.CodeOf(err))
	require.ErrorContains(t, err, "newer than this build")
}

func TestOpen_refused(t *testing.T) {
	t.Parallel()
	_, err := postgres.Open(t.Context(), "postgres://user:hunter2@127.0.0.1:1/db?connect_timeout=2", postgres.Options{})
	require.Equal(t, run.CodeUnavailable, run.CodeOf(err))
	require.ErrorContains(t, err, "the records database db at 127.0.0.1:1 cannot be opened: ")
	require.ErrorContains(t, err, "connection refused")
	require.NotContains(t, err.Error(), "hunter2")
	_, err = postgres.Open(t.Context(), "postgres://user:hunter2@:::/db?sslmode=perhaps", postgres.Options{})
	require.Equal(t, run.CodeInvalid, run.CodeOf(err))
	require.NotContains(t, err.Error(), "hunter2")
}

// TestStore_lost_connections ends every connection of a store, as a restart of
// the server does: the calls and the listener recover.
func TestStore_lost_connections(t *testing.T) {
	t.Parallel()
	dsn := testenv.RequirePostgres(t)
	local, remote := open(t, dsn), open(t, dsn)
	r := create(t, local)
	signal, stop := local.Watch(r.ID)
	defer stop()
	for range 3 {
		_, err := raw(t, dsn).ExecContext(t.Context(),
			"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'drover'")
		require.NoError(t, err)
		testenv.Await(t, func() (bool, string) {
			err := local.Check(t.Context())
			if err != nil {
				require.Equal(t, run.CodeUnavailable, run.CodeOf(err), "%v", err)
			}
			return err == nil, "checking: " + errText(err)
		})
		// The first signals may be those of the listener, which has connected again.
		for range 5 {
			testenv.Await(t, func() (bool, string) {
				err := remote.Annotate(t.Context(), r.ID, "", map[string]string{"a": "b"}, nil)
				return err == nil, "annotating: " + errText(err)
			})
			testenv.Receive(t, signal)
		}
	}
}

func errText(err error) string {
	if err == nil {
		return "no error"
	}
	return err.Error()
}

// TestStore_numbers_events_of_dead_processes numbers an event of a process that died
// between its commit and the numbering.
func TestStore_numbers_events_of_dead_processes(t *testing.T) {
	t.Parallel()
	dsn := testenv.RequirePostgres(t)
	s := open(t, dsn)
	r := create(t, s)
	await := func(want int64) {
		t.Helper()
		testenv.Await(t, func() (bool, string) {
			n, err := s.LastEvent(t.Context())
			require.NoError(t, err)
			return n == want, "waiting for the event's number"
		})
	}
	await(1)
	signal, stop := s.Watch(r.ID)
	defer stop()
	_, err := raw(t, dsn).ExecContext(t.Context(), `INSERT INTO events (type, at, run_id, group_path, phase, result, reason, task, status, attempt, executor)
		SELECT type, at, run_id, group_path, phase, result, reason, task, status, attempt, executor FROM events`)
	require.NoError(t, err)
	await(2)
	testenv.Receive(t, signal)
	require.Len(t, fixture.ReadAll(t, s, run.EventQuery{Run: r.ID}), 2)
}

// TestStore_late_commits commits transactions in another order than they began:
// a reader that continues from the last number that it saw misses none.
func TestStore_late_commits(t *testing.T) {
	t.Parallel()
	dsn := testenv.RequirePostgres(t)
	stores := []*postgres.Store{open(t, dsn), open(t, dsn)}
	var seen []run.Event
	read := func(want int) {
		t.Helper()
		testenv.Await(t, func() (bool, string) {
			page, err := stores[len(seen)%2].ReadEvents(t.Context(), run.EventQuery{After: int64(len(seen))}, 10)
			require.NoError(t, err)
			for _, e := range page.Events {
				seen = append(seen, e)
				require.Equal(t, int64(len(seen)), e.Number)
			}
			return len(seen) >= want, fmt.Sprintf("%d events of %d", len(seen), want)
		})
	}
	const rounds = 5
	var late []*sql.Tx
	for range rounds {
		// Its row has an id now, and commits after all rows that follow.
		tx, err := raw(t, dsn).BeginTx(t.Context(), nil)
		require.NoError(t, err)
		_, err = tx.ExecContext(t.Context(), `INSERT INTO events (type, at, run_id, group_path, phase, result, reason, task, status, attempt, executor)
			VALUES ('run', 1, 'late', '/a/b', 'queued', 'unknown', '', '', '', 0, '')`)
		require.NoError(t, err)
		late = append(late, tx)
		create(t, stores[0])
		create(t, stores[1])
		read(2 * len(late))
	}
	for i, tx := range slices.Backward(late) {
		require.NoError(t, tx.Commit())
		create(t, stores[i%2]) // its numbering includes the other's event
		read(2*rounds + 2*(rounds-i))
	}
	lates := 0
	for _, e := range seen {
		if e.Run == "late" {
			lates++
		}
	}
	require.Equal(t, rounds, lates)
}

// TestStore_many_runs_in_one_announcement needs more than one notification.
func TestStore_many_runs_in_one_announcement(t *testing.T) {
	t.Parallel()
	dsn := testenv.RequirePostgres(t)
	local, remote := open(t, dsn), open(t, dsn)
	// Announcements accumulate while this transaction holds the sequencer's
	// lock.
	tx, err := raw(t, dsn).BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), "SELECT pg_advisory_xact_lock($1)", int64(0x64726f7665720002))
	require.NoError(t, err)
	var signals []<-chan struct{}
	for range 400 {
		r := create(t, remote)
		signal, stop := local.Watch(r.ID)
		defer stop()
		signals = append(signals, signal)
	}
	n, err := local.LastEvent(t.Context())
	require.NoError(t, err)
	require.LessOrEqual(t, n, int64(1), "no number is given without the lock")
	require.NoError(t, tx.Rollback())
	for _, signal := range signals {
		testenv.Receive(t, signal)
	}
}

// TestStore_statement_timeout checks the codes of statements that the server
// cancels.
func TestStore_statement_timeout(t *testing.T) {
	t.Parallel()
	dsn := testenv.RequirePostgres(t)
	s := open(t, dsn)
	r := create(t, s)
	tx, err := raw(t, dsn).BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback()) }()
	_, err = tx.ExecContext(t.Context(), "SELECT 1 FROM runs WHERE id = $1 FOR UPDATE", string(r.ID))
	require.NoError(t, err)
	short, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, context.DeadlineExceeded)
	defer cancel()
	err = s.CancelRun(short, r.ID, nil)
	require.Equal(t, run.CodeTimeout, run.CodeOf(err), "%v", err)
	other := open(t, dsn+"&statement_timeout=100")
	err = other.CancelRun(t.Context(), r.ID, nil)
	require.Equal(t, run.CodeCanceled, run.CodeOf(err), "%v", err)
	require.NotContains(t, err.Error(), "secret")
}

// TestStore_finds_runs_of_earlier_versions by their warnings and inputs.
func TestStore_finds_runs_of_earlier_versions(t *testing.T) {
	t.Parallel()
	dsn := testenv.RequirePostgres(t)
	recordstest.RunFound(t, func() records.Store { return open(t, dsn) }, func(ctx context.Context, statement string, args ...any) error {
		_, err := raw(t, dsn).ExecContext(ctx, statement, args...)
		return err
	})
}
