package records

import (
	"context"
	"time"

	"github.com/drover-run/drover/run"
)

// Webhooks keeps the webhooks and how far each has come.
type Webhooks interface {
	// ListWebhooks, GetWebhook, PutWebhook and DeleteWebhook: see run.Webhooks.
	// What is put has been checked, but for the secret that a new one needs
	// (invalid). Putting and deleting append an outbox row of OutboxWebhook.
	ListWebhooks(ctx context.Context) ([]run.Webhook, error)
	GetWebhook(ctx context.Context, name string) (run.Webhook, error)
	PutWebhook(ctx context.Context, w run.WebhookSpec) (_ run.Webhook, created bool, _ error)
	DeleteWebhook(ctx context.Context, name string) error

	// TakeWebhook makes the caller the one that delivers: nobody else moves
	// the webhook on from now on. Errors: not_found.
	TakeWebhook(ctx context.Context, name string) (Delivery, error)
	// ReadWebhook returns how delivery stands, to the one that took it.
	// Errors: not_found, conflict (another took it).
	ReadWebhook(ctx context.Context, name string, epoch int64) (Delivery, error)
	// MoveWebhook writes how far delivery has come. Errors: not_found, and
	// conflict (another took it, or a client has changed the webhook since).
	MoveWebhook(ctx context.Context, name string, epoch, version int64, to Progression) error
	// WatchWebhook is Events.Watch for the changes that clients make of a
	// webhook.
	WatchWebhook(name string) (signal <-chan struct{}, stop func())
}

// Delivery is a webhook for the one that delivers.
type Delivery struct {
	run.Webhook
	Secret run.Secret
	Epoch  int64 // of the one that took it last
	// Version grows with every change that a client makes.
	Version int64
	// BatchEnd is the last event of the batch that failed last, so that it is
	// tried again as it was; 0 where there is none.
	BatchEnd int64
}

// Progression is how far the delivery of a webhook has come.
type Progression struct {
	Delivered   int64
	BatchEnd    int64
	LastError   string
	LastAttempt time.Time // zero leaves it as it is
	NextAttempt time.Time
	Failures    int
}
