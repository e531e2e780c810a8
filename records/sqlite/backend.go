package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
)

// backend has one connection that writes and several that read, each with its
// own prepared statements: preparing costs more than running most of them.
type backend struct {
	db  *sql.DB
	hub *sqldb.Hub

	writes  writes
	writer  chan *session // holds the writing session while it is idle
	readers chan *session

	commits       atomic.Int64
	checkpointDue chan struct{} // signalled when the write-ahead log should be checkpointed

	stop       func()
	background sync.WaitGroup
	close      func() error // once
}

func newBackend(ctx context.Context, db *sql.DB, hub *sqldb.Hub, opts Options) (*backend, error) {
	b := &backend{
		db: db, hub: hub, writer: make(chan *session, 1), readers: make(chan *session, opts.Readers), checkpointDue: make(chan struct{}, 1),
	}
	b.writer <- &session{db: db}
	for range opts.Readers {
		b.readers <- &session{db: db, interruptible: true}
	}
	// The first use reveals whether the file can be used at all.
	if err := b.Write(ctx, func(sqldb.Querier) error { return nil }); err != nil {
		return nil, err
	}
	background, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	b.stop, b.close = func() { stop(sql.ErrConnDone) }, sync.OnceValue(b.closeAll)
	version := b.dataVersion(ctx)
	b.background.Go(func() { b.poll(background, version) })
	b.background.Go(func() { b.checkpoint(background, opts.Logger) })
	return b, nil
}

// Read implements sqldb.Backend.
func (b *backend) Read(ctx context.Context, fn func(sqldb.Querier) error) error {
	return withSession(ctx, b.readers, func(s *session) error { return s.transact(ctx, "BEGIN", fn) })
}

// withSession runs fn with a session of the pool.
func withSession(ctx context.Context, sessions chan *session, fn func(*session) error) error {
	if err := ctx.Err(); err != nil {
		return ctxError(ctx)
	}
	select {
	case s, ok := <-sessions:
		if !ok {
			return sql.ErrConnDone
		}
		defer func() { sessions <- s }()
		return fn(s)
	case <-ctx.Done():
		return ctxError(ctx)
	}
}

// ctxError returns why ctx has ended.
func ctxError(ctx context.Context) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); !errors.Is(cause, err) {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

// Committed implements sqldb.Backend.
func (b *backend) Committed(c sqldb.Commit) {
	b.hub.Signal(c.Runs...)
	if c.Outbox {
		b.hub.SignalOutbox()
	}
}

// Close implements sqldb.Backend. It waits for calls in progress.
func (b *backend) Close() error { return b.close() }

func (b *backend) closeAll() error {
	b.stop()
	b.background.Wait()
	var errs []error
	for _, sessions := range []chan *session{b.readers, b.writer} {
		for range cap(sessions) {
			s := <-sessions
			errs = append(errs, s.close())
		}
		close(sessions)
	}
	return errors.Join(append(errs, b.db.Close())...)
}

// session is a connection with its prepared statements. One call uses it at a
// time.
type session struct {
	db    *sql.DB
	conn  *sql.Conn
	stmts map[string]*sql.Stmt
	// interruptible interrupts a query when its context ends. That costs more
	// than most queries, so only sessions with possibly long queries have it.
	interruptible bool
}

// transact runs fn in a transaction. It checks ctx before each statement.
func (s *session) transact(ctx context.Context, begin string, fn func(sqldb.Querier) error) error {
	if err := s.connect(ctx); err != nil {
		return err
	}
	if err := s.begin(ctx, begin); err != nil {
		return err
	}
	detached := context.WithoutCancel(ctx)
	err := fn(s)
	if err == nil && ctx.Err() != nil {
		err = ctxError(ctx)
	}
	if err == nil {
		if _, err = s.Exec(detached, "COMMIT"); err == nil {
			return nil
		}
		err = fmt.Errorf("commit: %w", err)
	}
	if _, rollbackErr := s.Exec(detached, "ROLLBACK"); rollbackErr != nil {
		return s.broken(err)
	}
	return err
}

// begin begins a transaction. It waits while another process writes.
func (s *session) begin(ctx context.Context, begin string) error {
	deadline := time.Now().Add(busyTimeout)
	for {
		if err := s.tryBegin(ctx, deadline, begin); !errors.Is(err, errBusy) {
			return err
		}
	}
}

// errBusy reports that another process writes, and that the deadline has not
// passed.
var errBusy = errors.New("another process writes")

// tryBegin begins a transaction. It returns errBusy if the caller should try
// again.
func (s *session) tryBegin(ctx context.Context, deadline time.Time, begin string) error {
	_, err := s.Exec(ctx, begin)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctxError(ctx)
	case !busy(err) || time.Now().After(deadline):
		return s.broken(fmt.Errorf("begin transaction: %w", err))
	}
	return errBusy
}

