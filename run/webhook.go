package run

import (
	"context"
	"net/url"
	"path"
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
	// TestWebhook requests that the worker that delivers the webhook sends a
	// sample to its receiver. WebhookTest.Requested of the result is the number of
	// the request; its outcome is known once Done has reached that number. Errors:
	// not_found, conflict (the webhook is disabled).
	TestWebhook(ctx context.Context, name string) (Webhook, error)
}

// Limits of webhooks.
const (
	MaxWebhooks      = 100 // each reads all events
	MaxURLLength     = 2000
	MinWebhookSecret = 16
	MaxWebhookSecret = 256
	MaxWebhookGroups = 20
	MaxRecipients    = 50
	MaxEmailAddress  = 254
	MaxEmailUser     = 256
	// MaxTemplateLength bounds each text of a MessageTemplate, in bytes.
	MaxTemplateLength = 4096
)

// WebhookFormat is the form in which a webhook delivers events.
type WebhookFormat string

// The formats of webhooks.
const (
	WebhookDrover WebhookFormat = "drover" // batches of events as JSON, signed
	WebhookSlack  WebhookFormat = "slack"  // messages to an incoming webhook of Slack
	WebhookTeams  WebhookFormat = "teams"  // adaptive cards to a workflow of Microsoft Teams
	WebhookEmail  WebhookFormat = "email"  // e-mails by SMTP
)

// WebhookFormats lists all formats.
func WebhookFormats() []WebhookFormat {
	return []WebhookFormat{WebhookDrover, WebhookSlack, WebhookTeams, WebhookEmail}
}

// Messages reports whether each event is a message for people, instead of
// batches for programs.
func (f WebhookFormat) Messages() bool { return f != "" && f != WebhookDrover }

// SecretURL reports whether the URL of the receiver is a secret: a client that knows
// it can post.
func (f WebhookFormat) SecretURL() bool { return f == WebhookSlack || f == WebhookTeams }

// EventTypes returns the types of event that a webhook of the format can
// deliver. They are also the default.
func (f WebhookFormat) EventTypes() []EventType {
	if f.Messages() {
		return []EventType{EventRun, EventApprovalWanted}
	}
	return EventTypes()
}

// HiddenURL returns a URL with its scheme and host only, as a listing shows the
// URL of a format with SecretURL. It is not a URL of a receiver.
func HiddenURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return redacted
	}
	return u.Scheme + "://" + u.Host + "/" + redacted
}

// IsHiddenURL reports whether a URL is what HiddenURL returns.
func IsHiddenURL(text string) bool { return strings.HasSuffix(text, "/"+redacted) }

// Outcome is how a run ended, as filters of webhooks name it.
type Outcome string

// The outcomes.
const (
	OutcomeSuccess    Outcome = "success"  // without warnings
	OutcomeWarnings   Outcome = "warnings" // success, but tasks failed whose failure is allowed
	OutcomeFailed     Outcome = "failed"
	OutcomeStopped    Outcome = "stopped"
	OutcomeCancelled  Outcome = "cancelled"
	OutcomeSetupError Outcome = "setup_error"
)

// Outcomes lists all outcomes.
func Outcomes() []Outcome {
	return []Outcome{OutcomeSuccess, OutcomeWarnings, OutcomeFailed, OutcomeStopped, OutcomeCancelled, OutcomeSetupError}
}

// OutcomeOf returns the outcome of a run, "" if it has not ended. A run with the
// result success that has failed tasks succeeded with warnings.
func OutcomeOf(phase Phase, result Result, failedTasks int) Outcome {
	switch phase {
	case PhaseCancelled:
		return OutcomeCancelled
	case PhaseSetupError:
		return OutcomeSetupError
	case PhaseFinished:
	case PhaseQueued, PhaseRunning:
		return ""
	}
	switch {
	case result == ResultSuccess && failedTasks > 0:
		return OutcomeWarnings
	case result == ResultSuccess:
		return OutcomeSuccess
	case result == ResultStopped:
		return OutcomeStopped
	}
	return OutcomeFailed
}

// Email is where and how a webhook with the format email sends its messages. The
// webhook's URL is the SMTP server, its secret the password.
type Email struct {
	From     string   `json:"from"`
	To       []string `json:"to"`
	Username string   `json:"username,omitempty"` // "" for no authentication
	// StartTLS says whether a server with the scheme smtp must offer STARTTLS.
	StartTLS StartTLS `json:"starttls,omitempty"`
}

