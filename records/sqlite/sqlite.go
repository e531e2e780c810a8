// Package sqlite stores the records in one SQLite file, which several processes
// of one machine may share.
package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/drover-run/drover/internal/durable"
	"github.com/drover-run/drover/internal/keyring"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

const (
	// busyTimeout is how long a write waits for a write of another process.
	// busyInterval is the interval at which it checks its context while it waits.
	busyTimeout  = 10 * time.Second
	busyInterval = 500 * time.Millisecond
	// lockRetry is how often a process tries to get the lock on migrations.
	lockRetry      = 10 * time.Millisecond
	defaultReaders = 4
)

//go:embed migrations/*.sql
var migrations embed.FS

// Options change how a Store works. The zero value is fit for use.
type Options struct {
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Observer is notified of commits; nil means none.
	Observer records.Observer
	// Keys encrypt secrets; nil means that they are stored in the clear.
	Keys *keyring.Ring
	// Logger logs background errors; nil discards them.
	Logger *slog.Logger
	// Readers is how many reads may run concurrently; 0 means 4.
	Readers int
}

// Store is a records.Store in a SQLite file.
type Store struct {
	*sqlstore.Store
}

var _ records.Store = (*Store)(nil)

// Open opens the file, which it creates if there is none, and migrates it to
// the schema of this build. Errors: unavailable (the file cannot be opened, or
// another process locks it for too long), not_supported (its schema is newer
// than this build). Close must be called.
func Open(ctx context.Context, path string, opts Options) (*Store, error) {
	if opts.Readers < 1 {
		opts.Readers = defaultReaders
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	db, err := sql.Open("sqlite", dsn(path))
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	schema, err := migrate(ctx, db, path)
	if err != nil {
		return nil, errors.Join(openError(path, err), db.Close())
	}
	hub := sqldb.NewHub()
	b, err := newBackend(ctx, db, hub, opts)
	if err != nil {
		return nil, errors.Join(openError(path, err), db.Close())
	}
	return &Store{Store: sqlstore.New(b, dialect(), schema, hub, sqldb.Options{Now: opts.Now, Observer: opts.Observer, Keys: opts.Keys})}, nil
}

// dsn returns the data source name, with the settings of every connection. The
// cache holds the pages that a busy store uses most. With synchronous(full) a
// commit survives a loss of power; concurrent calls share one.
func dsn(path string) string {
	q := url.Values{}
	for _, pragma := range []string{
		fmt.Sprintf("busy_timeout(%d)", busyInterval.Milliseconds()),
		"journal_mode(wal)", "synchronous(full)", "cache_size(-16384)", "temp_store(memory)",
		"journal_size_limit(67108864)",
		// The store checkpoints the log by itself; this applies if it cannot.
		"wal_autocheckpoint(10000)",
	} {
		q.Add("_pragma", pragma)
	}
	return (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: q.Encode()}).String()
}

// migrate migrates the file to the schema of this build, one process at a time.
func migrate(ctx context.Context, db *sql.DB, path string) (*sqldb.Schema, error) {
	if err := durable.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	lock := flock.New(path+".lock", flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, lockRetry); err != nil {
		return nil, fmt.Errorf("lock %s: %w", lock.Path(), err)
	}
	defer lock.Close()
	// The records hold secrets: only the owner may read them. SQLite gives the
	// files beside it the same mode.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	schema, err := sqldb.NewSchema(goose.DialectSQLite3, db, migrations)
	if err != nil {
		return nil, err
	}
	return schema, schema.Migrate(ctx)
}

func openError(path string, err error) error {
	if _, ok := errors.AsType[*run.Error](err); ok {
		return err
	}
	return sqldb.WithCause(run.CodeUnavailable, "the records store "+path+" cannot be opened", err)
}

func dialect() sqldb.Dialect {
	return sqldb.Dialect{
		Explain:   `EXPLAIN QUERY PLAN `,
		LastEvent: `SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'events'`,
		Code:      code,
	}
}

// code maps SQLite's errors to codes.
func code(err error) run.Code {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return ""
	}
	switch e.Code() {
	case sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_UNIQUE:
		return run.CodeConflict
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN,
		sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PROTOCOL:
		return run.CodeUnavailable
	case sqlite3.SQLITE_INTERRUPT:
		return run.CodeCanceled
	}
	return ""
}

// busy reports whether another process was writing for too long.
func busy(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_BUSY
}
