package spec_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

func TestValidateWebhook(t *testing.T) {
	t.Parallel()
	good := func() run.WebhookSpec {
		return run.WebhookSpec{
			Name: "ci", URL: "https://ci.example.com:8443/hooks/drover?x=y", Secret: "0123456789abcdef", Group: "/a", Run: "01k0000000000000000000000a",
			Events: run.EventTypes(), Enabled: true, From: "12",
		}
	}
	require.Empty(t, spec.ValidateWebhook(good()))
	require.Empty(t, spec.ValidateWebhook(run.WebhookSpec{Name: "a", URL: "http://127.0.0.1", From: run.FromNow}))
	for name, tt := range map[string]struct {
		change func(*run.WebhookSpec)
		path   string
		code   run.Code
	}{
		"no_name":       {func(w *run.WebhookSpec) { w.Name = "" }, "name", run.FaultBadFormat},
		"bad_name":      {func(w *run.WebhookSpec) { w.Name = "A b" }, "name", run.FaultBadFormat},
		"no_url":        {func(w *run.WebhookSpec) { w.URL = "" }, "url", run.FaultRequired},
		"no_host":       {func(w *run.WebhookSpec) { w.URL = "http:///x" }, "url", run.FaultBadFormat},
		"other_scheme":  {func(w *run.WebhookSpec) { w.URL = "file:///etc/passwd" }, "url", run.FaultBadFormat},
		"not_a_url":     {func(w *run.WebhookSpec) { w.URL = "http://a b" }, "url", run.FaultBadFormat},
		"long_url":      {func(w *run.WebhookSpec) { w.URL += strings.Repeat("x", 2000) }, "url", run.FaultOverLimit},
		"credentials":   {func(w *run.WebhookSpec) { w.URL = "http://u:p@x" }, "url", run.FaultContradiction},
		"fragment":      {func(w *run.WebhookSpec) { w.URL = "http://x/#a" }, "url", run.FaultBadFormat},
		"short_secret":  {func(w *run.WebhookSpec) { w.Secret = "short" }, "secret", run.FaultOutOfRange},
		"long_secret":   {func(w *run.WebhookSpec) { w.Secret = run.Secret(strings.Repeat("x", 257)) }, "secret", run.FaultOutOfRange},
		"unknown_event": {func(w *run.WebhookSpec) { w.Events = []run.EventType{"runs"} }, "events[0]", run.FaultBadValue},
		"same_event":    {func(w *run.WebhookSpec) { w.Events = []run.EventType{"run", "run"} }, "events[1]", run.FaultDuplicate},
		"group":         {func(w *run.WebhookSpec) { w.Group = "a/b" }, "group", run.FaultBadFormat},
		"run":           {func(w *run.WebhookSpec) { w.Run = "42" }, "run", run.FaultBadFormat},
		"from":          {func(w *run.WebhookSpec) { w.From = "yesterday" }, "from", run.FaultBadFormat},
		"from_negative": {func(w *run.WebhookSpec) { w.From = "-1" }, "from", run.FaultBadFormat},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := good()
			tt.change(&w)
			faults := spec.ValidateWebhook(w)
			require.Len(t, faults, 1)
			require.Equal(t, tt.path, faults[0].Path)
			require.Equal(t, tt.code, faults[0].Code)
			require.NotContains(t, faults[0].Detail, "short")
		})
	}
}

