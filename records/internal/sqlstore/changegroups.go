package sqlstore

import (
	"context"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

var errUnbuilt = run.Errorf(run.CodeNotSupported, "it is not supported yet")

// ChangeGroups implements records.Store.
func (s *Store) ChangeGroups(context.Context, run.ChangeGroupQuery) ([]run.ChangeGroup, run.Token, error) {
	return nil, nil, errUnbuilt
}

// PutChangeGroup implements records.Store.
func (s *Store) PutChangeGroup(context.Context, run.ChangeGroup, run.Token) (run.ChangeGroup, run.Token, error) {
	return run.ChangeGroup{}, nil, errUnbuilt
}

// Grant implements records.Store.
func (s *Store) Grant(context.Context, string) ([]run.ID, bool, error) { return nil, false, errUnbuilt }

// Waits implements records.Store.
func (s *Store) Waits(context.Context, run.ID) ([]records.GroupWait, error) { return nil, nil }

// Places implements records.Store.
func (s *Store) Places(context.Context, run.ID) (map[int]int, error) { return nil, nil }
