// Package sqlstore is the part of a records.Store that is the same for every
// SQL database. Its store consists of one store for each aggregate; package sqldb
// has what all of them need.
package sqlstore

import (
	"context"

	"github.com/drover-run/drover/records/internal/sqlstore/archives"
	"github.com/drover-run/drover/records/internal/sqlstore/audit"
	"github.com/drover-run/drover/records/internal/sqlstore/changegroups"
	"github.com/drover-run/drover/records/internal/sqlstore/events"
	"github.com/drover-run/drover/records/internal/sqlstore/executors"
	"github.com/drover-run/drover/records/internal/sqlstore/fleets"
	"github.com/drover-run/drover/records/internal/sqlstore/logs"
	"github.com/drover-run/drover/records/internal/sqlstore/outbox"
	"github.com/drover-run/drover/records/internal/sqlstore/rolegrants"
	"github.com/drover-run/drover/records/internal/sqlstore/runs"
	"github.com/drover-run/drover/records/internal/sqlstore/schedules"
	"github.com/drover-run/drover/records/internal/sqlstore/sessions"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/records/internal/sqlstore/tokens"
	"github.com/drover-run/drover/records/internal/sqlstore/webhooks"
	"github.com/drover-run/drover/run"
)

// The stores of the aggregates have names here, so that Store can embed them.
type (
	archiveStore     = archives.Store
	auditStore       = audit.Store
	changeGroupStore = changegroups.Store
	eventStore       = events.Store
	executorStore    = executors.Store
	fleetStore       = fleets.Store
	logStore         = logs.Store
	outboxStore      = outbox.Store
	roleGrantStore   = rolegrants.Store
	runStore         = runs.Store
	scheduleStore    = schedules.Store
	sessionStore     = sessions.Store
	tokenStore       = tokens.Store
	webhookStore     = webhooks.Store
)

// Store is a records.Store over a backend.
type Store struct {
	*archiveStore
	*auditStore
	*changeGroupStore
	*eventStore
	*executorStore
	*fleetStore
	*logStore
	*outboxStore
	*roleGrantStore
	*runStore
	*scheduleStore
	*sessionStore
	*tokenStore
	*webhookStore

	db *sqldb.DB
}

// New returns a Store. The backend's Committed must signal hub.
func New(b sqldb.Backend, d sqldb.Dialect, schema *sqldb.Schema, hub *sqldb.Hub, opts sqldb.Options) *Store {
	db := sqldb.New(b, d, schema, hub, opts)
	return &Store{
		archiveStore:     archives.NewStore(db),
		auditStore:       audit.NewStore(db),
		changeGroupStore: changegroups.NewStore(db),
		eventStore:       events.NewStore(db),
		executorStore:    executors.NewStore(db),
		fleetStore:       fleets.NewStore(db),
		logStore:         logs.NewStore(db),
		outboxStore:      outbox.NewStore(db),
		roleGrantStore:   rolegrants.NewStore(db),
		runStore:         runs.NewStore(db),
		scheduleStore:    schedules.NewStore(db),
		sessionStore:     sessions.NewStore(db),
		tokenStore:       tokens.NewStore(db),
		webhookStore:     webhooks.NewStore(db),
		db:               db,
	}
}

// Check implements records.Store.
func (s *Store) Check(ctx context.Context) error { return s.db.Check(ctx) }

// Close implements records.Store.
func (s *Store) Close() error { return s.db.Close() }

// Watch implements records.Events.
func (s *Store) Watch(id run.ID) (signal <-chan struct{}, stop func()) { return s.db.Watch(id) }
