// Package outbox stores the outbox: what the dispatcher must do for committed changes.
package outbox

import "github.com/drover-run/drover/records/internal/sqlstore/sqldb"

// Store is the part of a records.Store that concerns the outbox.
type Store struct{ db *sqldb.DB }

// NewStore returns a Store in a database.
func NewStore(db *sqldb.DB) *Store { return &Store{db: db} }
