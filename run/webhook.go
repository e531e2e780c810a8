package run

import (
	"context"
	"strconv"
	"time"
)

// Webhooks is the API for clients that manage webhooks: receivers to which
// Drover delivers events. Implementations are safe for concurrent use, and fail
// with CodeUnavailable if the records store cannot be reached.
type Webhooks interface {
	// Webhooks lists all webhooks, by name.
	Webhooks(ctx context.Context) ([]Webhook, error)
	// Webhook returns one. Errors: not_found.
	Webhook(ctx context.Context, name string) (Webhook, error)
	// PutWebhook creates a webhook, or replaces the webhook of that name, and
	// reports whether it is new. The change takes effect at once: the delivery
	// in progress is aborted, and a pending retry is made now. Errors: invalid
	// with all faults, exhausted (MaxWebhooks).
	PutWebhook(ctx context.Context, w WebhookSpec) (_ Webhook, created bool, _ error)
	// DeleteWebhook deletes a webhook permanently. Errors: not_found.
	DeleteWebhook(ctx context.Context, name string) error
}

// Limits of webhooks.
const (
	MaxWebhooks      = 100 // each reads all events
	MaxURLLength     = 2000
	MinWebhookSecret = 16
	MaxWebhookSecret = 256
)

// FromNow is the position after the last event.
const FromNow = "now"

// WebhookSpec is the specification of a webhook.
type WebhookSpec struct {
	Name string
	URL  string // http or https
	// Secret signs the deliveries; "" keeps the secret of the existing webhook.
	Secret Secret
	// Events are the types to deliver; none means all.
	Events  []EventType
	Group   string // only of this group path and below; "" means all groups
	Run     ID     // only of this run; "" means all runs
	Enabled bool
	// From is the position of the first delivery: FromNow, or the number of the
	// first event. "" continues at the position of an existing webhook; a new
	// one begins with FromNow.
	From string
}

// Webhook is a webhook as clients see it.
type Webhook struct {
	Name      string
	URL       string
	Events    []EventType // all types if none were chosen
	Group     string
	Run       ID
	Enabled   bool
	CreatedAt time.Time
	UpdatedAt time.Time
	// Delivered is the number of an event up to which all selected events were
	// delivered. It may lag behind while no event is selected.
	Delivered int64
	// LastError says why the last attempt failed; "" if it succeeded.
	LastError     string
	LastAttemptAt time.Time // zero if none was made; likewise below
	NextAttemptAt time.Time // the time of the next retry
	Failures      int       // consecutive failed attempts
}

// EventTypes lists all types of event.
func EventTypes() []EventType { return []EventType{EventRun, EventTask, EventStage, EventExec} }

// Start returns the number of the first event to deliver, 0 if From names none,
// and whether From is well formed.
func (w WebhookSpec) Start() (first int64, ok bool) {
	if w.From == "" || w.From == FromNow {
		return 0, true
	}
	n, err := strconv.ParseInt(w.From, 10, 64)
	return max(1, n), err == nil && n >= 0
}