func (s *session) connect(ctx context.Context) error {
	if s.conn != nil {
		return nil
	}
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	s.conn, s.stmts = conn, make(map[string]*sql.Stmt)
	return nil
}

// broken drops the connection, whose state is not known, so that the next use
// opens another. Closing it alone would return it to the pool, perhaps within a
// transaction.
func (s *session) broken(err error) error {
	if s.conn != nil {
		_ = s.closeStatements() // first: they use the connection
		_ = s.conn.Raw(func(any) error { return driver.ErrBadConn })
	}
	_ = s.close() // the caller reports the first error
	return err
}

func (s *session) closeStatements() error {
	var errs []error
	for _, stmt := range s.stmts {
		errs = append(errs, stmt.Close())
	}
	clear(s.stmts)
	return errors.Join(errs...)
}

func (s *session) close() error {
	if s.conn == nil {
		return nil
	}
	errs := []error{s.closeStatements()}
	errs = append(errs, s.conn.Close())
	s.conn, s.stmts = nil, nil
	return errors.Join(errs...)
}

// maxStatements bounds the prepared statements of a session: those of lists
// have as many forms as there are combinations of filters.
const maxStatements = 500

func (s *session) prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	if stmt := s.stmts[query]; stmt != nil {
		return stmt, nil
	}
	if len(s.stmts) >= maxStatements {
		for known, stmt := range s.stmts {
			_ = stmt.Close() // the statement is discarded
			delete(s.stmts, known)
			break
		}
	}
	stmt, err := s.conn.PrepareContext(ctx, query) // closed with the session
	if err != nil {
		return nil, fmt.Errorf("prepare %q: %w", query, err)
	}
	s.stmts[query] = stmt
	return stmt, nil
}

// Exec implements sqldb.Querier.
func (s *session) Exec(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, ctxError(ctx)
	}
	ctx = context.WithoutCancel(ctx)
	stmt, err := s.prepare(ctx, query)
	if err != nil {
		return nil, err
	}
	return stmt.ExecContext(ctx, args...)
}

// Query implements sqldb.Querier.
func (s *session) Query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if err := ctx.Err(); err != nil {
		return nil, ctxError(ctx)
	}
	detached := context.WithoutCancel(ctx)
	stmt, err := s.prepare(detached, query)
	if err != nil {
		return nil, err
	}
	if !s.interruptible {
		ctx = detached
	}
	return stmt.QueryContext(ctx, args...)
}

// QueryRow implements sqldb.Querier.
func (s *session) QueryRow(ctx context.Context, query string, args ...any) sqldb.Row {
	if err := ctx.Err(); err != nil {
		return failed{ctxError(ctx)}
	}
	ctx = context.WithoutCancel(ctx)
	stmt, err := s.prepare(ctx, query)
	if err != nil {
		return failed{err}
	}
	return stmt.QueryRowContext(ctx, args...)
}

// failed is the row of a query that could not be run.
type failed struct{ err error }

func (f failed) Scan(...any) error { return f.err }
