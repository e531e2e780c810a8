package maintenance

import (
	"context"
	"log/slog"
	"time"

	"github.com/drover-run/drover/internal/retry"
	"github.com/drover-run/drover/records"
)

// forgetBatch bounds the rows that one transaction removes.
const forgetBatch = 100

// RegistryExpiry removes executors that were removed, and instances that are gone,
// longer ago than an age. Any number of processes may run one.
type RegistryExpiry struct {
	store    records.Forgetting
	maxAge   time.Duration
	interval time.Duration
	pause    time.Duration
	logger   *slog.Logger
	now      func() time.Time
}

// NewRegistryExpiry returns a RegistryExpiry that does nothing until Run. If maxAge
// is 0, all are kept. perSecond bounds the removals, in hundreds; 0 is no bound.
func NewRegistryExpiry(store records.Forgetting, maxAge, interval time.Duration, perSecond int, logger *slog.Logger) *RegistryExpiry {
	e := &RegistryExpiry{store: store, maxAge: maxAge, interval: interval, logger: logger, now: time.Now}
	if perSecond > 0 {
		e.pause = time.Second / time.Duration(perSecond)
	}
	return e
}

// Run removes what is too old, at intervals, until ctx ends.
func (e *RegistryExpiry) Run(ctx context.Context) error {
	if e.maxAge <= 0 {
		<-ctx.Done()
		return nil
	}
	ticker := time.NewTicker(e.interval)
	defer ticker.Stop()
	for {
		for what, forget := range map[string]func(context.Context, time.Time, int) (int, error){
			"removed executors": e.store.ForgetExecutors, "gone instances of fleets": e.store.ForgetInstances,
		} {
			n, err := e.all(ctx, forget)
			if err != nil && ctx.Err() == nil {
				e.logger.WarnContext(ctx, "failed to remove expired rows", "kind", what, "error", err)
			}
			if n > 0 {
				e.logger.InfoContext(ctx, "expired rows were removed", "kind", what, "rows", n)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// all removes batches until one is not full.
func (e *RegistryExpiry) all(ctx context.Context, forget func(context.Context, time.Time, int) (int, error)) (total int, err error) {
	before := e.now().Add(-e.maxAge)
	for {
		n, err := forget(ctx, before, forgetBatch)
		total += n
		if err != nil || n < forgetBatch {
			return total, err
		}
		if err := retry.Sleep(ctx, e.pause); err != nil {
			return total, nil //nolint:nilerr // the process stops
		}
	}
}
