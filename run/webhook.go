package run

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Webhooks is what clients may ask about webhooks: receivers of events that
// Drover calls by itself. Implementations are safe for concurrent use, and fail
// with CodeUnavailable where the records store is out of reach.
type Webhooks interface {
	// Webhooks lists all webhooks, by name.
	Webhooks(ctx context.Context) ([]Webhook, error)
	// Webhook returns one. Errors: not_found.
	Webhook(ctx context.Context, name string) (Webhook, error)
	// PutWebhook makes a webhook, or changes the one of that name, and says
	// whether it is new. It takes effect at once: what was being delivered is
	// given up, and what waits to be tried again is tried again now. Errors:
	// invalid with all faults, exhausted (MaxWebhooks).
	PutWebhook(ctx context.Context, w WebhookSpec) (_ Webhook, created bool, _ error)
	// DeleteWebhook ends a webhook for good. Errors: not_found.
	DeleteWebhook(ctx context.Context, name string) error
}

// Limits of webhooks.
const (
	MaxWebhooks         = 100 // each is a reader of all events
	MaxURLLength        = 2000
	MinWebhookSecret    = 16
	MaxWebhookSecret    = 256
	webhookSecretAdvice = "such as the output of `openssl rand -hex 32`"
)

// FromNow is the place after the last event that there is.
const FromNow = "now"

// WebhookSpec is what a client says of a webhook.
type WebhookSpec struct {
	Name string
	URL  string // http or https
	// Secret signs what is delivered; "" keeps that of the webhook there is.
	Secret Secret
	// Events are the types to deliver; none means all.
	Events  []EventType
	Group   string // only of this group path and below; "" means of all
	Run     ID     // only of this run; "" means of all
	Enabled bool
	// From is where to begin: FromNow, or the number of the first event. ""
	// goes on where the webhook is; a new one begins with FromNow.
	From string
}

// Webhook is a webhook as clients see it.
type Webhook struct {
	Name      string
	URL       string
	Events    []EventType // all, where none were chosen
	Group     string
	Run       ID
	Enabled   bool
	CreatedAt time.Time
	UpdatedAt time.Time
	// Delivered is the number of an event: up to it all are delivered that
	// the webhook selects. It may be behind while nothing is selected.
	Delivered int64
	// LastError says why the last attempt failed; "" where it did not.
	LastError     string
	LastAttemptAt time.Time // zero: none was made; likewise below
	NextAttemptAt time.Time // when it is tried again
	Failures      int       // attempts that failed since the last that did not
}

// EventTypes lists all types of event.
func EventTypes() []EventType { return []EventType{EventRun, EventTask} }

// ValidateWebhook returns the faults of what a client says of a webhook. That
// a new one needs a secret is for others to say.
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

// Start returns the number of the first event to deliver, 0 where From names
// none, and whether From is well formed.
func (w WebhookSpec) Start() (first int64, ok bool) {
	if w.From == "" || w.From == FromNow {
		return 0, true
	}
	n, err := strconv.ParseInt(w.From, 10, 64)
	return max(1, n), err == nil && n >= 0
}

// checkReceiver checks the URL of a webhook. It may not hold credentials:
// whoever may read webhooks would see them.
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

// checkSelector checks a group path that selects what lies at it and below; it
// may be shorter than that of a run.
func checkSelector(l *faultList, group string) {
	switch {
	case len(group) > MaxGroupLength:
		l.add("group", FaultOverLimit, "the group has %d bytes; the limit is %d", len(group), MaxGroupLength)
	case !strings.HasPrefix(group, "/"):
		l.add("group", FaultBadFormat, "the group %s does not begin with a slash", brief(group))
	}
	checkText(l, "group", group)
}
