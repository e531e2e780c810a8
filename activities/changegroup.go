package activities

import (
	"context"

	"github.com/drover-run/drover/activities/errcode"
	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/records"
)

// ChangeGroupStore grants free slots of change groups to runs that wait.
type ChangeGroupStore interface {
	Grant(ctx context.Context, name string) (granted []records.Grant, more bool, err error)
}

// ChangeGroups holds the activity by which the change-group workflow grants
// slots. It is idempotent and takes milliseconds. Errors are those of
// errcode.ToTemporal.
type ChangeGroups struct{ store ChangeGroupStore }

// NewChangeGroups returns the activity over the records.
func NewChangeGroups(store ChangeGroupStore) *ChangeGroups { return &ChangeGroups{store: store} }

// Grant admits runs of a change group, up to a number, as long as slots are
// free.
func (a *ChangeGroups) Grant(ctx context.Context, in contract.GrantInput) (contract.GrantResult, error) {
	granted, more, err := a.store.Grant(ctx, in.Name)
	return contract.GrantResult{Granted: len(granted), More: more}, errcode.ToTemporal(err)
}
