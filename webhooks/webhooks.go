// Package webhooks delivers events to receivers: it follows the events from
// where a webhook stands, posts them in signed batches, at least once and in
// order, and tries again what was not taken.
package webhooks

import (
	"context"
	"log/slog"
	"time"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// Store is what deliveries need of the records.
type Store interface {
	TakeWebhook(ctx context.Context, name string) (records.Delivery, error)
	ReadWebhook(ctx context.Context, name string, epoch int64) (records.Delivery, error)
	MoveWebhook(ctx context.Context, name string, epoch, version int64, to records.Progression) error
	WatchWebhook(name string) (signal <-chan struct{}, stop func())
	ReadEvents(ctx context.Context, q run.EventQuery, n int) ([]run.Event, error)
	LastEvent(ctx context.Context) (int64, error)
	Watch(id run.ID) (signal <-chan struct{}, stop func())
}

var _ Store = records.Store(nil)

// Options tune deliveries. Zero values mean the defaults.
type Options struct {
	// Batch is how many events one request has at most: 100.
	Batch int
	// Pace is the shortest time between two looks for events, while there are
	// fewer than make a batch: 100 ms. What happens meanwhile travels together.
	Pace time.Duration
	// Timeout is for a whole request: 15 s.
	Timeout time.Duration
	// FirstRetry is the pause after the first failure: 1 s. Each is twice as
	// long as the one before, up to LastRetry: 5 minutes.
	FirstRetry, LastRetry time.Duration
	// MaxRetryAfter bounds the pause that a receiver may ask for: 1 hour.
	MaxRetryAfter time.Duration
	// UserAgent of the requests; "" means drover.
	UserAgent string
	// Metrics count the deliveries; nil: nobody looks at them.
	Metrics *Metrics
}

func (o Options) withDefaults() Options {
	o.Batch = orDefault(o.Batch, 100)
	o.Pace = orDefault(o.Pace, 100*time.Millisecond)
	o.Timeout = orDefault(o.Timeout, 15*time.Second)
	o.FirstRetry = orDefault(o.FirstRetry, time.Second)
	o.LastRetry = orDefault(o.LastRetry, 5*time.Minute)
	o.MaxRetryAfter = orDefault(o.MaxRetryAfter, time.Hour)
	o.UserAgent = orDefault(o.UserAgent, "drover")
	if o.Metrics == nil {
		o.Metrics = NewMetrics()
	}
	return o
}

func orDefault[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// Deliverer delivers the events of any number of webhooks. It is safe for
// concurrent use.
type Deliverer struct {
	store  Store
	logger *slog.Logger
	opts   Options
}

// New returns a Deliverer. It does no I/O.
func New(store Store, logger *slog.Logger, opts Options) *Deliverer {
	return &Deliverer{store: store, logger: logger, opts: opts.withDefaults()}
}
