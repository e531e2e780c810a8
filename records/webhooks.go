package records

import (
	"context"
	"time"

	"github.com/drover-run/drover/run"
)

// Webhooks stores the webhooks and the delivery progress of each.
type Webhooks interface {
	// ListWebhooks, GetWebhook, PutWebhook and DeleteWebhook: see run.Webhooks.
	// The caller has validated what it puts, except that a new webhook has a
	// secret (invalid). Putting and deleting append an outbox row of
	// OutboxWebhook.
	ListWebhooks(ctx context.Context) ([]run.Webhook, error)
	GetWebhook(ctx context.Context, name string) (run.Webhook, error)
	PutWebhook(ctx context.Context, w run.WebhookSpec) (_ run.Webhook, created bool, _ error)
	DeleteWebhook(ctx context.Context, name string) error
	TestWebhook(ctx context.Context, name string) (run.Webhook, error)

	// AcquireWebhook makes the caller the only worker that delivers the webhook:
	// from now on AdvanceWebhook refuses all others. Errors: not_found.
	AcquireWebhook(ctx context.Context, name string) (Delivery, error)
	// ReadWebhook returns the delivery state to the worker that acquired the
	// webhook. Errors: not_found, conflict (another worker acquired it).
	ReadWebhook(ctx context.Context, name string, epoch int64) (Delivery, error)
	// AdvanceWebhook writes the delivery progress. Errors: not_found, conflict
	// (another worker acquired the webhook, or a client has changed it since).
	AdvanceWebhook(ctx context.Context, name string, epoch, version int64, to DeliveryProgress) error
	// EndWebhookTest writes the outcome of the test with a number: failure is why
	// the receiver did not accept the sample, or "". Errors: not_found, conflict
	// (another worker acquired the webhook).
	EndWebhookTest(ctx context.Context, name string, epoch, number int64, failure string) error
	// FailedTasks returns up to n failed tasks of a run, in the order of their
	// numbers; none of a run that is gone.
	FailedTasks(ctx context.Context, id run.ID, n int) ([]FailedTask, error)
	// WatchWebhook is Events.Watch for changes of a webhook by clients.
	WatchWebhook(name string) (signal <-chan struct{}, stop func())
}

// Delivery is a webhook as the worker that delivers it reads it.
type Delivery struct {
	run.Webhook
	// Secret is the URL of the receiver if the format has a secret URL.
	Secret run.Secret
	Epoch  int64 // incremented by each AcquireWebhook
	// Version increases with every change by a client.
	Version int64
	// BatchEnd is the last event of the batch that failed last, so that the
	// retry sends the same batch; 0 if there is none.
	BatchEnd int64
}

// DeliveryProgress is the delivery progress of a webhook.
type DeliveryProgress struct {
	Delivered   int64
	BatchEnd    int64
	LastError   string
	LastAttempt time.Time // zero keeps the stored value
	NextAttempt time.Time
	Failures    int
}

// FailedTask is a failed task of a run.
type FailedTask struct {
	Name         string
	Reason       string
	ExitCode     *int
	AllowFailure bool
}
