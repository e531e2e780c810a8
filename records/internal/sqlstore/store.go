// Package sqlstore is the part of a records.Store that is the same for every
// SQL database. It writes portable SQL with ? for parameters. Dialect and
// Backend hold the differences, which packages sqlite and postgres supply.
package sqlstore

import (
	"context"
	"database/sql"
	"slices"
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

// Store is a records.Store over a Backend.
type Store struct {
	backend  Backend
	dialect  Dialect
	schema   *Schema
	hub      *Hub
	now      func() time.Time
	observer records.Observer // nil: none
	keys     *keyring.Ring
}

// Options are common to all kinds of Store.
type Options struct {
	Now      func() time.Time // nil: time.Now
	Observer records.Observer // nil: none
	Keys     *keyring.Ring    // nil: secrets are stored in the clear
}

// New returns a Store. The backend's Committed must signal hub.
func New(b Backend, d Dialect, schema *Schema, hub *Hub, opts Options) *Store {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Store{backend: b, dialect: d, schema: schema, hub: hub, now: opts.Now, observer: opts.Observer, keys: opts.Keys}
}

// Check implements records.Store.
func (s *Store) Check(ctx context.Context) error {
	return s.read(ctx, "check the records store", s.schema.check(ctx))
}

// Close implements records.Store.
func (s *Store) Close() error { return s.backend.Close() }

// OutboxWake implements records.Outbox.
func (s *Store) OutboxWake() <-chan struct{} { return s.hub.OutboxWake() }

// GarbageWake implements records.Garbage.
func (s *Store) GarbageWake() <-chan struct{} { return s.hub.GarbageWake() }

// Watch implements records.Events.
func (s *Store) Watch(id run.ID) (signal <-chan struct{}, stop func()) { return s.hub.Watch(id) }

// tx is a writing transaction.
type tx struct {
	Querier
	dialect *Dialect
	keys    *keyring.Ring
	now     int64
	events  []run.Event
	commit  Commit
	// values holds what packages keep for the transaction: one pointer of each type.
	values map[any]any
	// hooks run before the events are appended.
	hooks []func(context.Context) error
	// observed holds the calls of the observer for after the commit.
	observed []func(records.Observer)
}

// valueOf returns the value of a type that a package keeps for the transaction. It
// is zero at first.
func valueOf[T any](t *tx) *T {
	key := any((*T)(nil))
	if v, ok := t.values[key].(*T); ok {
		return v
	}
	if t.values == nil {
		t.values = make(map[any]any)
	}
	v := new(T)
	t.values[key] = v
	return v
}

// beforeCommit adds a function that runs in the transaction before it is committed.
func (t *tx) beforeCommit(fn func(context.Context) error) { t.hooks = append(t.hooks, fn) }

// write runs fn in a transaction, appends the events that fn emitted, and wakes
// the watchers of its changes. fn may run more than once.
func (s *Store) write(ctx context.Context, doing string, fn func(t *tx) error) error {
	var commit Commit
	var observed []func(records.Observer)
	err := s.backend.Write(ctx, func(q Querier) error {
		t := &tx{Querier: q, dialect: &s.dialect, keys: s.keys, now: s.now().UnixNano()}
		if err := fn(t); err != nil {
			return err
		}
		for _, hook := range t.hooks {
			if err := hook(ctx); err != nil {
				return err
			}
		}
		if err := t.appendEvents(ctx); err != nil {
			return err
		}
		commit, observed = t.commit, t.observed
		return nil
	})
	if err != nil {
		return s.wrap(doing, err)
	}
	if len(commit.Runs) > 0 || commit.Outbox {
		s.backend.Committed(commit)
	}
	if commit.Garbage {
		s.hub.SignalGarbage()
	}
	if commit.Packing {
		s.hub.SignalPacking()
	}
	if s.observer != nil {
		for _, report := range observed {
			report(s.observer)
		}
	}
	return nil
}

func (s *Store) read(ctx context.Context, doing string, fn func(q Querier) error) error {
	return s.wrap(doing, s.backend.Read(ctx, fn))
}

// markChanged marks the run as changed.
func (t *tx) markChanged(id run.ID) {
	if slices.Contains(t.commit.Runs, id) {
		return
	}
	t.commit.Runs = append(t.commit.Runs, id)
}

// toTime and fromTime convert between stored and Go times.
func toTime(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

func fromTime(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}
