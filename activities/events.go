package activities

import (
	"context"
	"time"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/records"
)

// EventRemover removes old events.
type EventRemover interface {
	RemoveEvents(ctx context.Context, keep records.KeepEvents, n int) (removed int, err error)
}

var _ EventRemover = records.Store(nil)

// removeAtOnce is how many events one call removes: a write of some
// milliseconds, so that it fits a local activity and holds nobody up.
const removeAtOnce = 1000

// Events holds the activity that removes events.
type Events struct {
	remover EventRemover
	now     func() time.Time
}

// NewEvents returns the activity over the records. now is the clock; nil means
// time.Now.
func NewEvents(remover EventRemover, now func() time.Time) *Events {
	if now == nil {
		now = time.Now
	}
	return &Events{remover: remover, now: now}
}

// RemoveEvents is contract.ActivityRemoveEvents.
func (a *Events) RemoveEvents(ctx context.Context, in contract.RemoveEventsInput) (contract.RemoveEventsResult, error) {
	keep := records.KeepEvents{Newest: in.Newest}
	if in.MaxAge > 0 {
		keep.Since = a.now().Add(-in.MaxAge.Std())
	}
	removed, err := a.remover.RemoveEvents(ctx, keep, removeAtOnce)
	return contract.RemoveEventsResult{Removed: removed, More: removed == removeAtOnce}, toTemporal(err)
}
