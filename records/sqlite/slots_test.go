package sqlite

import (
	"context"
	"database/sql"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

// recording is a backend that keeps the statements of its writes.
type recording struct {
	*backend

	mu         sync.Mutex
	statements []string
}

func (b *recording) Write(ctx context.Context, fn func(sqldb.Querier) error) error {
	return b.backend.Write(ctx, func(q sqldb.Querier) error { return fn(recorded{q, b}) })
}

// during returns how many statements of the writes of fn contain a text.
func (b *recording) during(fn func()) (count func(text string) int) {
	b.mu.Lock()
	b.statements = nil
	b.mu.Unlock()
	fn()
	return func(text string) (n int) {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, s := range b.statements {
			if strings.Contains(s, text) {
				n++
			}
		}
		return n
	}
}

type recorded struct {
	sqldb.Querier

	b *recording
}

func (r recorded) keep(query string) {
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	r.b.statements = append(r.b.statements, query)
}

func (r recorded) Exec(ctx context.Context, query string, args ...any) (sql.Result, error) {
	r.keep(query)
	return r.Querier.Exec(ctx, query, args...)
}

func (r recorded) Query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	r.keep(query)
	return r.Querier.Query(ctx, query, args...)
}

func (r recorded) QueryRow(ctx context.Context, query string, args ...any) sqldb.Row {
	r.keep(query)
	return r.Querier.QueryRow(ctx, query, args...)
}

// openRecording opens a store and its database.
func openRecording(t *testing.T) (*sqlstore.Store, *recording, *sql.DB) {
	path := filepath.Join(t.TempDir(), "drover.db")
	db, err := sql.Open("sqlite", dsn(path))
	require.NoError(t, err)
	schema, err := migrate(t.Context(), db, path)
	require.NoError(t, err)
	hub := sqldb.NewHub()
	inner, err := newBackend(t.Context(), db, hub, Options{Readers: 1, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	b := &recording{backend: inner}
	s := sqlstore.New(b, dialect(), schema, hub, sqldb.Options{})
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	raw, err := sql.Open("sqlite", dsn(path))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, raw.Close()) })
	return s, b, raw
}

// slotsOf returns a run of some tasks, of which each takes a slot of a change group, if it is
// not "".
func slotsOf(group string, width int) *run.Spec {
	spec := fixture.Wide("/a/b", width)
	if group != "" {
		spec.Tasks["all"].ChangeGroups = []run.TaskChangeGroup{{Name: group}}
	}
	return spec
}

// wait makes tasks of a run wait for their slots, and returns those that hold theirs.
func wait(t *testing.T, s records.Store, id run.ID, tasks ...int) []int {
	t.Helper()
	var c records.Changes
	for _, task := range tasks {
		c.Tasks = append(c.Tasks, run.TaskChange{Task: task, Status: run.StatusWaitingChangeGroup})
	}
	progress, _ := fixture.Apply(t, s, id, c)
	return progress.Granted
}

func beginSlots(t *testing.T, s records.Store, spec *run.Spec) run.ID {
	t.Helper()
	id := fixture.Create(t, s, spec).ID
	fixture.Begin(t, s, id)
	return id
}

func countRows(t *testing.T, db *sql.DB, where string, args ...any) (n int) {
	t.Helper()
	require.NoError(t, db.QueryRowContext(t.Context(), `SELECT count(*) FROM `+where, args...).Scan(&n))
	return n
}

// TestStore_slots_left_behind ends tasks and runs as a process does that does not know the slots
// of tasks. Their rows do not count, and those that wait get what is free.
func TestStore_slots_left_behind(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string][]string{
		"final task":  {`UPDATE tasks SET status = 'failed' WHERE run_id = ?`},
		"deleted run": {`DELETE FROM tasks WHERE run_id = ?`, `DELETE FROM runs WHERE id = ?`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _, db := openRecording(t)
			fixture.Limit(t, s, "g", 1, run.OnBusyQueue)
			a, b := beginSlots(t, s, slotsOf("g", 1)), beginSlots(t, s, slotsOf("g", 1))
			require.Equal(t, []int{0}, wait(t, s, a, 0))
			require.Empty(t, wait(t, s, b, 0))
			fixture.Drain(t, s)
			for _, statement := range leave {
				_, err := db.ExecContext(t.Context(), statement, a)
				require.NoError(t, err)
			}
			groups, _, err := s.ChangeGroups(t.Context(), run.ChangeGroupQuery{Names: []string{"g"}})
			require.NoError(t, err)
			require.Empty(t, groups[0].HoldingTasks)
			granted, _, err := s.Grant(t.Context(), "g")
			require.NoError(t, err)
			require.Equal(t, []records.Grant{{Run: b, Task: 0}}, granted, "what the task has left does not count")

			// Nothing would tell the tasks that wait.
			c := beginSlots(t, s, slotsOf("g", 1))
			require.Empty(t, wait(t, s, c, 0))
			fixture.Drain(t, s)
			_, err = db.ExecContext(t.Context(), `UPDATE tasks SET status = 'failed' WHERE run_id = ?`, b)
			require.NoError(t, err)
			swept, err := s.SweepSlots(t.Context(), 10)
			require.NoError(t, err)
			require.Equal(t, 2, swept)
			require.Equal(t, 1, countRows(t, db, `task_slots`))
			require.Contains(t, fixture.Drain(t, s), records.OutboxGrant)
			granted, _, err = s.Grant(t.Context(), "g")
			require.NoError(t, err)
			require.Equal(t, []records.Grant{{Run: c, Task: 0}}, granted)
			swept, err = s.SweepSlots(t.Context(), 10)
			require.NoError(t, err)
			require.Zero(t, swept)
		})
	}
}

