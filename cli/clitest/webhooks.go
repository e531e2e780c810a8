package clitest

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	"github.com/drover-run/drover/api"
)

// webhookHandlers answers the calls on webhooks.
type webhookHandlers struct{ *Gateway }

func (g webhookHandlers) serve(mux *http.ServeMux) {
	mux.HandleFunc("GET /api/v1/webhooks", g.listWebhooks)
	mux.HandleFunc("GET /api/v1/webhooks/{name}", g.getWebhook)
	mux.HandleFunc("PUT /api/v1/webhooks/{name}", g.putWebhook)
	mux.HandleFunc("DELETE /api/v1/webhooks/{name}", g.deleteWebhook)
	mux.HandleFunc("POST /api/v1/webhooks/{name}/test", g.testWebhook)
}

func (g webhookHandlers) listWebhooks(w http.ResponseWriter, _ *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := api.WebhookList{Webhooks: []api.Webhook{}}
	for _, name := range slices.Sorted(maps.Keys(g.webhooks)) {
		list.Webhooks = append(list.Webhooks, g.webhooks[name])
	}
	answer(w, http.StatusOK, list)
}

func (g webhookHandlers) getWebhook(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	hook, ok := g.webhooks[r.PathValue("name")]
	if !ok {
		notFound(w, "webhook", r.PathValue("name"))
		return
	}
	answer(w, http.StatusOK, hook)
}

// putWebhook creates a webhook. The receiver of the webhook "bad" is unavailable.
func (g webhookHandlers) putWebhook(w http.ResponseWriter, r *http.Request) {
	var spec api.WebhookSpec
	if err := json.NewDecoder(r.Body).Decode(&spec); err != nil {
		problem(w, http.StatusBadRequest, "unreadable", "the body is not JSON")
		return
	}
	name := r.PathValue("name")
	g.mu.Lock()
	defer g.mu.Unlock()
	hook, known := g.webhooks[name]
	if !known && spec.Secret == "" && (spec.Format == "" || spec.Format == "drover") {
		problem(w, http.StatusUnprocessableEntity, "invalid", "the webhook is not valid",
			api.Fault{Path: "secret", Code: "required", Detail: "a new webhook has a secret"})
		return
	}
	status := http.StatusOK
	if !known {
		status = http.StatusCreated
		hook = api.Webhook{Name: name, CreatedAt: Start(), Delivered: 41}
	}
	hook.URL, hook.Events, hook.Group, hook.Run, hook.Enabled = spec.URL, spec.Events, spec.Group, spec.Run, spec.Enabled == nil || *spec.Enabled
	hook.Format, hook.Groups, hook.Results, hook.Email, hook.Template = spec.Format, spec.Groups, spec.Results, spec.Email, spec.Template
	if spec.Format == "slack" {
		hook.URL = "https://hooks.slack.com/[redacted]"
	}
	hook.UpdatedAt = Start()
	if len(hook.Events) == 0 {
		hook.Events = []api.EventType{api.EventTypeRun, api.EventTypeTask}
	}
	if name == "bad" {
		hook.Failures, hook.LastError = 3, "the receiver answered 503 Service Unavailable"
		hook.LastAttemptAt, hook.NextAttemptAt = Start(), Start()
	}
	if g.webhooks == nil {
		g.webhooks = make(map[string]api.Webhook)
	}
	g.webhooks[name] = hook
	answer(w, status, hook)
}

func (g webhookHandlers) deleteWebhook(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.webhooks[r.PathValue("name")]; !ok {
		notFound(w, "webhook", r.PathValue("name"))
		return
	}
	delete(g.webhooks, r.PathValue("name"))
	w.WriteHeader(http.StatusNoContent)
}

// testWebhook answers the first poll after a test with its outcome.
func (g webhookHandlers) testWebhook(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	hook, ok := g.webhooks[r.PathValue("name")]
	if !ok {
		notFound(w, "webhook", r.PathValue("name"))
		return
	}
	hook.Test.Requested++
	answer(w, http.StatusAccepted, hook)
	hook.Test.Done, hook.Test.At = hook.Test.Requested, Start()
	if hook.Name == "bad" {
		hook.Test.Error = "the receiver answered 503 Service Unavailable"
	}
	g.webhooks[hook.Name] = hook
}
