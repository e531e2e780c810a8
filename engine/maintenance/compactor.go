package maintenance

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"time"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

const (
	// packLease is how long one process may take to pack the logs that it
	// leased. After that another process packs the logs of a process that died.
	packLease = 10 * time.Minute
	// packLimit ends the writing before the lease does: an object written later
	// might be unknown to the records.
	packLimit = packLease - time.Minute
	// packAtOnce bounds the logs leased together.
	packAtOnce = 8
	// packEvery is the interval at which a Compactor looks for logs that other
	// processes left.
	packEvery = time.Minute
	// staleEvery is the interval at which it looks for logs without a last
	// frame. It packs them once staleAfter has passed since the end of their
	// tasks.
	staleEvery = 10 * time.Minute
	staleAfter = time.Hour
)

// LogPacker reads the stored frames of logs, and packs them.
type LogPacker interface {
	// GetFrames returns a stored batch. Errors: not_found, unavailable.
	GetFrames(ctx context.Context, key run.Key, first int64) ([]run.Frame, error)
	// PackedBlocks returns the blocks of a packed log of a known size, and
	// PackedFrames the frames of one block. Errors: not_found, unavailable.
	PackedBlocks(ctx context.Context, key run.Key, last, size int64) ([]run.LogBlock, error)
	PackedFrames(ctx context.Context, key run.Key, last int64, b run.LogBlock) ([]run.Frame, error)
	// PackFrames stores the packed log of a key up to frame last, and returns
	// its size in bytes. If it fails, nothing is visible. Errors: unavailable,
	// and those of frames.
	PackFrames(ctx context.Context, key run.Key, last int64, frames iter.Seq2[run.Frame, error]) (int64, error)
}

// Compactor packs the logs of tasks that have ended, each into one object that
// replaces its batches. Any number of processes may run one.
type Compactor struct {
	store   records.Packing
	logs    LogPacker
	metrics *Metrics
	logger  *slog.Logger
}

// NewCompactor returns a Compactor that does nothing until Run.
func NewCompactor(store records.Packing, logs LogPacker, logger *slog.Logger, metrics *Metrics) *Compactor {
	return &Compactor{store: store, logs: logs, metrics: metrics, logger: logger}
}

// Run packs the logs that are due: immediately, when logs of this process end,
// and every minute, until ctx ends. It retries a log that it cannot pack when
// the lease has ended.
func (c *Compactor) Run(ctx context.Context) error {
	ticker, stale := time.NewTicker(packEvery), time.NewTicker(staleEvery)
	defer ticker.Stop()
	defer stale.Stop()
	for {
		wake := c.store.PackingWake()
		if err := c.Pack(ctx); err != nil && ctx.Err() == nil {
			c.logger.WarnContext(ctx, "failed to pack logs", "error", err)
			wake = nil // an unavailable store is not called at every end of a task
		}
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		case <-ticker.C:
		case <-stale.C:
			if _, err := c.store.PackStale(ctx, time.Now().Add(-staleAfter)); err != nil && ctx.Err() == nil {
				c.logger.WarnContext(ctx, "failed to find logs without a last frame", "error", err)
			}
		}
	}
}

// Pack packs all logs that are due, or as many as it can.
func (c *Compactor) Pack(ctx context.Context) error {
	var failed error
	for failed == nil {
		logs, err := c.store.TakePacking(ctx, packAtOnce, packLease)
		if err != nil || len(logs) == 0 {
			return err
		}
		failed = c.packAll(ctx, logs)
	}
	return failed
}

func (c *Compactor) packAll(ctx context.Context, logs []records.PackingLog) error {
	ctx, cancel := context.WithTimeoutCause(ctx, packLimit, errors.New("the lease ends"))
	defer cancel()
	var errs []error
	for _, log := range logs {
		errs = append(errs, c.pack(ctx, log))
	}
	return errors.Join(errs...)
}

// pack packs one log. It is no error if another process has packed the log
// meanwhile, or if the log was removed.
func (c *Compactor) pack(ctx context.Context, log records.PackingLog) error {
	began := time.Now()
	size, err := c.logs.PackFrames(ctx, log.Key, log.Last, c.frames(ctx, log))
	if err == nil {
		err = c.store.SwitchPacked(ctx, log, size)
	}
	if run.CodeOf(err) == run.CodeConflict {
		return nil
	}
	if err == nil {
		c.metrics.logPacked(log, size, time.Since(began))
	}
	return err
}

// frames yields the frames of a log. A missing frame is an error.
func (c *Compactor) frames(ctx context.Context, log records.PackingLog) iter.Seq2[run.Frame, error] {
	return func(yield func(run.Frame, error) bool) {
		last := int64(0)
		for frames, err := range c.pieces(ctx, log) {
			if err != nil {
				yield(run.Frame{}, err)
				return
			}
			for _, f := range frames {
				if f.N <= last || f.N > log.Last {
					continue
				}
				if f.N != last+1 {
					yield(run.Frame{}, run.Errorf(run.CodeInternal, "log %s has no frame %d", log.Key, last+1))
					return
				}
				if last = f.N; !yield(f, nil) {
					return
				}
			}
		}
		if last != log.Last {
			yield(run.Frame{}, run.Errorf(run.CodeInternal, "log %s ends with frame %d instead of %d", log.Key, last, log.Last))
		}
	}
}

// pieces yields the frames of a log as they are stored.
func (c *Compactor) pieces(ctx context.Context, log records.PackingLog) iter.Seq2[[]run.Frame, error] {
	return func(yield func([]run.Frame, error) bool) {
		for _, b := range log.Batches {
			if !b.Packed {
				if frames, err := c.logs.GetFrames(ctx, b.Source, b.First); !yield(frames, err) || err != nil {
					return
				}
				continue
			}
			blocks, err := c.logs.PackedBlocks(ctx, b.Source, b.Last, b.Bytes)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, block := range blocks {
				if frames, err := c.logs.PackedFrames(ctx, b.Source, b.Last, block); !yield(frames, err) || err != nil {
					return
				}
			}
		}
	}
}
