package gateway

import (
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/run"
)

// errNoWebhooks is the error of gateways without run.Webhooks.
func errNoWebhooks() error {
	return run.Errorf(run.CodeNotSupported, "this gateway does not serve webhooks")
}

// ListWebhooks implements ServerInterface.
func (s *Server) ListWebhooks(c echo.Context) error {
	if s.webhooks == nil {
		return errNoWebhooks()
	}
	all, err := s.webhooks.Webhooks(c.Request().Context())
	if err != nil {
		return err
	}
	v := api.WebhookList{Webhooks: make([]api.Webhook, len(all))}
	for i, w := range all {
		v.Webhooks[i] = viewWebhook(w)
	}
	return writeJSON(c, http.StatusOK, mediaJSON, v)
}

// GetWebhook implements ServerInterface.
func (s *Server) GetWebhook(c echo.Context, name api.WebhookName) error {
	if s.webhooks == nil {
		return errNoWebhooks()
	}
	w, err := s.webhooks.Webhook(c.Request().Context(), name)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, mediaJSON, viewWebhook(w))
}

// PutWebhook implements ServerInterface.
func (s *Server) PutWebhook(c echo.Context, name api.WebhookName) error {
	if s.webhooks == nil {
		return errNoWebhooks()
	}
	var body api.WebhookSpec
	if err := s.decode(c, &body, strict); err != nil {
		return err
	}
	w, created, err := s.webhooks.PutWebhook(c.Request().Context(), run.WebhookSpec{
		Name: name, URL: body.URL, Format: run.WebhookFormat(body.Format), Secret: run.Secret(body.Secret), Events: convert[run.EventType](body.Events),
		Group: body.Group, Run: run.ID(body.Run), Enabled: body.Enabled == nil || *body.Enabled, From: string(body.From),
		WebhookSettings: webhookSettings(body),
	})
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
		c.Response().Header().Set("Location", s.base.Join("/api/v1/webhooks/"+url.PathEscape(name)))
	}
	return writeJSON(c, status, mediaJSON, viewWebhook(w))
}

// DeleteWebhook implements ServerInterface.
func (s *Server) DeleteWebhook(c echo.Context, name api.WebhookName) error {
	if s.webhooks == nil {
		return errNoWebhooks()
	}
	if err := s.decode(c, &struct{}{}, strict); err != nil {
		return err
	}
	if err := s.webhooks.DeleteWebhook(c.Request().Context(), name); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// TestWebhook implements ServerInterface.
func (s *Server) TestWebhook(c echo.Context, name api.WebhookName) error {
	if s.webhooks == nil {
		return errNoWebhooks()
	}
	if err := s.decode(c, &struct{}{}, strict); err != nil {
		return err
	}
	w, err := s.webhooks.TestWebhook(c.Request().Context(), name)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusAccepted, mediaJSON, viewWebhook(w))
}

func webhookSettings(body api.WebhookSpec) run.WebhookSettings {
	s := run.WebhookSettings{Groups: body.Groups, Results: convert[run.Outcome](body.Results)}
	if e := body.Email; e.From != "" || e.To != nil || e.Username != "" || e.Starttls != "" {
		s.Email = &run.Email{From: e.From, To: e.To, Username: e.Username, StartTLS: run.StartTLS(e.Starttls)}
	}
	if t := body.Template; t != (api.WebhookTemplate{}) {
		s.Template = &run.MessageTemplate{Title: t.Title, Text: t.Text}
	}
	return s
}

func viewWebhook(w run.Webhook) api.Webhook {
	v := api.Webhook{
		Name: w.Name, URL: w.URL, Format: api.WebhookFormat(w.Format), Groups: w.Groups, Results: convert[api.Outcome](w.Results), Events: convert[api.EventType](w.Events), Group: w.Group, Run: string(w.Run), Enabled: w.Enabled,
		CreatedAt: w.CreatedAt.UTC(), UpdatedAt: w.UpdatedAt.UTC(), Delivered: w.Delivered, LastError: w.LastError,
		LastAttemptAt: w.LastAttemptAt.UTC(), NextAttemptAt: w.NextAttemptAt.UTC(), Failures: w.Failures,
		Test: api.WebhookTest{Requested: w.Test.Requested, Done: w.Test.Done, Error: w.Test.Error, At: w.Test.At.UTC()},
	}
	if e := w.Email; e != nil {
		v.Email = api.WebhookEmail{From: e.From, To: e.To, Username: e.Username, Starttls: api.WebhookEmailStarttls(e.StartTLS)}
	}
	if t := w.Template; t != nil {
		v.Template = api.WebhookTemplate{Title: t.Title, Text: t.Text}
	}
	return v
}
