package sqlstore

import (
	"context"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// DeleteRun implements records.Store.
func (s *Store) DeleteRun(context.Context, run.ID) error { return errUnbuilt }

// DeleteRuns implements records.Store.
func (s *Store) DeleteRuns(context.Context, run.DeleteQuery) (run.Deleted, error) {
	return run.Deleted{}, errUnbuilt
}

// TakeGarbage implements records.Store.
func (s *Store) TakeGarbage(context.Context, int) ([]records.GarbageBatch, error) { return nil, nil }

// DoneGarbage implements records.Store.
func (s *Store) DoneGarbage(context.Context, []records.GarbageBatch) error { return nil }
