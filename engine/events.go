package engine

import (
	"context"
	"iter"

	"github.com/drover-run/drover/run"
)

const (
	// eventPage is the number of events in one read.
	eventPage = 500
	// silentEvents is after how many events of others a reader learns its position.
	silentEvents = 5_000
)

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
		told := q.After
		for {
			page, err := e.store.ReadEvents(ctx, q, eventPage)
			if err != nil {
				if ctx.Err() == nil {
					yield(run.Event{}, err)
				}
				return
			}
			for _, event := range page.Events {
				if !yield(event, nil) {
					return
				}
				told = event.Number
			}
			q.After = page.Next
			if q.After-told >= silentEvents {
				if !yield(run.Event{Number: q.After}, nil) {
					return
				}
				told = q.After
			}
			if page.More {
				continue
			}
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
		}
	}
}
