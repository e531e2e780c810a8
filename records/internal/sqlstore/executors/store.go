// Package executors stores executors and pools.
package executors

import "github.com/drover-run/drover/records/internal/sqlstore/sqldb"

// Store is the part of a records.Store that concerns executors.
type Store struct {
	db      *sqldb.DB
	waiting waitingLabels
}

// NewStore returns a Store in a database.
func NewStore(db *sqldb.DB) *Store {
	return &Store{db: db, waiting: waitingLabels{pools: map[string]*waitingPool{}}}
}