func TestValidateWebhook_formats(t *testing.T) {
	t.Parallel()
	slack := func() run.WebhookSpec {
		return run.WebhookSpec{Name: "ci", Format: run.WebhookSlack, URL: "https://hooks.slack.com/services/T0/B0/x", WebhookSettings: run.WebhookSettings{
			Groups: []string{"/team/*/deploy"}, Results: run.Outcomes(), Template: &run.MessageTemplate{Text: "{{.Name}}"},
		}}
	}
	email := func() run.WebhookSpec {
		return run.WebhookSpec{Name: "ci", Format: run.WebhookEmail, URL: "smtps://mail.example.com:465", Secret: "short", WebhookSettings: run.WebhookSettings{
			Email: &run.Email{From: "Drover <ci@example.com>", To: []string{"a@example.com", "b@example.com"}, Username: "ci"},
		}}
	}
	require.Empty(t, spec.ValidateWebhook(slack()))
	require.Empty(t, spec.ValidateWebhook(email()))
	hidden := slack()
	hidden.URL = run.HiddenURL(hidden.URL)
	require.Empty(t, spec.ValidateWebhook(hidden))
	for name, tt := range map[string]struct {
		of     func() run.WebhookSpec
		change func(*run.WebhookSpec)
		path   string
		code   run.Code
	}{
		"format":          {slack, func(w *run.WebhookSpec) { w.Format = "irc" }, "format", run.FaultBadValue},
		"tasks":           {slack, func(w *run.WebhookSpec) { w.Events = []run.EventType{run.EventTask} }, "events[0]", run.FaultBadValue},
		"secret":          {slack, func(w *run.WebhookSpec) { w.Secret = "0123456789abcdef" }, "secret", run.FaultContradiction},
		"result":          {slack, func(w *run.WebhookSpec) { w.Results = []run.Outcome{"broken"} }, "results[0]", run.FaultBadValue},
		"results":         {slack, func(w *run.WebhookSpec) { w.Results = []run.Outcome{"failed", "failed"} }, "results[1]", run.FaultDuplicate},
		"group":           {slack, func(w *run.WebhookSpec) { w.Groups = []string{"team"} }, "groups[0]", run.FaultBadFormat},
		"pattern":         {slack, func(w *run.WebhookSpec) { w.Groups = []string{"/a/[b"} }, "groups[0]", run.FaultBadFormat},
		"groups":          {slack, func(w *run.WebhookSpec) { w.Groups = slices.Repeat([]string{"/a"}, 21) }, "groups", run.FaultOverLimit},
		"template":        {slack, func(w *run.WebhookSpec) { w.Template.Title = "{{.Secret}}" }, "template.title", run.FaultBadValue},
		"template_drover": {slack, func(w *run.WebhookSpec) { w.Format = "" }, "template", run.FaultContradiction},
		"no_email":        {email, func(w *run.WebhookSpec) { w.Email, w.Secret = nil, "" }, "email", run.FaultRequired},
		"email_of_slack":  {email, func(w *run.WebhookSpec) { w.Format, w.Secret, w.URL = run.WebhookSlack, "", "https://x" }, "email", run.FaultContradiction},
		"http":            {email, func(w *run.WebhookSpec) { w.URL = "https://mail.example.com" }, "url", run.FaultBadFormat},
		"path":            {email, func(w *run.WebhookSpec) { w.URL += "/x" }, "url", run.FaultBadFormat},
		"credentials":     {email, func(w *run.WebhookSpec) { w.URL = "smtp://a:b@x" }, "url", run.FaultContradiction},
		"from":            {email, func(w *run.WebhookSpec) { w.Email.From = "ci" }, "email.from", run.FaultBadFormat},
		"header":          {email, func(w *run.WebhookSpec) { w.Email.From = "Drover\r\nBcc: a@b.c <ci@example.com>" }, "email.from", run.FaultBadFormat},
		"no_one":          {email, func(w *run.WebhookSpec) { w.Email.To = nil }, "email.to", run.FaultOutOfRange},
		"two_in_one":      {email, func(w *run.WebhookSpec) { w.Email.To[0] = "a@example.com, b@example.com" }, "email.to[0]", run.FaultBadFormat},
		"no_user":         {email, func(w *run.WebhookSpec) { w.Email.Username = "" }, "secret", run.FaultContradiction},
		"starttls":        {email, func(w *run.WebhookSpec) { w.Email.StartTLS = "never" }, "email.starttls", run.FaultBadValue},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := tt.of()
			tt.change(&w)
			faults := spec.ValidateWebhook(w)
			require.Len(t, faults, 1)
			require.Equal(t, tt.path, faults[0].Path)
			require.Equal(t, tt.code, faults[0].Code)
			require.NotContains(t, faults[0].Detail, "short")
		})
	}
}
