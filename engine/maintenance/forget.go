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

// Expiry removes rows that are older than an age. Any number of processes may run one.
type Expiry struct {
	kinds    map[string]forget
	maxAge   time.Duration
	interval time.Duration
	pause    time.Duration
	logger   *slog.Logger
	now      func() time.Time
}

// forget removes up to n rows of before a time.
type forget func(ctx context.Context, before time.Time, n int) (int, error)

// NewRegistryExpiry returns an Expiry of executors that were removed, and of instances
// that are gone. It does nothing until Run. If maxAge is 0, all are kept. perSecond
// bounds the removals, in hundreds; 0 is no bound.
func NewRegistryExpiry(store records.Forgetting, maxAge, interval time.Duration, perSecond int, logger *slog.Logger) *Expiry {
	return newExpiry(map[string]forget{
		"removed executors": store.ForgetExecutors, "gone instances of fleets": store.ForgetInstances,
	}, maxAge, interval, perSecond, logger)
}

// NewAuditExpiry is NewRegistryExpiry for the records of the audit log.
func NewAuditExpiry(store records.Audit, maxAge, interval time.Duration, perSecond int, logger *slog.Logger) *Expiry {
	return newExpiry(map[string]forget{"records of the audit log": store.ForgetAudit}, maxAge, interval, perSecond, logger)
}

func newExpiry(kinds map[string]forget, maxAge, interval time.Duration, perSecond int, logger *slog.Logger) *Expiry {
	e := &Expiry{kinds: kinds, maxAge: maxAge, interval: interval, logger: logger, now: time.Now}
	if perSecond > 0 {
		e.pause = time.Second / time.Duration(perSecond)
	}
	return e
}

// Run removes what is too old, at intervals, until ctx ends.
func (e *Expiry) Run(ctx context.Context) error {
	if e.maxAge <= 0 {
		<-ctx.Done()
		return nil
	}
	ticker := time.NewTicker(e.interval)
	defer ticker.Stop()
	for {
		for what, forget := range e.kinds {
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
func (e *Expiry) all(ctx context.Context, forget forget) (total int, err error) {
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
