// Package fleets stores fleets and the ledgers of their instances.
package fleets

import "github.com/drover-run/drover/records/internal/sqlstore/sqldb"

// Store is the part of a records.Store that concerns fleets.
type Store struct{ db *sqldb.DB }

// NewStore returns a Store in a database.
func NewStore(db *sqldb.DB) *Store { return &Store{db: db} }
