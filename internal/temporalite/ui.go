package temporalite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/temporalio/ui-server/v2/server/api"
	"github.com/temporalio/ui-server/v2/server/auth"
	uiconfig "github.com/temporalio/ui-server/v2/server/config"
	"github.com/temporalio/ui-server/v2/server/csrf"
	"github.com/temporalio/ui-server/v2/server/headers"
	"github.com/temporalio/ui-server/v2/server/route"
	"github.com/temporalio/ui-server/v2/ui"

	"github.com/drover-run/drover/internal/hostcheck"
)

// startUI serves Temporal's web UI until the returned function is called.
func startUI(ctx context.Context, o Options) (stop func(), err error) {
	handler, err := uiHandler(o)
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.UI)
	if err != nil {
		return nil, fmt.Errorf("listen for the temporal ui: %w", err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			o.Logger.ErrorContext(ctx, "failed to serve the temporal ui", "error", err)
		}
	}()
	return func() {
		_ = server.Close()
		<-done
	}, nil
}

// uiHandler builds the handlers as the UI's own server does. That server accepts
// any host and any origin and has no hook for a check before its handlers, and the
// UI has no authentication here.
func uiHandler(o Options) (http.Handler, error) {
	cfg, err := uiconfig.NewConfigProviderWithRefresh(&uiconfig.Config{
		TemporalGRPCAddress: o.Address,
		EnableUI:            true,
		HideLogs:            true,
		DisableNewsFetch:    true,
		DefaultNamespace:    o.Namespace,
		CORS:                uiconfig.CORS{CookieInsecure: true},
	})
	if err != nil {
		return nil, fmt.Errorf("configure the temporal ui: %w", err)
	}
	assets, err := ui.Assets()
	if err == nil {
		assets, err = fs.Sub(assets, "local")
	}
	if err != nil {
		return nil, fmt.Errorf("open the assets of the temporal ui: %w", err)
	}
	e := echo.New()
	e.Use(middleware.Recover(), middleware.Gzip(), middleware.Secure(),
		csrf.EnsureTokenCookie(false), middleware.CSRFWithConfig(csrf.MiddlewareConfig(cfg, false)))
	route.SetHealthRoute(e)
	forward := headers.WithForwardHeaders([]string{auth.AuthorizationExtrasHeader, "Caller-Type"})
	if err := route.SetAPIRoutes(e, cfg, []api.Middleware{forward}); err != nil {
		return nil, fmt.Errorf("register the api routes of the temporal ui: %w", err)
	}
	if err := route.SetUIRoutes(e, "", assets); err != nil {
		return nil, fmt.Errorf("register the page routes of the temporal ui: %w", err)
	}
	route.SetRenderRoute(e, "")
	names := o.UIHosts
	if host := hostcheck.Name(o.UI); net.ParseIP(host) == nil {
		names = append([]string{host}, names...)
	}
	return hostcheck.New(names...).Handler(e), nil
}
