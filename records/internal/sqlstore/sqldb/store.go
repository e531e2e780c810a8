// Package sqldb has what all stores of aggregates need: transactions with their
// events and outbox rows, the hub that wakes watchers, migrations, sealing, and
// helpers for statements. It writes portable SQL with ? for parameters. Dialect and
// Backend hold the differences, which packages sqlite and postgres supply.
package sqldb

import (
	"context"
	"database/sql"
	"time"

	"github.com/drover-run/drover/internal/keyring"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// Querier runs statements in one transaction.
type Querier interface {
	Exec(ctx context.Context, query string, args ...any) (sql.Result, error)
	Query(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRow(ctx context.Context, query string, args ...any) Row
}

// Row is the only row of a query. Scan returns sql.ErrNoRows where there is none.
type Row interface {
	Scan(dest ...any) error
}

// Backend runs transactions.
type Backend interface {
	// Write runs fn in a transaction and commits it if fn returns nil. It may
	// run fn again if the database requires that.
	Write(ctx context.Context, fn func(Querier) error) error
	// Read runs fn on one snapshot.
	Read(ctx context.Context, fn func(Querier) error) error
	// Committed is called after each commit that changed something.
	Committed(c Commit)
	Close() error
}

// Commit describes the changes of a transaction.
type Commit struct {
	Runs   []run.ID
	Events bool
	Outbox bool
	// Garbage and Packing concern this process only.
	Garbage bool
	Packing bool
}

// Dialect holds the SQL that differs between databases.
type Dialect struct {
	// ForUpdate and SkipLocked follow a SELECT that locks its rows.
	ForUpdate  string
	SkipLocked string
	// ForKeyShare follows a SELECT whose rows others may not lock for update until
	// the transaction ends, so that an executor is not removed meanwhile.
	ForKeyShare string
	// LockPools keeps others from putting and deleting pools until the
	// transaction ends; "" if the database serializes writers.
	LockPools string
	// LockSharing keeps others from changing which runs share logs until the
	// transaction ends; "" if the database serializes writers.
	LockSharing string
	// Explain precedes a SELECT to get its query plan.
	Explain string
	// LastEvent selects the greatest event number.
	LastEvent string
	// Code returns the code of a driver's error, "" where it has none.
	Code func(err error) run.Code
}

// DB runs the transactions of all stores on a Backend.
type DB struct {
	backend  Backend
	Dialect  Dialect
	schema   *Schema
	Hub      *Hub
	Now      func() time.Time
	observer records.Observer // nil: none
	Keys     *keyring.Ring
}

// Options are common to all kinds of Store.
type Options struct {
	Now      func() time.Time // nil: time.Now
	Observer records.Observer // nil: none
	Keys     *keyring.Ring    // nil: secrets are stored in the clear
}

// New returns a DB. The backend's Committed must signal hub.
func New(b Backend, d Dialect, schema *Schema, hub *Hub, opts Options) *DB {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &DB{backend: b, Dialect: d, schema: schema, Hub: hub, Now: opts.Now, observer: opts.Observer, Keys: opts.Keys}
}

// Check returns unavailable if the schema is not the one of this build.
func (db *DB) Check(ctx context.Context) error {
	return db.Read(ctx, "check the records store", db.schema.check(ctx))
}

// Close closes the backend.
func (db *DB) Close() error { return db.backend.Close() }

// Watch signals the changes of a run, or of what has an id with a prefix.
func (db *DB) Watch(id run.ID) (signal <-chan struct{}, stop func()) { return db.Hub.Watch(id) }

// Read runs fn on one snapshot. Errors have codes, and name what the call was doing.
func (db *DB) Read(ctx context.Context, doing string, fn func(q Querier) error) error {
	return db.Wrap(doing, db.backend.Read(ctx, fn))
}
