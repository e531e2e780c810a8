package sqlstore

import (
	"context"

	"github.com/drover-run/drover/run"
)

var errUnbuilt = run.Errorf(run.CodeNotSupported, "it is not supported yet")

// RestartSource implements records.Store.
func (s *Store) RestartSource(context.Context, run.ID) (*run.Spec, run.Run, error) {
	return nil, run.Run{}, errUnbuilt
}
