// Package postgres stores the records in a PostgreSQL database, which any
// number of processes may share.
package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/drover-run/drover/internal/keyring"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// The keys of the advisory locks. The database belongs to Drover alone.
const (
	lockMigrations = 0x64726f7665720001 // "drover" and a number
	lockSequencer  = 0x64726f7665720002
	lockSharing    = 0x64726f7665720003
	lockPools      = 0x64726f7665720004
)

// defaultMaxConns is enough for a busy process: transactions take milliseconds.
const defaultMaxConns = 16

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
	// CurrentDSN returns the connection string for a new connection; nil means that
	// of Open. Only its credentials and certificates may differ from that of Open.
	CurrentDSN func() string
	// Logger logs background errors; nil discards them.
	Logger *slog.Logger
	// MaxConns is how many connections calls may use; 0 means 16. Two more
	// announce and receive changes.
	MaxConns int
}

// Store is a records.Store in a PostgreSQL database.
type Store struct {
	*sqlstore.Store
}

var _ records.Store = (*Store)(nil)

// Open connects to the database of a connection string or URL, and migrates it
// to the schema of this build. Errors: invalid (the connection string),
// unavailable (the database does not answer), not_supported (its schema is
// newer than this build). Close must be called.
func Open(ctx context.Context, dsn string, opts Options) (*Store, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.MaxConns < 1 {
		opts.MaxConns = defaultMaxConns
	}
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, &run.Error{Code: run.CodeInvalid, Message: "the connection string of the records database cannot be read", Err: err}
	}
	tune(config)
	current := newConnector(config, dsn, opts)
	db := stdlib.OpenDB(*config, stdlib.OptionBeforeConnect(current.refresh))
	db.SetMaxOpenConns(opts.MaxConns)
	db.SetMaxIdleConns(opts.MaxConns)
	schema, err := migrate(ctx, db)
	if err != nil {
		return nil, errors.Join(openError(config, err), db.Close())
	}
	hub := sqldb.NewHub()
	b := newBackend(ctx, db, current, hub, opts.Logger)
	return &Store{Store: sqlstore.New(b, dialect(), schema, hub, sqldb.Options{Now: opts.Now, Observer: opts.Observer, Keys: opts.Keys})}, nil
}

// tune sets the settings of every connection. All statements are designed to
// use an index. Without table statistics the planner would choose otherwise,
// and compile statements that it estimates to be long.
func tune(config *pgx.ConnConfig) {
	for name, value := range map[string]string{
		"application_name": "drover", "enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off", "jit": "off",
	} {
		if _, set := config.RuntimeParams[name]; !set {
			config.RuntimeParams[name] = value
		}
	}
}

// migrate migrates the database to the schema of this build, one process at a
// time.
func migrate(ctx context.Context, db *sql.DB) (*sqldb.Schema, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	// The lock is released with the connection, which must not return to the
	// pool with the lock.
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, `SELECT pg_advisory_lock($1)`, int64(lockMigrations)); err != nil {
		return nil, fmt.Errorf("lock the schema: %w", err)
	}
	schema, err := sqldb.NewSchema(goose.DialectPostgres, db, migrations)
	if err == nil {
		err = schema.Migrate(ctx)
	}
	_, unlockErr := conn.ExecContext(context.WithoutCancel(ctx), `SELECT pg_advisory_unlock($1)`, int64(lockMigrations))
	return schema, errors.Join(err, unlockErr)
}

func openError(config *pgx.ConnConfig, err error) error {
	if _, ok := errors.AsType[*run.Error](err); ok {
		return err
	}
	return sqldb.WithCause(run.CodeUnavailable,
		fmt.Sprintf("the records database %s at %s:%d cannot be opened", config.Database, config.Host, config.Port), err)
}
