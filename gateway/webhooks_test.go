package gateway_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/gateway"
	"github.com/drover-run/drover/internal/tokens"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/runtest"
)

const hookPath = "/api/v1/webhooks/ci"

func TestServer_webhooks(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.FixedZone("", 3600))
	hook := run.Webhook{
		Name: "ci", URL: "http://x", Events: []run.EventType{run.EventRun}, Group: "/a", Run: runID, Enabled: true, CreatedAt: at, UpdatedAt: at,
		Delivered: 7, LastError: "no", LastAttemptAt: at, NextAttemptAt: at, Failures: 2, Format: run.WebhookEmail,
		WebhookSettings: run.WebhookSettings{
			Groups: []string{"/a/*"}, Results: []run.Outcome{run.OutcomeFailed}, Template: &run.MessageTemplate{Title: "t", Text: "x"},
			Email: &run.Email{From: "a@b", To: []string{"c@d"}, Username: "u", StartTLS: run.StartTLSOptional},
		},
		Test: run.WebhookTest{Requested: 2, Done: 1, Error: "refused", At: at},
	}
	deleted := make(chan string, 1)
	base := serve(t, gateway.Deps{Webhooks: &runtest.Webhooks{
		WebhooksFunc:      func() ([]run.Webhook, error) { return []run.Webhook{hook}, nil },
		WebhookFunc:       func(string) (run.Webhook, error) { return hook, nil },
		DeleteWebhookFunc: func(name string) error { deleted <- name; return nil },
		TestWebhookFunc:   func(string) (run.Webhook, error) { return hook, nil },
	}}, gateway.Options{})
	want := api.Webhook{
		Name: "ci", URL: "http://x", Events: []api.EventType{"run"}, Group: "/a", Run: runID, Enabled: true, CreatedAt: at.UTC(), UpdatedAt: at.UTC(),
		Delivered: 7, LastError: "no", LastAttemptAt: at.UTC(), NextAttemptAt: at.UTC(), Failures: 2, Format: "email",
		Groups: []string{"/a/*"}, Results: []api.Outcome{"failed"}, Template: api.WebhookTemplate{Title: "t", Text: "x"},
		Email: api.WebhookEmail{From: "a@b", To: []string{"c@d"}, Username: "u", Starttls: "optional"},
		Test:  api.WebhookTest{Requested: 2, Done: 1, Error: "refused", At: at.UTC()},
	}
	var list api.WebhookList
	call{path: "/api/v1/webhooks"}.do(t, base).read(t, &list)
	require.Equal(t, api.WebhookList{Webhooks: []api.Webhook{want}}, list)
	var got api.Webhook
	call{path: hookPath}.do(t, base).read(t, &got)
	require.Equal(t, want, got)
	tested := call{method: http.MethodPost, path: hookPath + "/test", body: "{}"}.do(t, base)
	require.Equal(t, http.StatusAccepted, tested.status, tested.body)
	gone := call{method: http.MethodDelete, path: hookPath, header: map[string]string{"Content-Type": ""}}.do(t, base)
	require.Equal(t, http.StatusNoContent, gone.status)
	require.Empty(t, gone.body)
	require.Equal(t, "ci", <-deleted)
}

func TestServer_webhooks_put(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		body string
		want run.WebhookSpec
	}{
		"least":    {`{"url":"http://x"}`, run.WebhookSpec{Enabled: true}},
		"disabled": {`{"url":"http://x","enabled":false}`, run.WebhookSpec{}},
		"now":      {`{"url":"http://x","from":"now"}`, run.WebhookSpec{Enabled: true, From: "now"}},
		"number":   {`{"url":"http://x","from":12}`, run.WebhookSpec{Enabled: true, From: "12"}},
		"odd":      {`{"url":"http://x","from":1.5}`, run.WebhookSpec{Enabled: true, From: "1.5"}},
		"all": {
			`{"url":"http://x","secret":"s","events":["task"],"group":"/a","run":"r","from":"0"}`,
			run.WebhookSpec{Secret: "s", Events: []run.EventType{run.EventTask}, Group: "/a", Run: "r", Enabled: true, From: "0"},
		},
		"messages": {
			`{"url":"http://x","format":"email","groups":["/b"],"results":["failed"],"email":{"from":"f","to":["t"],"username":"u","starttls":"optional"},
				"template":{"title":"t","text":"x"}}`,
			run.WebhookSpec{Format: run.WebhookEmail, Enabled: true, WebhookSettings: run.WebhookSettings{
				Groups: []string{"/b"}, Results: []run.Outcome{run.OutcomeFailed}, Template: &run.MessageTemplate{Title: "t", Text: "x"},
				Email: &run.Email{From: "f", To: []string{"t"}, Username: "u", StartTLS: run.StartTLSOptional},
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.want.Name, tt.want.URL = "ci", "http://x"
			for _, created := range []bool{true, false} {
				received := make(chan run.WebhookSpec, 1)
				base := serve(t, gateway.Deps{Webhooks: &runtest.Webhooks{
					PutWebhookFunc: func(w run.WebhookSpec) (run.Webhook, bool, error) {
						received <- w
						return run.Webhook{Name: w.Name}, created, nil
					},
				}}, gateway.Options{})
				got := call{method: http.MethodPut, path: hookPath, body: tt.body}.do(t, base)
				require.Equal(t, map[bool]int{true: http.StatusCreated, false: http.StatusOK}[created], got.status, got.body)
				require.Equal(t, map[bool]string{true: hookPath}[created], got.header.Get("Location"))
				require.Equal(t, tt.want, <-received)
			}
		})
	}
}

func TestServer_webhooks_refused(t *testing.T) {
	t.Parallel()
	base := serve(t, gateway.Deps{Webhooks: &runtest.Webhooks{}}, gateway.Options{})
	p := call{method: http.MethodPut, path: hookPath, body: `{"url":"http://x","secrte":"correct horse"}`}.do(t, base).
		problem(t, http.StatusUnprocessableEntity, run.CodeInvalid)
	require.Contains(t, p.Detail, "secrte")
	call{method: http.MethodPut, path: hookPath, body: `{"url":`}.do(t, base).problem(t, http.StatusBadRequest, run.CodeUnreadable)
	none := serve(t, gateway.Deps{}, gateway.Options{})
	call{path: hookPath}.do(t, none).problem(t, http.StatusUnprocessableEntity, run.CodeNotSupported)
}

func TestServer_webhooks_are_for_admins(t *testing.T) {
	t.Parallel()
	known, err := tokens.NewList([]tokens.Token{{Name: "w", Hash: tokens.Hash("w"), Scopes: []tokens.Scope{tokens.Write}}})
	require.NoError(t, err)
	base := serve(t, gateway.Deps{Webhooks: &runtest.Webhooks{}, Auth: known}, gateway.Options{})
	call{path: hookPath, header: map[string]string{"Authorization": "Bearer w"}}.do(t, base).problem(t, http.StatusForbidden, run.CodeForbidden)
}
