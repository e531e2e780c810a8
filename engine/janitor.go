package engine

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/drover-run/drover/records"
)

const (
	// janitorEvery is how often the Janitor looks for what may be removed.
	janitorEvery = time.Minute
	// janitorBatch bounds what it removes before it tells the records.
	janitorBatch = 200
	// janitorGiveUp is how many removals in a row may fail before the blob
	// store is taken to be out of reach.
	janitorGiveUp = 3
)

// Janitor removes from the blob store what deleted runs and packed logs left. Any number of
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

// Run removes what there is, now, after deletions of this process and every
// minute, until ctx ends. What it cannot remove stays noted, and is tried again
// the next minute.
func (j *Janitor) Run(ctx context.Context) error {
	ticker := time.NewTicker(janitorEvery)
	defer ticker.Stop()
	for {
		wake := j.store.GarbageWake()
		if err := j.Sweep(ctx); err != nil && ctx.Err() == nil {
			j.logger.WarnContext(ctx, "removing what nobody needs any more failed", "error", err)
			wake = nil // a store that is out of reach is not asked at every deletion
		}
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		case <-ticker.C:
		}
	}
}

// Sweep removes all that is noted, or as much as it can.
func (j *Janitor) Sweep(ctx context.Context) error {
	for {
		batches, err := j.store.TakeGarbage(ctx, janitorBatch)
		if err != nil || len(batches) == 0 {
			return err
		}
		done, failed := j.remove(ctx, batches)
		if err := errors.Join(failed, j.store.DoneGarbage(ctx, done)); err != nil {
			return err
		}
	}
}

// remove returns what it removed, and why not all of it.
func (j *Janitor) remove(ctx context.Context, batches []records.GarbageBatch) (done []records.GarbageBatch, failed error) {
	failures := 0
	for _, b := range batches {
		remove := j.logs.DeleteFrames
		if b.Packed {
			remove = j.logs.DeletePacked
		}
		if err := remove(ctx, b.Key, b.Frame); err != nil {
			failed = err
			if failures++; failures == janitorGiveUp {
				break
			}
			continue
		}
		failures, done = 0, append(done, b)
	}
	return done, failed
}
