package controller_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/drover-run/drover/fleeting/controller"
)

// runFleetWorkflow executes the steps of the fleet workflow.
func (w *env) runFleetWorkflow(ctx context.Context) {
	var changes sync.WaitGroup
	defer changes.Wait()
	var change atomic.Pointer[string] // the change in progress
	none := ""
	change.Store(&none)
	step := func(p controller.Plan, id string) {
		if err := w.worker.Step(ctx, w.name, id, p); err != nil && ctx.Err() == nil {
			w.t.Errorf("carry out a step: %v", err)
		}
	}
	next := func() string { w.steps++; return fmt.Sprintf("step-%d", w.steps) }
	for ctx.Err() == nil {
		begun := *change.Load()
		out, err := w.worker.Watch(ctx, w.name, controller.InProgress{Bootstrapping: w.bootstrapping(), Change: begun})
		if ctx.Err() != nil || err == nil && out.Gone {
			return
		}
		if err != nil {
			w.t.Errorf("watch the fleet: %v", err)
			return
		}
		p, beside := out.Plan, controller.Plan{Request: out.Plan.Request, Delete: out.Plan.Delete}
		w.bootstrap(ctx, &changes, p.Bootstrap)
		p.Request, p.Delete, p.Bootstrap = controller.Request{}, nil, nil
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
func (w *env) bootstrap(ctx context.Context, group *sync.WaitGroup, orders []controller.Order) {
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
		w.bootstrapRuns[o.Number] = true
		group.Go(func() {
			if err := w.worker.Bootstrap(ctx, w.name, o.Number); err != nil && ctx.Err() == nil {
				w.t.Errorf("bootstrap: %v", err)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			delete(w.bootstrapRuns, o.Number)
		})
	}
}

func (w *env) bootstrapping() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.bootstrapRuns))
}
