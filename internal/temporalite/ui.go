package temporalite

import (
	"fmt"
	"net"
	"strconv"

	"github.com/temporalio/ui-server/v2/server"
	uiconfig "github.com/temporalio/ui-server/v2/server/config"
	"github.com/temporalio/ui-server/v2/server/server_options"
)

// startUI serves Temporal's web UI until the returned function is called.
func startUI(listen, frontend, namespace string) (stop func(), err error) {
	host, portText, err := net.SplitHostPort(listen)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the temporal ui: %w", err)
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		return nil, fmt.Errorf("reading the port of the temporal ui: %w", err)
	}
	ui := server.NewServer(server_options.WithConfigProvider(&uiconfig.Config{
		TemporalGRPCAddress: frontend,
		Host:                host,
		Port:                port,
		EnableUI:            true,
		HideLogs:            true,
		DisableNewsFetch:    true,
		DefaultNamespace:    namespace,
		CORS:                uiconfig.CORS{CookieInsecure: true},
	}))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = ui.Start()
	}()
	return func() {
		ui.Stop()
		<-done
	}, nil
}
