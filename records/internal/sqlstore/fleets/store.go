// Package fleets stores fleets and the ledgers of their instances.
package fleets

import (
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore/executors"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
)

// Store is the part of a records.Store that concerns fleets.
type Store struct {
	db     *sqldb.DB
	queued *sqldb.Shared[[]records.QueuedTasks] // by pool
}

// NewStore returns a Store in a database.
func NewStore(db *sqldb.DB) *Store {
	return &Store{db: db, queued: sqldb.NewShared[[]records.QueuedTasks](executors.SharedLifetime)}
}
