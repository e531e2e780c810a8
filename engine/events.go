package engine

import (
	"context"
	"iter"

	"github.com/drover-run/drover/run"
)

// eventPage is the number of events in one read.
const eventPage = 500

// EventFloor implements run.Service.
func (e *Engine) EventFloor(ctx context.Context, id run.ID) (int64, error) {
	return e.store.EventFloor(ctx, id)
}

// LastEvent implements run.Service.
func (e *Engine) LastEvent(ctx context.Context) (int64, error) {
	return e.store.LastEvent(ctx)
}

// Events implements run.Service.
func (e *Engine) Events(ctx context.Context, q run.EventQuery) iter.Seq2[run.Event, error] {
	return func(yield func(run.Event, error) bool) {
		changed, stop := e.store.Watch(q.Run)
		defer stop()
		for {
			page, err := e.store.ReadEvents(ctx, q, eventPage)
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
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
		}
	}
}
