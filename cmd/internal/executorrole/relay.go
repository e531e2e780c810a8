package executorrole

import (
	"context"
	"errors"
	"log/slog"

	"go.temporal.io/sdk/client"

	"github.com/drover-run/drover/cmd/internal/process"
	"github.com/drover-run/drover/internal/config"
)

// relayOptions returns the options of a client that connects to Temporal through
// a relay. It uses nothing of Temporal's own environment: the relay must not see
// those credentials.
func relayOptions(cfg config.RelayClient, token func() string, base client.Options, logger *slog.Logger) (client.Options, error) {
	options := client.Options{
		HostPort: cfg.Address, Namespace: base.Namespace, Logger: base.Logger, MetricsHandler: base.MetricsHandler,
		HeadersProvider: bearer(token),
	}
	if cfg.Plain() {
		return options, nil
	}
	current, err := process.Authorities(cfg.CAFile, cfg.ServerName, logger)
	if err != nil {
		return client.Options{}, err
	}
	options.ConnectionOptions.TLS = current()
	options.ConnectionOptions.DialOptions = append(options.ConnectionOptions.DialOptions, current.DialOption())
	return options, nil
}

// bearer sends a bearer token with every call.
type bearer func() string

// GetHeaders implements the interface of client.Options.HeadersProvider.
func (b bearer) GetHeaders(context.Context) (map[string]string, error) {
	token := b()
	if token == "" {
		return nil, errors.New("there is no bearer token")
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}