// StartTLS says whether a mail server must offer STARTTLS.
type StartTLS string

// The values of StartTLS; "" means required.
const (
	StartTLSRequired StartTLS = "required"
	StartTLSOptional StartTLS = "optional"
)

// MessageTemplate replaces the texts of messages. Package spec/message says what
// a template may read. "" keeps the text of Drover.
type MessageTemplate struct {
	Title string `json:"title,omitempty"`
	Text  string `json:"text,omitempty"`
}

// FromNow is the position after the last event.
const FromNow = "now"

// WebhookSpec is the specification of a webhook.
type WebhookSpec struct {
	Name string
	// URL of the receiver: http or https; smtp or smtps for the format email. What
	// HiddenURL returns keeps the URL of an existing webhook.
	URL    string
	Format WebhookFormat // "" means WebhookDrover
	// Secret signs the deliveries, or is the password of the mail server; ""
	// keeps the secret of the existing webhook.
	Secret Secret
	// Events are the types to deliver; none means all.
	Events  []EventType
	Group   string // only of this group path and below; "" means all groups
	Run     ID     // only of this run; "" means all runs
	Enabled bool
	WebhookSettings
	// From is the position of the first delivery: FromNow, or the number of the
	// first event. "" continues at the position of an existing webhook; a new
	// one begins with FromNow.
	From string
}

// WebhookSettings are the settings of a webhook that select events further, and
// say how messages look.
type WebhookSettings struct {
	// Groups selects events of groups: of those that match one of the patterns and
	// of all groups below; none means all. See MatchGroup.
	Groups []string `json:"groups,omitempty"`
	// Results selects, of the events of runs, those of the end of a run with one
	// of these outcomes; none means all.
	Results  []Outcome        `json:"results,omitempty"`
	Email    *Email           `json:"email,omitempty"` // of WebhookEmail
	Template *MessageTemplate `json:"template,omitempty"`
}

// Webhook is a webhook as clients see it.
type Webhook struct {
	Name      string
	URL       string // as HiddenURL returns it if it is a secret
	Format    WebhookFormat
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
	WebhookSettings
	Test WebhookTest
}

// WebhookTest is the state of the samples that clients requested.
type WebhookTest struct {
	Requested int64 // the number of requests
	Done      int64 // the request that was answered last
	Error     string
	At        time.Time
}

// EventTypes lists all types of event.
func EventTypes() []EventType {
	return []EventType{EventRun, EventTask, EventStage, EventExec, EventApprovalWanted}
}

// MatchGroup reports whether a group is selected by a pattern: a group path that
// selects the group and all below it. An element of the pattern may have the
// wildcards of path.Match, which match within one element.
func MatchGroup(pattern, group string) bool {
	want, have := elements(pattern), elements(group)
	if len(want) > len(have) {
		return false
	}
	for i, w := range want {
		if ok, err := path.Match(w, have[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

func elements(group string) []string {
	group = strings.Trim(group, "/")
	if group == "" {
		return nil
	}
	return strings.Split(group, "/")
}

// groupsBelow ends a pattern of groups.
const groupsBelow = "/**"

// AllGroups is the pattern of all groups.
const AllGroups = groupsBelow

// GroupPattern returns the path of a pattern such as /acme/**, which selects the group
// /acme and all groups below it. The path of /**, which selects all groups, is "".
// Errors: invalid.
func GroupPattern(pattern string) (path string, err error) {
	path, ok := strings.CutSuffix(pattern, groupsBelow)
	if !ok || len(pattern) > MaxGroupLength || path != "" && !strings.HasPrefix(path, "/") {
		return "", Errorf(CodeInvalid, "%q is not a pattern of groups such as /acme/**", pattern)
	}
	for _, element := range elements(path) {
		if element == "" || element == "." || element == ".." || strings.Contains(element, "*") {
			return "", Errorf(CodeInvalid, "%q is not a pattern of groups: only /** at its end is a wildcard", pattern)
		}
	}
	if strings.HasSuffix(path, "/") {
		return "", Errorf(CodeInvalid, "%q is not a pattern of groups: it has an empty element", pattern)
	}
	return path, nil
}

// GroupWithin reports whether a group is a path, or is below it. All groups are within "".
func GroupWithin(group, path string) bool {
	return path == "" || group == path || strings.HasPrefix(group, path+"/")
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
