package sqldb

import (
	"context"
	"slices"

	"github.com/drover-run/drover/internal/keyring"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// Tx is a writing transaction.
type Tx struct {
	Querier
	Dialect *Dialect
	Keys    *keyring.Ring
	Now     int64
	events  []run.Event
	Commit  Commit
	// values holds what packages keep for the transaction: one pointer of each type.
	values map[any]any
	// hooks run before the events are appended.
	hooks []func(context.Context) error
	// observed holds the calls of the observer for after the commit.
	observed []func(records.Observer)
}

// ValueOf returns the value of a type that a package keeps for the transaction. It
// is zero at first.
func ValueOf[T any](t *Tx) *T {
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

// BeforeCommit adds a function that runs in the transaction before it is committed.
func (t *Tx) BeforeCommit(fn func(context.Context) error) { t.hooks = append(t.hooks, fn) }

// Write runs fn in a transaction, appends the events that fn emitted, and wakes
// the watchers of its changes. fn may run more than once.
func (db *DB) Write(ctx context.Context, doing string, fn func(t *Tx) error) error {
	var commit Commit
	var observed []func(records.Observer)
	err := db.backend.Write(ctx, func(q Querier) error {
		t := &Tx{Querier: q, Dialect: &db.Dialect, Keys: db.Keys, Now: db.Now().UnixNano()}
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
		commit, observed = t.Commit, t.observed
		return nil
	})
	if err != nil {
		return db.Wrap(doing, err)
	}
	if len(commit.Runs) > 0 || commit.Outbox {
		db.backend.Committed(commit)
	}
	if commit.Garbage {
		db.Hub.SignalGarbage()
	}
	if commit.Packing {
		db.Hub.SignalPacking()
	}
	if db.observer != nil {
		for _, report := range observed {
			report(db.observer)
		}
	}
	return nil
}

// MarkChanged marks the run as changed.
func (t *Tx) MarkChanged(id run.ID) {
	if slices.Contains(t.Commit.Runs, id) {
		return
	}
	t.Commit.Runs = append(t.Commit.Runs, id)
}

// Observe queues a call of the observer for after the commit.
func (t *Tx) Observe(report func(records.Observer)) { t.observed = append(t.observed, report) }
