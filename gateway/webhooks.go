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
		Name: name, URL: body.URL, Secret: run.Secret(body.Secret), Events: convert[run.EventType](body.Events), Group: body.Group,
		Run: run.ID(body.Run), Enabled: body.Enabled == nil || *body.Enabled, From: string(body.From),
	})
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
		c.Response().Header().Set("Location", "/api/v1/webhooks/"+url.PathEscape(name))
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

func viewWebhook(w run.Webhook) api.Webhook {
	return api.Webhook{
		Name: w.Name, URL: w.URL, Events: convert[api.EventType](w.Events), Group: w.Group, Run: string(w.Run), Enabled: w.Enabled,
		CreatedAt: w.CreatedAt.UTC(), UpdatedAt: w.UpdatedAt.UTC(), Delivered: w.Delivered, LastError: w.LastError,
		LastAttemptAt: w.LastAttemptAt.UTC(), NextAttemptAt: w.NextAttemptAt.UTC(), Failures: w.Failures,
	}
}
