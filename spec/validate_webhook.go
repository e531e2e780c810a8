package spec

import (
	"net/url"
	"slices"
	"strings"

	"github.com/drover-run/drover/run"
)

const webhookSecretAdvice = "such as the output of `openssl rand -hex 32`"

// ValidateWebhook returns the faults of the specification of a webhook. It does
// not check that a new webhook has a secret.
func ValidateWebhook(w run.WebhookSpec) []run.Fault {
	l := newFaultList()
	if !run.ValidName(w.Name) {
		l.add("name", run.FaultBadFormat, "%s is not a name: 1 to %d of a to z, 0 to 9, dot, underscore and dash", quote(w.Name), run.MaxNameLength)
	}
	checkReceiver(l, w.URL)
	if n := len(w.Secret); n > 0 && (n < run.MinWebhookSecret || n > run.MaxWebhookSecret) {
		l.add("secret", run.FaultOutOfRange, "the secret has %d bytes; it must have %d to %d, %s", n, run.MinWebhookSecret, run.MaxWebhookSecret, webhookSecretAdvice)
	}
	for i, e := range items(l, w.Events) {
		checkEnum(l, run.Path("events").Index(i), e, run.EventTypes()...)
		if e == "" || slices.Contains(w.Events[:i], e) {
			l.add(run.Path("events").Index(i), run.FaultDuplicate, "it is empty, or named twice")
		}
	}
	if w.Group != "" {
		checkSelector(l, w.Group)
	}
	if w.Run != "" && !run.ValidID(w.Run) {
		l.add("run", run.FaultBadFormat, "%s is not the id of a run", quote(string(w.Run)))
	}
	if _, ok := w.Start(); !ok {
		l.add("from", run.FaultBadFormat, "%s is neither %q nor the number of an event", quote(w.From), run.FromNow)
	}
	return l.faults
}

// checkReceiver checks the URL of a webhook. It must not hold credentials:
// every client that may read webhooks would see them.
func checkReceiver(l *faultList, text string) {
	checkText(l, "url", text)
	u, err := url.Parse(text)
	switch {
	case text == "":
		l.add("url", run.FaultRequired, "a webhook has a URL")
	case len(text) > run.MaxURLLength:
		l.add("url", run.FaultOverLimit, "the URL has %d bytes; the limit is %d", len(text), run.MaxURLLength)
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		l.add("url", run.FaultBadFormat, "it is not a URL such as https://ci.example.com/hooks/drover")
	case u.User != nil:
		l.add("url", run.FaultContradiction, "credentials do not belong into the URL, which others may read: the receiver checks the signature")
	case u.Fragment != "":
		l.add("url", run.FaultBadFormat, "a URL with a fragment cannot be called")
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
