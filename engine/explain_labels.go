package engine

import (
	"context"
	"fmt"

	"github.com/drover-run/drover/run"
)

// poolLabels is a pool, and labels that tasks require of their executor, in their
// canonical form.
type poolLabels struct{ pool, labels string }

// labelledPool is a pool as if only the executors with certain labels served it.
type labelledPool struct {
	run.Pool

	name string // such as "gpu with label size=large"
	none string // why no executor takes the task, apart from slots that are in use; "" for nothing
}

// executorRegistry is the part of the records that lists executors.
type executorRegistry interface {
	ServingExecutors(ctx context.Context) ([]run.Executor, error)
}

// explainLabels counts the executors that have the labels which queued tasks require.
func explainLabels(ctx context.Context, registry executorRegistry, r run.Run, queues *queueInfo) error {
	queues.labelled = map[poolLabels]labelledPool{}
	required := map[poolLabels]map[string]string{}
	for _, t := range r.Tasks {
		if t.Status == run.StatusQueued && len(t.Labels) > 0 {
			required[poolLabels{t.Pool, run.LabelsText(t.Labels)}] = t.Labels
		}
	}
	if len(required) == 0 {
		return nil
	}
	executors, err := registry.ServingExecutors(ctx)
	if err != nil {
		return err
	}
	type labelled struct {
		run.Executor

		all map[string]string // with those of the pool
	}
	serving := map[string][]labelled{}
	for _, x := range executors {
		pool := queues.pools[x.Pool]
		serving[x.Pool] = append(serving[x.Pool], labelled{x, pool.WithLabels(x.Labels)})
	}
	for key, labels := range required {
		if err := ctx.Err(); err != nil {
			return err
		}
		p := labelledPool{Pool: queues.pools[key.pool], name: key.pool + " with " + run.ShownLabels(labels)}
		p.Online, p.Draining, p.Offline, p.Slots, p.SlotsUsed = 0, 0, 0, 0, 0
		asked := run.ResourcesOf(labels)
		fits := asked == run.Resources{} // an online executor has enough resources left
		for _, x := range serving[key.pool] {
			if run.HasLabels(x.all, labels) {
				p.Count(x.Executor)
				worth := asked.Capacity().Slots(run.ResourcesOf(x.Labels).Capacity(), x.Slots)
				fits = fits || x.State == run.ExecutorOnline && x.Slots-x.SlotsUsed >= worth
			}
		}
		switch {
		case p.Online+p.Draining+p.Offline == 0:
			p.none = fmt.Sprintf("no executor of pool %s has %s", key.pool, run.ShownLabels(labels))
		case p.Online > 0 && !fits:
			p.none = fmt.Sprintf("no executor of pool %s has %s free; %d of %d slots are in use", key.pool, run.ShownLabels(asked.Labels()), p.SlotsUsed, p.Slots)
		}
		queues.labelled[key] = p
	}
	return nil
}

// poolOf returns the pool of a task with the executors that may run the task, its name
// for a sentence, and why none of them takes the task apart from slots that are in use.
func (l *queueInfo) poolOf(t *run.Task) (p run.Pool, name, none string) {
	if len(t.Labels) > 0 {
		if p, ok := l.labelled[poolLabels{t.Pool, run.LabelsText(t.Labels)}]; ok {
			return p.Pool, p.name, p.none
		}
	}
	return l.pools[t.Pool], t.Pool, ""
}
