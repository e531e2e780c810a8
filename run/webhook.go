package run

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
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
	MaxWebhooks         = 100 // each reads all events
	MaxURLLength        = 2000
	MinWebhookSecret    = 16
	MaxWebhookSecret    = 256
	webhookSecretAdvice = "such as the output of `openssl rand -hex 32`"
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
func EventTypes() []EventType { return []EventType{EventRun, EventTask} }

// ValidateWebhook returns the faults of the specification of a webhook. It does
// not check that a new webhook has a secret.
func ValidateWebhook(w WebhookSpec) []Fault {
	l := newFaultList()
	if !ValidName(w.Name) {
		l.add("name", FaultBadFormat, "%s is not a name: 1 to %d of a to z, 0 to 9, dot, underscore and dash", brief(w.Name), MaxNameLength)
	}
	checkReceiver(l, w.URL)
	if n := len(w.Secret); n > 0 && (n < MinWebhookSecret || n > MaxWebhookSecret) {
		l.add("secret", FaultOutOfRange, "the secret has %d bytes; it must have %d to %d, %s", n, MinWebhookSecret, MaxWebhookSecret, webhookSecretAdvice)
	}
	for i, e := range items(l, w.Events) {
		checkEnum(l, Path("events").Index(i), e, EventTypes()...)
		if e == "" || slices.Contains(w.Events[:i], e) {
			l.add(Path("events").Index(i), FaultDuplicate, "it is empty, or named twice")
		}
	}
	if w.Group != "" {
		checkSelector(l, w.Group)
	}
	if w.Run != "" && !ValidID(w.Run) {
		l.add("run", FaultBadFormat, "%s is not the id of a run", brief(string(w.Run)))
	}
	if _, ok := w.Start(); !ok {
		l.add("from", FaultBadFormat, "%s is neither %q nor the number of an event", brief(w.From), FromNow)
	}
	return l.faults
}

// Start returns the number of the first event to deliver, 0 if From names none,
// and whether From is well formed.
func (w WebhookSpec) Start() (first int64, ok bool) {
	if w.From == "" || w.From == FromNow {
		return 0, true
	}
	n, err := strconv.ParseInt(w.From, 10, 64)
	return max(1, n), err == nil && n >= 0
}

// checkReceiver checks the URL of a webhook. It must not hold credentials:
// every client that may read webhooks would see them.
func checkReceiver(l *faultList, text string) {
	checkText(l, "url", text)
	u, err := url.Parse(text)
	switch {
	case text == "":
		l.add("url", FaultRequired, "a webhook has a URL")
	case len(text) > MaxURLLength:
		l.add("url", FaultOverLimit, "the URL has %d bytes; the limit is %d", len(text), MaxURLLength)
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		l.add("url", FaultBadFormat, "it is not a URL such as https://ci.example.com/hooks/drover")
	case u.User != nil:
		l.add("url", FaultContradiction, "credentials do not belong into the URL, which others may read: the receiver checks the signature")
	case u.Fragment != "":
		l.add("url", FaultBadFormat, "a URL with a fragment cannot be called")
	}
}

// checkSelector checks a group path that selects a group and all below it; it
// may be shorter than the group of a run.
func checkSelector(l *faultList, group string) {
	switch {
	case len(group) > MaxGroupLength:
		l.add("group", FaultOverLimit, "the group has %d bytes; the limit is %d", len(group), MaxGroupLength)
	case !strings.HasPrefix(group, "/"):
		l.add("group", FaultBadFormat, "the group %s does not begin with a slash", brief(group))
	}
	checkText(l, "group", group)
}
