package spec

import (
	"net/mail"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec/message"
)

const webhookSecretAdvice = "such as the output of `openssl rand -hex 32`"

// ValidateWebhook returns the faults of the specification of a webhook. It does
// not check that a new webhook has a secret.
func ValidateWebhook(w run.WebhookSpec) []run.Fault {
	l := newFaultList()
	if !run.ValidName(w.Name) {
		l.add("name", run.FaultBadFormat, "%s is not a name: 1 to %d of a to z, 0 to 9, dot, underscore and dash", quote(w.Name), run.MaxNameLength)
	}
	checkEnum(l, "format", w.Format, run.WebhookFormats()...)
	checkReceiver(l, w.URL, w.Format)
	checkWebhookSecret(l, w)
	for i, e := range items(l, w.Events) {
		checkEnum(l, run.Path("events").Index(i), e, w.Format.EventTypes()...)
		if e == "" || slices.Contains(w.Events[:i], e) {
			l.add(run.Path("events").Index(i), run.FaultDuplicate, "it is empty, or named twice")
		}
	}
	if w.Group != "" {
		checkSelector(l, w.Group)
	}
	checkWebhookSettings(l, w)
	if w.Run != "" && !run.ValidID(w.Run) {
		l.add("run", run.FaultBadFormat, "%s is not the id of a run", quote(string(w.Run)))
	}
	if _, ok := w.Start(); !ok {
		l.add("from", run.FaultBadFormat, "%s is neither %q nor the number of an event", quote(w.From), run.FromNow)
	}
	return l.faults
}

// checkReceiver checks the URL of a webhook. It must not hold credentials: every
// client that may read webhooks would see them. The URLs of slack and teams are
// secrets as a whole, and hidden.
func checkReceiver(l *faultList, text string, format run.WebhookFormat) {
	checkText(l, "url", text)
	schemes, example := []string{"http", "https"}, "https://ci.example.com/hooks/drover"
	if format == run.WebhookEmail {
		schemes, example = []string{"smtp", "smtps"}, "smtps://mail.example.com:465"
	}
	u, err := url.Parse(text)
	switch {
	case text == "":
		l.add("url", run.FaultRequired, "a webhook has a URL")
	case len(text) > run.MaxURLLength:
		l.add("url", run.FaultOverLimit, "the URL has %d bytes; the limit is %d", len(text), run.MaxURLLength)
	case err != nil || u.Hostname() == "" || !slices.Contains(schemes, u.Scheme):
		l.add("url", run.FaultBadFormat, "it is not a URL such as %s", example)
	case u.User != nil && format == run.WebhookEmail:
		l.add("url", run.FaultContradiction, "credentials do not belong into the URL, which others may read: they are email.username and secret")
	case u.User != nil:
		l.add("url", run.FaultContradiction, "credentials do not belong into the URL, which others may read: the receiver checks the signature")
	case format == run.WebhookEmail && (strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != ""):
		l.add("url", run.FaultBadFormat, "the URL of a mail server has a host and a port only")
	case u.Fragment != "":
		l.add("url", run.FaultBadFormat, "a URL with a fragment cannot be called")
	case run.IsHiddenURL(text) && !format.SecretURL():
		l.add("url", run.FaultBadFormat, "it is the hidden form of a secret URL")
	}
}

func checkWebhookSecret(l *faultList, w run.WebhookSpec) {
	n := len(w.Secret)
	switch {
	case n == 0:
	case w.Format.SecretURL():
		l.add("secret", run.FaultContradiction, "the format %s has no secret but its URL", w.Format)
	case w.Format == run.WebhookEmail && (w.Email == nil || w.Email.Username == ""):
		l.add("secret", run.FaultContradiction, "a password needs email.username")
	case w.Format == run.WebhookEmail && n > run.MaxWebhookSecret:
		l.add("secret", run.FaultOutOfRange, "the password has %d bytes; the limit is %d", n, run.MaxWebhookSecret)
	case w.Format == run.WebhookEmail:
	case n < run.MinWebhookSecret || n > run.MaxWebhookSecret:
		l.add("secret", run.FaultOutOfRange, "the secret has %d bytes; it must have %d to %d, %s", n, run.MinWebhookSecret, run.MaxWebhookSecret, webhookSecretAdvice)
	}
}

