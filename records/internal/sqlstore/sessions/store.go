// Package sessions stores the open sessions in tasks.
package sessions

import "github.com/drover-run/drover/records/internal/sqlstore/sqldb"

// Store is the part of a records.Store that concerns sessions.
type Store struct{ db *sqldb.DB }

// NewStore returns a Store in a database.
func NewStore(db *sqldb.DB) *Store { return &Store{db: db} }
