// Package executors stores executors and pools.
package executors

import (
	"time"

	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
)

// Clients, executors and fleets count executors and tasks as often as they like. If there
// are many, they are counted at most once in a SharedLifetime, for all callers.
const (
	SharedLifetime = time.Second
	// MaxCounted is how many tasks each caller counts, and maxServing how many executors it
	// reads.
	MaxCounted = 2_000
	maxServing = 200
)

// Store is the part of a records.Store that concerns executors.
type Store struct {
	db        *sqldb.DB
	waiting   *sqldb.Shared[waitingLabels] // by pool
	executors *sqldb.Shared[serving]
	tasks     *sqldb.Shared[map[string]taskCounts] // of one pool by its name, of all by ""
}

// NewStore returns a Store in a database.
func NewStore(db *sqldb.DB) *Store {
	return &Store{
		db:        db,
		waiting:   sqldb.NewShared[waitingLabels](labelsReread),
		executors: sqldb.NewShared[serving](SharedLifetime),
		tasks:     sqldb.NewShared[map[string]taskCounts](SharedLifetime),
	}
}