// TestStore_slots_not_told loses what would have told a task of its slots, as a process does
// that does not know them: it handles a grant, and grants nothing to tasks; it admits a run of
// a group and enqueues no grant; it notifies a workflow that does not ask; it writes that a
// task waits, and gives it no place in the queue.
func TestStore_slots_not_told(t *testing.T) {
	t.Parallel()
	s, _, db := openRecording(t)
	exec := func(query string, args ...any) {
		t.Helper()
		_, err := db.ExecContext(t.Context(), query, args...)
		require.NoError(t, err)
	}
	sweep := func() (outbox []records.OutboxKind) {
		t.Helper()
		n, err := s.SweepSlots(t.Context(), 10)
		require.NoError(t, err)
		require.Zero(t, n)
		return fixture.Drain(t, s)
	}
	resume := func(overdue time.Duration) int {
		t.Helper()
		n, err := s.ResumeSlotWaits(t.Context(), overdue, 10)
		require.NoError(t, err)
		return n
	}
	fixture.Limit(t, s, "g", 1, run.OnBusyQueue)
	a, b := beginSlots(t, s, slotsOf("g", 1)), beginSlots(t, s, slotsOf("g", 1))
	require.Equal(t, []int{0}, wait(t, s, a, 0))
	require.Empty(t, wait(t, s, b, 0))
	fixture.Drain(t, s)
	require.Empty(t, sweep(), "the group is full")

	// A grant that was handled in vain.
	fixture.Apply(t, s, a, records.Changes{Tasks: []run.TaskChange{{Task: 0, Status: run.StatusSuccess}}, Result: run.ResultSuccess, Finish: true})
	require.Contains(t, fixture.Drain(t, s), records.OutboxGrant)
	require.Equal(t, []records.OutboxKind{records.OutboxGrant}, sweep())
	_, err := s.SweepSlots(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, []records.OutboxKind{records.OutboxGrant}, sweep(), "once, as long as it is not handled")
	granted, _, err := s.Grant(t.Context(), "g")
	require.NoError(t, err)
	require.Equal(t, []records.Grant{{Run: b, Task: 0}}, granted)
	require.Equal(t, []records.OutboxKind{records.OutboxSlots}, fixture.Drain(t, s))
	require.Empty(t, sweep())

	// A workflow that was not notified.
	require.Zero(t, resume(time.Hour), "its workflow may be about to queue it")
	require.Empty(t, fixture.Drain(t, s))
	require.Equal(t, 1, resume(0))
	require.Equal(t, 1, resume(0))
	require.Equal(t, []records.OutboxKind{records.OutboxSlots}, fixture.Drain(t, s))
	fixture.Apply(t, s, b, records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 1, 1)}})
	require.Zero(t, resume(0), "it is queued")

	// Tasks without a place.
	c := beginSlots(t, s, slotsOf("g", 2))
	exec(`UPDATE tasks SET status = 'waiting_changegroup' WHERE run_id = ?`, c)
	exec(`UPDATE runs SET counts = '{"waiting_changegroup":2}' WHERE id = ?`, c)
	require.Empty(t, wait(t, s, c, 0))
	require.Equal(t, 1, countRows(t, db, `task_slots WHERE run_id = ? AND state = 'waiting'`, c), "the workflow writes it again")
	require.Equal(t, 1, resume(time.Hour), "or never again")
	require.Equal(t, 2, countRows(t, db, `task_slots WHERE run_id = ? AND state = 'waiting'`, c))
	require.Zero(t, resume(time.Hour))

	// A greater limit, set by a process that looks at runs alone.
	fixture.Drain(t, s)
	exec(`UPDATE changegroups SET max_running = 2 WHERE name = 'g'`)
	require.Equal(t, []records.OutboxKind{records.OutboxGrant}, sweep())

	// None of it is for runs that have ended.
	require.NoError(t, s.CloseLost(t.Context(), c, "lost"))
	exec(`UPDATE tasks SET status = 'waiting_changegroup' WHERE run_id = ?`, c)
	require.Zero(t, resume(0))
}

