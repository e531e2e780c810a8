// Package runs stores runs and their tasks: creation, lists, claims, progress, restart and deletion.
package runs

import "github.com/drover-run/drover/records/internal/sqlstore/sqldb"

// Store is the part of a records.Store that concerns runs.
type Store struct {
	db *sqldb.DB
	// turn bounds the transactions that only evaluate conditions to one at a time.
	turn chan struct{}
}

// NewStore returns a Store in a database.
func NewStore(db *sqldb.DB) *Store { return &Store{db: db, turn: make(chan struct{}, 1)} }
