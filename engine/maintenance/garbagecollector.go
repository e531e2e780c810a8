package maintenance

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

const (
	// garbageInterval is the interval at which the GarbageCollector looks for
	// garbage.
	garbageInterval = time.Minute
	// garbageBatch bounds the removals before the records are updated.
	garbageBatch = 200
	// maxGarbageFailures is the number of consecutive failures after which the blob
	// store counts as unavailable.
	maxGarbageFailures = 3
)

// LogRemover removes the objects of logs from the blob store. A missing object is
// no error. Errors: unavailable.
type LogRemover interface {
	// DeleteFrames removes the stored batch that begins with frame first.
	DeleteFrames(ctx context.Context, key run.Key, first int64) error
	// DeletePacked removes the packed log up to frame last.
	DeletePacked(ctx context.Context, key run.Key, last int64) error
}

// GarbageCollector removes from the blob store the objects of deleted runs and the
// batches of packed logs. Any number of processes may run one: removing an
// object twice is harmless.
type GarbageCollector struct {
	store  records.Garbage
	logs   LogRemover
	logger *slog.Logger
}

// NewGarbageCollector returns a GarbageCollector that does nothing until Run.
func NewGarbageCollector(store records.Garbage, logs LogRemover, logger *slog.Logger) *GarbageCollector {
	return &GarbageCollector{store: store, logs: logs, logger: logger}
}

// Run collects the garbage immediately, after deletions by this process, and
// every minute, until ctx ends. Objects that it cannot remove stay recorded,
// and are retried a minute later.
func (g *GarbageCollector) Run(ctx context.Context) error {
	ticker := time.NewTicker(garbageInterval)
	defer ticker.Stop()
	for {
		wake := g.store.GarbageWake()
		if err := g.Collect(ctx); err != nil && ctx.Err() == nil {
			g.logger.WarnContext(ctx, "failed to collect garbage", "error", err)
			wake = nil // an unavailable store is not called at every deletion
		}
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		case <-ticker.C:
		}
	}
}

// Collect removes all recorded garbage, or as much as it can.
func (g *GarbageCollector) Collect(ctx context.Context) error {
	for {
		batches, err := g.store.TakeGarbage(ctx, garbageBatch)
		if err != nil || len(batches) == 0 {
			return err
		}
		done, failed := g.remove(ctx, batches)
		if err := errors.Join(failed, g.store.CompleteGarbage(ctx, done)); err != nil {
			return err
		}
	}
}

// remove returns the batches that it removed, and why it did not remove all.
func (g *GarbageCollector) remove(ctx context.Context, batches []records.GarbageBatch) (done []records.GarbageBatch, failed error) {
	failures := 0
	for _, b := range batches {
		remove := g.logs.DeleteFrames
		if b.Packed {
			remove = g.logs.DeletePacked
		}
		if err := remove(ctx, b.Key, b.Frame); err != nil {
			failed = err
			if failures++; failures == maxGarbageFailures {
				break
			}
			continue
		}
		failures, done = 0, append(done, b)
	}
	return done, failed
}
