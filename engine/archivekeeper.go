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
	// garbage, and archiveExpireEvery for archives that are kept no longer.
	archiveSweepEvery  = time.Minute
	archiveExpireEvery = 5 * time.Minute
	// archiveBatch bounds one transaction, and archivePause paces them.
	archiveBatch = 100
	archivePause = 200 * time.Millisecond
)

// ArchiveKeeper removes archives that are kept no longer, and the bytes of
// those that nothing refers to. Any number of processes may run one: each takes
// others, and what one leaves undone the next does.
type ArchiveKeeper struct {
	store   records.ArchiveRetention
	objects ArchiveStore
	opts    ArchiveOptions
	metrics *Metrics
	logger  *slog.Logger
	pause   time.Duration
}

// NewArchiveKeeper returns an ArchiveKeeper that does nothing until Run.
func NewArchiveKeeper(deps Deps) *ArchiveKeeper {
	if deps.Metrics == nil {
		deps.Metrics = NewMetrics()
	}
	return &ArchiveKeeper{
		store: deps.Store, objects: deps.Archives, opts: deps.Archiving, metrics: deps.Metrics, logger: deps.Logger, pause: archivePause,
	}
}

// Run looks now and then, until ctx ends.
func (k *ArchiveKeeper) Run(ctx context.Context) error {
	ticker := time.NewTicker(archiveSweepEvery)
	defer ticker.Stop()
	var expired time.Time
	for {
		var err error
		if time.Since(expired) >= archiveExpireEvery {
			expired = time.Now()
			err = k.Expire(ctx)
		}
		if err = errors.Join(err, k.Sweep(ctx)); err != nil && ctx.Err() == nil {
			k.logger.WarnContext(ctx, "removing archives that are kept no longer failed", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// Expire removes all archives that are kept no longer.
func (k *ArchiveKeeper) Expire(ctx context.Context) error {
	return errors.Join(
		k.expire(ctx, "archives", func() (records.Expired, error) {
			return k.store.ExpireArchives(ctx, records.ExpireArchives{Workspaces: k.opts.Workspaces}, archiveBatch)
		}),
		k.expire(ctx, "caches", func() (records.Expired, error) {
			return k.store.ExpireCaches(ctx, records.ExpireCaches{Unused: k.opts.CacheUnused, Bytes: k.opts.CacheTotal}, archiveBatch)
		}),
	)
}

func (k *ArchiveKeeper) expire(ctx context.Context, what string, some func() (records.Expired, error)) error {
	for {
		out, err := some()
		if err != nil {
			return err
		}
		k.metrics.expired.WithLabelValues(what).Add(float64(out.Archives))
		if out.Archives > 0 {
			k.logger.InfoContext(ctx, "removed archives that are kept no longer", "what", what, "archives", out.Archives, "bytes", out.Bytes)
		}
		if !out.More || !k.wait(ctx) {
			return ctx.Err()
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
