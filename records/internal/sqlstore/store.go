// Package sqlstore is the part of a records.Store that is the same for every
// SQL database. It writes portable SQL with ? for parameters; what differs is
// in Dialect and Backend, which packages sqlite and postgres bring.
package sqlstore

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/drover-run/drover/keyring"
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
	// run fn again where the database asks for that.
	Write(ctx context.Context, fn func(Querier) error) error
	// Read runs fn on one snapshot.
	Read(ctx context.Context, fn func(Querier) error) error
	// Committed is called after each commit that changed something.
	Committed(c Commit)
	Close() error
}

// Commit says what a transaction has changed.
type Commit struct {
	Runs   []run.ID
	Events bool
	Outbox bool
	// Garbage and Packing are of concern for this process alone.
	Garbage bool
	Packing bool
}

// Dialect is how a database differs from others in its SQL.
type Dialect struct {
	// ForUpdate and SkipLocked follow a SELECT that locks its rows.
	ForUpdate  string
	SkipLocked string
	// KeepRow follows a SELECT whose rows others may not lock to change what
	// they are, such as that an executor is removed.
	KeepRow string
	// LockPools keeps others from putting and deleting pools, until the
	// transaction ends; "" where writers wait for each other anyway.
	LockPools string
	// LockSharing keeps others from changing which runs share logs, until the
	// transaction ends; "" where writers wait for each other anyway.
	LockSharing string
	// Explain precedes a SELECT whose plan is wanted.
	Explain string
	// LastEvent selects the greatest event number given.
	LastEvent string
	// Code returns the code of a driver's error, "" where it has none.
	Code func(err error) run.Code
}

// Store is a records.Store over a Backend.
type Store struct {
	backend Backend
	dialect Dialect
	schema  *Schema
	hub     *Hub
	now     func() time.Time
	watcher records.Observer // nil: nobody
	keys    *keyring.Ring
}

// Options are of a Store of any kind.
type Options struct {
	Now      func() time.Time // nil: time.Now
	Observer records.Observer // nil: nobody is told
	Keys     *keyring.Ring    // nil: secrets are stored in the clear
}

// New returns a Store. The backend's Committed is expected to signal hub.
func New(b Backend, d Dialect, schema *Schema, hub *Hub, opts Options) *Store {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Store{backend: b, dialect: d, schema: schema, hub: hub, now: opts.Now, watcher: opts.Observer, keys: opts.Keys}
}

// Check implements records.Store.
func (s *Store) Check(ctx context.Context) error {
	return s.read(ctx, "checking the records store", s.schema.check(ctx))
}

// Close implements records.Store.
func (s *Store) Close() error { return s.backend.Close() }

// OutboxWake implements records.Outbox.
func (s *Store) OutboxWake() <-chan struct{} { return s.hub.OutboxWake() }

// GarbageWake implements records.Garbage.
func (s *Store) GarbageWake() <-chan struct{} { return s.hub.GarbageWake() }

// Watch implements records.Events.
func (s *Store) Watch(id run.ID) (signal <-chan struct{}, stop func()) { return s.hub.Watch(id) }

// tx is a transaction that writes.
type tx struct {
	Querier
	dialect *Dialect
	keys    *keyring.Ring
	now     int64
	events  []run.Event
	groups  map[string]*groupRow // that are locked
	runs    map[run.ID]*runRow   // that are locked since they may have to give way
	members map[run.ID][]string  // the groups of runs, as far as they are known
	renewed []string             // groups whose versions change
	ticks   int64
	commit  Commit
	// observed is what the observer is told after the commit.
	observed []func(records.Observer)
}

// write runs fn in a transaction, appends the events that it emitted, and
// wakes those who wait for what it changed. fn may run more than once.
func (s *Store) write(ctx context.Context, doing string, fn func(t *tx) error) error {
	var commit Commit
	var observed []func(records.Observer)
	err := s.backend.Write(ctx, func(q Querier) error {
		t := &tx{Querier: q, dialect: &s.dialect, keys: s.keys, now: s.now().UnixNano()}
		if err := fn(t); err != nil {
			return err
		}
		if err := t.saveVersions(ctx); err != nil {
			return err
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
	if s.watcher != nil {
		for _, tell := range observed {
			tell(s.watcher)
		}
	}
	return nil
}

func (s *Store) read(ctx context.Context, doing string, fn func(q Querier) error) error {
	return s.wrap(doing, s.backend.Read(ctx, fn))
}

// touch notes that the run has changed.
func (t *tx) touch(id run.ID) {
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
