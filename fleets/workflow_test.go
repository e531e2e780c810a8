package fleets_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/drover-run/drover/fleets"
)

// lookAfter executes the steps of the fleet workflow.
func (w *world) lookAfter(ctx context.Context) {
	var changes sync.WaitGroup
	defer changes.Wait()
	var change atomic.Pointer[string] // the change in progress
	none := ""
	change.Store(&none)
	step := func(p fleets.Plan, id string) {
		if err := w.worker.Step(ctx, w.name, id, p); err != nil && ctx.Err() == nil {
			w.t.Errorf("carry out a step: %v", err)
		}
	}
	next := func() string { w.steps++; return fmt.Sprintf("step-%d", w.steps) }
	for ctx.Err() == nil {
		begun := *change.Load()
		out, err := w.worker.Watch(ctx, w.name, fleets.UnderWay{Bootstrapping: w.bootstrapping(), Change: begun})
		if ctx.Err() != nil || err == nil && out.Gone {
			return
		}
		if err != nil {
			w.t.Errorf("watch the fleet: %v", err)
			return
		}
		p, beside := out.Plan, fleets.Plan{Request: out.Plan.Request, Delete: out.Plan.Delete}
		w.bootstrap(ctx, &changes, p.Bootstrap)
		p.Request, p.Delete, p.Bootstrap = fleets.Request{}, nil, nil
		if p.End {
			changes.Wait()
		}
		if !p.Empty() {
			step(p, next())
		}
		if p.End {
			return
		}
		if beside.Empty() || out.After != begun {
			continue
		}
		id := next()
		change.Store(&id)
		changes.Go(func() {
			step(beside, id)
			change.Store(&none)
		})
	}
}

// bootstrap runs bootstraps concurrently with the other steps.
func (w *world) bootstrap(ctx context.Context, group *sync.WaitGroup, orders []fleets.Order) {
	if w.onBootstrap != nil && len(orders) > 0 {
		var numbers []int
		for _, o := range orders {
			numbers = append(numbers, o.Number)
		}
		w.onBootstrap(numbers)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range orders {
		w.booting[o.Number] = true
		group.Go(func() {
			if err := w.worker.Bootstrap(ctx, w.name, o.Number); err != nil && ctx.Err() == nil {
				w.t.Errorf("bootstrap: %v", err)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			delete(w.booting, o.Number)
		})
	}
}

func (w *world) bootstrapping() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.booting))
}