// TestStore_slots_at_the_end_of_a_run releases what tasks of the run have left behind that have
// ended before, in each way in which a run ends.
func TestStore_slots_at_the_end_of_a_run(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(s records.Store, id run.ID) error{
		"finished": func(s records.Store, id run.ID) error {
			_, _, err := s.Apply(context.Background(), id, records.Changes{
				Tasks: []run.TaskChange{{Task: 1, Status: run.StatusSuccess}}, Result: run.ResultSuccess, Finish: true,
			})
			return err
		},
		"lost": func(s records.Store, id run.ID) error { return s.CloseLost(context.Background(), id, "lost") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _, db := openRecording(t)
			fixture.Limit(t, s, "g", 2, run.OnBusyQueue)
			a, b := beginSlots(t, s, slotsOf("g", 2)), beginSlots(t, s, slotsOf("g", 2))
			require.Equal(t, []int{0, 1}, wait(t, s, a, 0, 1))
			require.Empty(t, wait(t, s, b, 0, 1))
			_, err := db.ExecContext(t.Context(), `UPDATE tasks SET status = 'failed' WHERE run_id = ? AND number = 0`, a)
			require.NoError(t, err)
			_, err = db.ExecContext(t.Context(), `UPDATE runs SET counts = '{"failed":1,"waiting_changegroup":1}' WHERE id = ?`, a)
			require.NoError(t, err)
			require.NoError(t, end(s, a))
			require.Zero(t, countRows(t, db, `task_slots WHERE run_id = ?`, a))
			granted, _, err := s.Grant(t.Context(), "g")
			require.NoError(t, err)
			require.Equal(t, []records.Grant{{Run: b, Task: 0}, {Run: b, Task: 1}}, granted)
		})
	}
}

// TestStore_circle_with_a_run_of_an_older_process admits a run although an older process has
// ended another one and has left its groups as they were.
func TestStore_circle_with_a_run_of_an_older_process(t *testing.T) {
	t.Parallel()
	s, _, db := openRecording(t)
	spec := slotsOf("g", 1)
	spec.ChangeGroups = []string{"h"}
	old := beginSlots(t, s, spec)
	other := slotsOf("h", 1)
	_, err := s.CreateRun(t.Context(), fixture.NewRun(t, other))
	fixture.RequireCode(t, run.CodeChangeGroupBusy, err)
	_, err = db.ExecContext(t.Context(), `UPDATE runs SET phase = 'finished' WHERE id = ?`, old)
	require.NoError(t, err)
	fixture.Create(t, s, other)
}

// TestStore_slots_cost bounds what the slots of some tasks cost the others of their run.
func TestStore_slots_cost(t *testing.T) {
	t.Parallel()
	s, b, db := openRecording(t)
	fixture.Limit(t, s, "g", 1, run.OnBusyQueue)
	spec := slotsOf("g", 200)
	spec.Tasks["plain"] = &run.TaskSpec{Pool: "linux", Steps: []run.Step{{Run: "true"}}}
	id := beginSlots(t, s, spec)
	plain := -1
	for _, x := range fixture.Get(t, s, id).Tasks {
		if x.Name == "plain" {
			plain = x.Number
		}
	}
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{fixture.Queued(plain, 1, 1)}})
	count := b.during(func() {
		fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{fixture.Ended(plain, 1, 1, run.StatusSuccess)}})
	})
	require.Positive(t, count(`UPDATE runs`))
	require.Zero(t, count(`FROM changegroups`), "the end of a task without slots locks no change group")
	require.Zero(t, count(`state = 'holding'`), "nor does it read who holds slots")

	var all []int
	for task := range 201 {
		if task != plain {
			all = append(all, task)
		}
	}
	wait(t, s, id, all...)
	fixture.Limit(t, s, "g", 100, run.OnBusyQueue)
	count = b.during(func() {
		granted, more, err := s.Grant(t.Context(), "g")
		require.NoError(t, err)
		require.True(t, more)
		require.Len(t, granted, 50)
	})
	require.Equal(t, 1, count(`UPDATE runs`), "one write of the run for all of its tasks")
	require.Equal(t, 1, count(`INSERT INTO outbox`))

	// The tasks that hold slots are found by index, however many others there are.
	require.Equal(t, []string{"SEARCH task_slots USING COVERING INDEX task_slots_run (run_id=? AND state=?)"},
		planOf(t, db, `SELECT task FROM task_slots WHERE run_id = ? AND state = 'holding'`, id))

	// So are those of a group that are counted.
	b.during(func() { fixture.Limit(t, s, "g", 100, run.OnBusyQueue) })
	i := slices.IndexFunc(b.statements, func(s string) bool { return strings.Contains(s, `GROUP BY s.name, s.state`) })
	require.GreaterOrEqual(t, i, 0)
	require.Contains(t, strings.Join(planOf(t, db, b.statements[i], "g"), "\n"), "SEARCH s USING COVERING INDEX task_slots_queue (name=?)")
}

// planOf returns how SQLite runs a statement.
func planOf(t *testing.T, db *sql.DB, query string, args ...any) []string {
	t.Helper()
	var plan []string
	rows, err := db.QueryContext(t.Context(), `EXPLAIN QUERY PLAN `+query, args...)
	require.NoError(t, err)
	for rows.Next() {
		var n int
		var step string
		require.NoError(t, rows.Scan(&n, &n, &n, &step))
		plan = append(plan, step)
	}
	require.NoError(t, rows.Err())
	require.NoError(t, rows.Close())
	return plan
}
