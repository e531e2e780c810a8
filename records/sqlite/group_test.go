package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
)

var errOwn = errors.New("the call's own error")

// grouped is a backend whose writing connection is held, so that calls wait.
type grouped struct {
	*backend
	t     *testing.T
	held  *session
	calls []chan error
}

func newGrouped(t *testing.T) *grouped {
	t.Helper()
	db, err := sql.Open("sqlite", dsn(filepath.Join(t.TempDir(), "drover.db")))
	require.NoError(t, err)
	b, err := newBackend(t.Context(), db, sqldb.NewHub(), Options{Readers: 1, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	require.NoError(t, b.Write(t.Context(), func(q sqldb.Querier) error {
		_, err := q.Exec(t.Context(), "CREATE TABLE lines (line TEXT NOT NULL)")
		return err
	}))
	return &grouped{backend: b, t: t, held: <-b.writer}
}

// call starts a call, and returns when it waits.
func (g *grouped) call(ctx context.Context, fn func(sqldb.Querier) error) {
	g.t.Helper()
	done := make(chan error, 1)
	g.calls = append(g.calls, done)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Errorf("panic: %v", p)
			}
		}()
		done <- g.Write(ctx, fn)
	}()
	testenv.Await(g.t, func() (bool, string) {
		g.writes.mu.Lock()
		defer g.writes.mu.Unlock()
		return len(g.writes.waiting) == len(g.calls), fmt.Sprintf("%d calls wait", len(g.writes.waiting))
	})
}

// release releases the connection, and returns the errors of the calls.
func (g *grouped) release() []error {
	g.t.Helper()
	g.writer <- g.held
	errs := make([]error, len(g.calls))
	for i, done := range g.calls {
		errs[i] = <-done
	}
	g.calls = nil
	return errs
}

func (g *grouped) insert(ctx context.Context, q sqldb.Querier, line string) error {
	_, err := q.Exec(ctx, "INSERT INTO lines (line) VALUES (?)", line)
	return err
}

func count(ctx context.Context, q sqldb.Querier) (n int, err error) {
	err = q.QueryRow(ctx, "SELECT count(*) FROM lines").Scan(&n)
	return n, err
}

// committed returns how many lines a reader sees.
func (g *grouped) committed() (n int) {
	g.t.Helper()
	require.NoError(g.t, g.Read(g.t.Context(), func(q sqldb.Querier) (err error) {
		n, err = count(g.t.Context(), q)
		return err
	}))
	return n
}

func TestWrite_calls_that_wait_share_a_commit(t *testing.T) {
	t.Parallel()
	g := newGrouped(t)
	ctx := t.Context()
	for _, line := range []string{"a", "b"} {
		g.call(ctx, func(q sqldb.Querier) error { return g.insert(ctx, q, line) })
	}
	g.call(ctx, func(q sqldb.Querier) error { return errors.Join(g.insert(ctx, q, "failed"), errOwn) })
	ending, end := context.WithCancelCause(ctx)
	g.call(ending, func(q sqldb.Querier) error {
		err := g.insert(ctx, q, "ended")
		end(errOwn)
		return err
	})
	inside, outside := 0, 0
	g.call(ctx, func(q sqldb.Querier) (err error) {
		outside = g.committed() //nolint:contextcheck // it reads with the context of the test
		inside, err = count(ctx, q)
		return errors.Join(err, g.insert(ctx, q, "c"))
	})
	errs := g.release()
	require.NoError(t, errors.Join(errs[0], errs[1], errs[4]))
	require.ErrorIs(t, errs[2], errOwn)
	require.ErrorIs(t, errs[3], context.Canceled)
	require.Equal(t, 2, inside, "a call sees the calls before it, but not the failed ones")
	require.Zero(t, outside, "nothing is visible before the one commit")
	require.Equal(t, 3, g.committed())
}

func TestWrite_call_canceled_while_it_waits(t *testing.T) {
	t.Parallel()
	g := newGrouped(t)
	ctx, end := context.WithCancelCause(t.Context())
	g.call(ctx, func(q sqldb.Querier) error { return g.insert(t.Context(), q, "never") })
	end(errOwn)
	require.ErrorIs(t, <-g.calls[0], errOwn)
	g.calls = nil
	g.call(t.Context(), func(q sqldb.Querier) error { return g.insert(t.Context(), q, "a") })
	require.NoError(t, errors.Join(g.release()...))
	require.Equal(t, 1, g.committed())
}

// TestWrite_transaction_is_lost checks that no call of a group succeeds if
// SQLite rolls back their transaction, as it does after some errors.
func TestWrite_transaction_is_lost(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(q sqldb.Querier) error{
		"ended": func(q sqldb.Querier) error {
			_, err := q.Exec(t.Context(), "ROLLBACK")
			return err
		},
		"panic": func(sqldb.Querier) error {
			var none *session
			none.stmts = nil
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGrouped(t)
			g.call(t.Context(), func(q sqldb.Querier) error { return g.insert(t.Context(), q, "a") })
			g.call(t.Context(), fault)
			g.call(t.Context(), func(q sqldb.Querier) error { return g.insert(t.Context(), q, "b") })
			for _, err := range g.release() {
				require.Error(t, err)
			}
			require.Zero(t, g.committed())
			require.NoError(t, g.Write(t.Context(), func(q sqldb.Querier) error { return g.insert(t.Context(), q, "c") }))
			require.Equal(t, 1, g.committed())
		})
	}
}
