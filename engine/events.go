package engine

import (
	"context"
	"iter"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// eventPage is the number of events in one read.
const eventPage = 500

// EventBounds implements run.Service.
func (e *Engine) EventBounds(ctx context.Context, id run.ID) (floor, last int64, err error) {
	if floor, err = e.store.EventFloor(ctx, id); err != nil {
		return 0, 0, err
	}
	last, err = e.store.LastEvent(ctx)
	return floor, last, err
}

// Events implements run.Service.
func (e *Engine) Events(ctx context.Context, q run.EventQuery) iter.Seq2[run.Event, error] {
	return func(yield func(run.Event, error) bool) {
		changed, stop := e.store.Watch(q.Run)
		defer stop()
		for {
			last, err := lastBefore(ctx, e.store, q)
			var page []run.Event
			if err == nil {
				page, err = e.store.ReadEvents(ctx, q, eventPage)
			}
			if err != nil {
				if ctx.Err() == nil {
					yield(run.Event{}, err)
				}
				return
			}
			for _, event := range page {
				if !yield(event, nil) {
					return
				}
				q.After = event.Number
			}
			if len(page) == eventPage {
				continue
			}
			q.After = max(q.After, last)
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
		}
	}
}

// lastBefore returns a number up to which the next read finds all events of a query for
// groups: the read after that need not look at the events of other groups again. It is 0
// for other queries, whose reads by index find no others.
func lastBefore(ctx context.Context, store records.Events, q run.EventQuery) (int64, error) {
	if q.Run != "" || q.Group == "" && len(q.Within) == 0 {
		return 0, nil
	}
	return store.LastEvent(ctx)
}
