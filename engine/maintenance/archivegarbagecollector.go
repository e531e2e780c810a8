package maintenance

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/drover-run/drover/internal/retry"
	"github.com/drover-run/drover/records"
)

const (
	// archiveGarbageInterval is the interval at which the ArchiveGarbageCollector
	// looks for unreferenced objects.
	archiveGarbageInterval = time.Minute
	// archiveBatch bounds one transaction. archivePause is the pause between
	// two transactions.
	archiveBatch = 100
	archivePause = 200 * time.Millisecond
	// objectLease is how long one process may take to remove the objects that it
	// leased. After that another process removes them.
	objectLease = 10 * time.Minute
)

// ArchiveRemover removes the objects of archives from the blob store.
type ArchiveRemover interface {
	// DeleteArchive removes an archive, also one that was not completed. A
	// missing archive is no error. Errors: unavailable.
	DeleteArchive(ctx context.Context, object string) error
}

// ArchiveGarbageCollector removes objects of archives that no record refers to: those of
// removed archives, and those of uploads whose process was killed. Any number
// of processes may run one: each leases different objects, and another process
// retries what one leaves.
//
// It is not part of the retention workflow, for the same reasons as the
// GarbageCollector. Whether an object is garbage is a fact of the records and
// not a policy. It is removed also while Temporal is unavailable or everything
// is kept, and broken uploads must not fill a bucket when the interval of
// the retention is long.
type ArchiveGarbageCollector struct {
	store   records.ArchiveRetention
	objects ArchiveRemover
	metrics *Metrics
	logger  *slog.Logger
	pause   time.Duration
}

// NewArchiveGarbageCollector returns an ArchiveGarbageCollector that does nothing until
// Run.
func NewArchiveGarbageCollector(store records.ArchiveRetention, objects ArchiveRemover, logger *slog.Logger, metrics *Metrics) *ArchiveGarbageCollector {
	return &ArchiveGarbageCollector{store: store, objects: objects, metrics: metrics, logger: logger, pause: archivePause}
}

// Run sweeps at intervals, until ctx ends.
func (g *ArchiveGarbageCollector) Run(ctx context.Context) error {
	ticker := time.NewTicker(archiveGarbageInterval)
	defer ticker.Stop()
	for {
		if err := g.Collect(ctx); err != nil && ctx.Err() == nil {
			g.logger.WarnContext(ctx, "failed to remove unreferenced archive objects", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// Collect removes all unreferenced objects, or as many as it can.
func (g *ArchiveGarbageCollector) Collect(ctx context.Context) error {
	for {
		objects, err := g.store.TakeObjects(ctx, archiveBatch, objectLease)
		if err != nil || len(objects) == 0 {
			return err
		}
		done := make([]string, 0, len(objects))
		var failed error
		for _, object := range objects {
			if failed = g.objects.DeleteArchive(ctx, object); failed != nil {
				break // the others are taken again when their lease ends
			}
			done = append(done, object)
		}
		g.metrics.removed.Add(float64(len(done)))
		if err := errors.Join(failed, g.store.CompleteObjects(ctx, done)); err != nil {
			return err
		}
		// The pause leaves the stores to other clients.
		if err := retry.Sleep(ctx, g.pause); err != nil {
			return err
		}
	}
}