func checkWebhookSettings(l *faultList, w run.WebhookSpec) {
	if n := len(w.Groups); n > run.MaxWebhookGroups {
		l.add("groups", run.FaultOverLimit, "there are %d patterns; the limit is %d", n, run.MaxWebhookGroups)
	}
	for i, g := range items(l, w.Groups) {
		checkGroupPattern(l, run.Path("groups").Index(i), g)
	}
	for i, o := range items(l, w.Results) {
		at := run.Path("results").Index(i)
		checkEnum(l, at, o, run.Outcomes()...)
		if o == "" || slices.Contains(w.Results[:i], o) {
			l.add(at, run.FaultDuplicate, "it is empty, or named twice")
		}
	}
	checkEmail(l, w)
	if w.Template == nil {
		return
	}
	if !w.Format.Messages() {
		l.add("template", run.FaultContradiction, "the format drover has no messages")
		return
	}
	for _, t := range []struct {
		path run.Path
		text string
	}{{"template.title", w.Template.Title}, {"template.text", w.Template.Text}} {
		checkText(l, t.path, t.text)
		if err := message.Check(t.text); err != nil {
			l.add(t.path, run.FaultBadValue, "the template cannot be used: %s", message.Clean(err.Error(), 300))
		}
	}
}

func checkGroupPattern(l *faultList, at run.Path, pattern string) {
	switch _, err := path.Match(pattern, ""); {
	case len(pattern) > run.MaxGroupLength:
		l.add(at, run.FaultOverLimit, "the pattern has %d bytes; the limit is %d", len(pattern), run.MaxGroupLength)
	case !strings.HasPrefix(pattern, "/"):
		l.add(at, run.FaultBadFormat, "the pattern %s does not begin with a slash", quote(pattern))
	case err != nil:
		l.add(at, run.FaultBadFormat, "%s is not a pattern", quote(pattern))
	}
	checkText(l, at, pattern)
}

// checkEmail checks the addresses: each is one mailbox, so that none adds headers
// or recipients.
func checkEmail(l *faultList, w run.WebhookSpec) {
	switch e := w.Email; {
	case e == nil && w.Format == run.WebhookEmail:
		l.add("email", run.FaultRequired, "the format email needs email.from and email.to")
	case e == nil:
	case w.Format != run.WebhookEmail:
		l.add("email", run.FaultContradiction, "only the format email has it")
	default:
		checkMailbox(l, "email.from", e.From)
		if n := len(e.To); n == 0 || n > run.MaxRecipients {
			l.add("email.to", run.FaultOutOfRange, "there are %d recipients; there must be 1 to %d", n, run.MaxRecipients)
		}
		for i, to := range items(l, e.To) {
			checkMailbox(l, run.Path("email.to").Index(i), to)
		}
		if len(e.Username) > run.MaxEmailUser || strings.ContainsFunc(e.Username, unicode.IsControl) {
			l.add("email.username", run.FaultBadFormat, "it is longer than %d bytes, or has control characters", run.MaxEmailUser)
		}
		checkEnum(l, "email.starttls", e.StartTLS, run.StartTLSRequired, run.StartTLSOptional)
	}
}

func checkMailbox(l *faultList, at run.Path, text string) {
	checkText(l, at, text)
	address, err := mail.ParseAddress(text)
	if err != nil || len(text) > run.MaxEmailAddress || strings.ContainsFunc(text, unicode.IsControl) || strings.ContainsAny(address.Address, "\" ") {
		l.add(at, run.FaultBadFormat, "%s is not an address such as ci@example.com", quote(text))
	}
}

// checkSelector checks a group path that selects a group and all below it; it
// may be shorter than the group of a run.
func checkSelector(l *faultList, group string) {
	switch {
	case len(group) > run.MaxGroupLength:
		l.add("group", run.FaultOverLimit, "the group has %d bytes; the limit is %d", len(group), run.MaxGroupLength)
	case !strings.HasPrefix(group, "/"):
		l.add("group", run.FaultBadFormat, "the group %s does not begin with a slash", quote(group))
	}
	checkText(l, "group", group)
}
