// Package webhooks delivers events to receivers. It reads events from a
// webhook's position, posts them in signed batches or sends them as messages, in
// order and at least once, and retries what the receiver did not accept.
package webhooks

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// Store is the part of the records that deliveries use.
type Store interface {
	AcquireWebhook(ctx context.Context, name string) (records.Delivery, error)
	ReadWebhook(ctx context.Context, name string, epoch int64) (records.Delivery, error)
	AdvanceWebhook(ctx context.Context, name string, epoch, version int64, to records.DeliveryProgress) error
	EndWebhookTest(ctx context.Context, name string, epoch, number int64, failure string) error
	FailedTasks(ctx context.Context, id run.ID, n int) ([]records.FailedTask, error)
	GetSummary(ctx context.Context, id run.ID) (run.Run, error)
	WatchWebhook(name string) (signal <-chan struct{}, stop func())
	ReadEvents(ctx context.Context, q run.EventQuery, n int) (records.EventPage, error)
	Watch(id run.ID) (signal <-chan struct{}, stop func())
}

var _ Store = records.Store(nil)

// Options configures deliveries. Zero values mean the defaults.
type Options struct {
	// Batch is the maximum number of events in one request: 100.
	Batch int
	// Pace is the minimum time between two reads of events while there are
	// fewer than a batch: 100 ms. Events of that time go into one request.
	Pace time.Duration
	// Timeout bounds a whole request: 15 s.
	Timeout time.Duration
	// FirstRetry is the pause after the first failure: 1 s. Each further pause
	// is twice as long, up to LastRetry: 5 minutes.
	FirstRetry, LastRetry time.Duration
	// MaxRetryAfter bounds the pause that a receiver may request: 1 hour.
	MaxRetryAfter time.Duration
	// RunURL is the URL of a run in messages, with {run} in place of its id; ""
	// means no link.
	RunURL string
	// MailTLS is the configuration of TLS with mail servers; nil means the roots of
	// the system.
	MailTLS *tls.Config
	// Dial connects to receivers and mail servers; nil means over the network, in 5 s.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// UserAgent of the requests; "" means drover.
	UserAgent string
	// Metrics receives the metrics of the deliveries; nil means metrics that
	// are not registered.
	Metrics *Metrics
}

// The default pauses between attempts to deliver.
const (
	defaultFirstRetry = time.Second
	defaultLastRetry  = 5 * time.Minute
)

func (o Options) withDefaults() Options {
	o.Batch = cmp.Or(o.Batch, 100)
	o.Pace = cmp.Or(o.Pace, 100*time.Millisecond)
	o.Timeout = cmp.Or(o.Timeout, 15*time.Second)
	o.FirstRetry = cmp.Or(o.FirstRetry, defaultFirstRetry)
	o.LastRetry = cmp.Or(o.LastRetry, defaultLastRetry)
	o.MaxRetryAfter = cmp.Or(o.MaxRetryAfter, time.Hour)
	o.UserAgent = cmp.Or(o.UserAgent, "drover")
	if o.Dial == nil {
		o.Dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics()
	}
	return o
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
