// Package events stores events, in the order of their numbers.
package events

import "github.com/drover-run/drover/records/internal/sqlstore/sqldb"

// Store is the part of a records.Store that concerns events.
type Store struct {
	db *sqldb.DB
	// behind bounds the concurrent reads of groups that are far behind.
	behind chan struct{}
}

// NewStore returns a Store in a database.
func NewStore(db *sqldb.DB) *Store { return &Store{db: db, behind: make(chan struct{}, maxBehind)} }
