package engine

import (
	"context"
	"log/slog"
	"time"

	"github.com/drover-run/drover/records"
)

const (
	// janitorEvery is how often the Janitor looks for what deleted runs left.
	janitorEvery = time.Minute
	// janitorBatch bounds what it removes before it tells the records.
	janitorBatch = 200
)

// Janitor removes from the blob store what deleted runs left. Any number of
// processes may run one: to remove a thing twice is harmless.
type Janitor struct {
	store  records.Garbage
	logs   LogStore
	logger *slog.Logger
}

// NewJanitor returns a Janitor that does nothing until Run.
func NewJanitor(deps Deps) *Janitor {
	return &Janitor{store: deps.Store, logs: deps.Logs, logger: deps.Logger}
}

// Run removes what there is, now and every minute, until ctx ends. What it
// cannot remove stays noted, and is tried again.
func (j *Janitor) Run(ctx context.Context) error {
	ticker := time.NewTicker(janitorEvery)
	defer ticker.Stop()
	for {
		if err := j.Sweep(ctx); err != nil && ctx.Err() == nil {
			j.logger.WarnContext(ctx, "removing what deleted runs left failed", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// Sweep removes all that is noted.
func (j *Janitor) Sweep(ctx context.Context) error {
	for {
		batches, err := j.store.TakeGarbage(ctx, janitorBatch)
		if err != nil || len(batches) == 0 {
			return err
		}
		for _, b := range batches {
			if err := j.logs.DeleteFrames(ctx, b.Key, b.First); err != nil {
				return err
			}
		}
		if err := j.store.DoneGarbage(ctx, batches); err != nil {
			return err
		}
	}
}
