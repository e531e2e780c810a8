package postgres

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/drover-run/drover/internal/retry"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// A transaction that conflicts with another is tried maxTries times, after a
// pause that doubles from firstRetry to lastRetry.
const (
	maxTries   = 8
	firstRetry = 2 * time.Millisecond
	lastRetry  = 20 * time.Millisecond
)

// backend runs transactions, and announces their changes to other processes.
type backend struct {
	db     *sql.DB
	config *connector
	hub    *sqldb.Hub
	logger *slog.Logger
	name   string // identifies this process in notifications

	wake chan struct{} // signalled when an announcement is pending

	mu      sync.Mutex
	pending announcement

	stop       func()
	background sync.WaitGroup
	closed     atomic.Bool
	close      func() error // once
}

func newBackend(ctx context.Context, db *sql.DB, config *connector, hub *sqldb.Hub, logger *slog.Logger) *backend {
	b := &backend{db: db, config: config, hub: hub, logger: logger, name: rand.Text(), wake: make(chan struct{}, 1)}
	background, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	b.stop, b.close = func() { stop(sql.ErrConnDone) }, sync.OnceValue(b.closeAll)
	b.background.Go(func() { b.announce(background) })
	b.background.Go(func() { b.listen(background) })
	return b
}

// Close implements sqldb.Backend.
func (b *backend) Close() error { return b.close() }

func (b *backend) closeAll() error {
	b.closed.Store(true)
	b.stop()
	b.background.Wait()
	return b.db.Close()
}

// Write implements sqldb.Backend. Row locks order the transactions. Write
// retries those that deadlock.
func (b *backend) Write(ctx context.Context, fn func(sqldb.Querier) error) error {
	var last error
	_, _ = backoff.Retry(ctx, func() (struct{}, error) {
		if last = b.transact(ctx, nil, fn); retryable(last) {
			return struct{}{}, last
		}
		return struct{}{}, backoff.Permanent(last)
	}, backoff.WithBackOff(retry.Doubling(firstRetry, lastRetry)), backoff.WithMaxTries(maxTries), backoff.WithMaxElapsedTime(0))
	if ctx.Err() != nil && retryable(last) { // it ended during a pause
		return errors.Join(ctx.Err(), last)
	}
	return last
}

// Read implements sqldb.Backend.
func (b *backend) Read(ctx context.Context, fn func(sqldb.Querier) error) error {
	return b.transact(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}, fn)
}

func (b *backend) transact(ctx context.Context, opts *sql.TxOptions, fn func(sqldb.Querier) error) error {
	if b.closed.Load() {
		return sql.ErrConnDone
	}
	tx, err := b.db.BeginTx(ctx, opts)
	if err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	if err := fn(querier{tx}); err != nil {
		_ = tx.Rollback() // the connection is dropped if that fails
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// Committed implements sqldb.Backend.
func (b *backend) Committed(c sqldb.Commit) {
	b.hub.Signal(c.Runs...)
	if c.Outbox {
		b.hub.SignalOutbox()
	}
	b.mu.Lock()
	b.pending.add(c)
	b.mu.Unlock()
	b.wakeUp()
}

func (b *backend) wakeUp() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// querier is a transaction whose statements have ? for parameters.
type querier struct{ tx *sql.Tx }

func (q querier) Exec(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return q.tx.ExecContext(ctx, numbered(query), args...)
}

func (q querier) Query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return q.tx.QueryContext(ctx, numbered(query), args...)
}

func (q querier) QueryRow(ctx context.Context, query string, args ...any) sqldb.Row {
	return q.tx.QueryRowContext(ctx, numbered(query), args...)
}

// numbered replaces each ? of a statement by $1, $2 and so on. Statements have
// no ? in string literals.
func numbered(query string) string {
	var out strings.Builder
	out.Grow(len(query) + 32)
	n := 0
	for {
		before, after, found := strings.Cut(query, "?")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		n++
		out.WriteByte('$')
		out.WriteString(strconv.Itoa(n))
		query = after
	}
}

// announcement holds the changes to announce to other processes.
type announcement struct {
	runs   map[run.ID]struct{}
	events bool
	outbox bool
}

func (a *announcement) add(c sqldb.Commit) {
	if a.runs == nil {
		a.runs = make(map[run.ID]struct{})
	}
	for _, id := range c.Runs {
		a.runs[id] = struct{}{}
	}
	a.events = a.events || c.Events
	a.outbox = a.outbox || c.Outbox
}

func (a *announcement) empty() bool { return len(a.runs) == 0 && !a.events && !a.outbox }
