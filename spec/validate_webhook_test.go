package spec_test

import (
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
