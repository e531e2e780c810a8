package sqlstore

import (
	"context"

	"github.com/drover-run/drover/run"
)

// Groups implements records.Store.
func (s *Store) Groups(context.Context, run.GroupQuery) (run.GroupPage, error) {
	return run.GroupPage{}, errUnbuilt
}
