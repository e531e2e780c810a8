package engine

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/drover-run/drover/records"
)

const (
	// archiveSweepEvery is how often the ArchiveKeeper looks for objects that are
	// garbage.
	archiveSweepEvery = time.Minute
	// archiveBatch bounds one transaction, and archivePause paces them.
	archiveBatch = 100
	archivePause = 200 * time.Millisecond
)

// ArchiveKeeper removes the bytes of archives that nothing refers to: of those
// that were removed, and what a killed process left of an upload. Any number of
// processes may run one: each takes others, and what one leaves undone the next
// does.
//
// It is no part of the retention's workflow, as the Janitor is none: whether an
// object is garbage is no policy but a fact of the records, it goes also while
// Temporal is away or everything is kept, and a bucket fills with what is broken
// off whatever the interval of the retention is.
type ArchiveKeeper struct {
	store   records.ArchiveRetention
	objects ArchiveStore
	metrics *Metrics
	logger  *slog.Logger
	pause   time.Duration
}

// NewArchiveKeeper returns an ArchiveKeeper that does nothing until Run.
func NewArchiveKeeper(deps Deps) *ArchiveKeeper {
	if deps.Metrics == nil {
		deps.Metrics = NewMetrics()
	}
	return &ArchiveKeeper{store: deps.Store, objects: deps.Archives, metrics: deps.Metrics, logger: deps.Logger, pause: archivePause}
}

// Run looks now and then, until ctx ends.
func (k *ArchiveKeeper) Run(ctx context.Context) error {
	ticker := time.NewTicker(archiveSweepEvery)
	defer ticker.Stop()
	for {
		if err := k.Sweep(ctx); err != nil && ctx.Err() == nil {
			k.logger.WarnContext(ctx, "removing the bytes of archives that are gone failed", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// Sweep removes all objects that nothing refers to, or as many as it can.
func (k *ArchiveKeeper) Sweep(ctx context.Context) error {
	for {
		objects, err := k.store.TakeObjects(ctx, archiveBatch, objectLease)
		if err != nil || len(objects) == 0 {
			return err
		}
		done := make([]string, 0, len(objects))
		var failed error
		for _, object := range objects {
			if failed = k.objects.DeleteArchive(ctx, object); failed != nil {
				break // the others are taken again when their lease ends
			}
			done = append(done, object)
		}
		k.metrics.removed.Add(float64(len(done)))
		if err := errors.Join(failed, k.store.DoneObjects(ctx, done)); err != nil {
			return err
		}
		if !k.wait(ctx) {
			return ctx.Err()
		}
	}
}

// wait leaves the stores to others for a moment. It reports whether to go on.
func (k *ArchiveKeeper) wait(ctx context.Context) bool {
	timer := time.NewTimer(k.pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
