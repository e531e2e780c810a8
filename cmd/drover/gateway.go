package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/cmd/internal/process"
	"github.com/drover-run/drover/engine"
	"github.com/drover-run/drover/internal/config"
	"github.com/drover-run/drover/internal/secrets"
	"github.com/drover-run/drover/internal/tokens"
)

const basePathUsage = "path below which a reverse proxy has the gateway, such as /drover"

func gatewayCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "gateway",
		Short: "Run the HTTP gateway",
		Long: `Run the HTTP gateway, which serves clients and executors. It needs the records, the blobs and
Temporal; any number of gateways may share them. With gateway.relay it also serves a relay.`,
		Example: "  drover start gateway --config /etc/drover.yaml\n  DROVER_RECORDS__DRIVER=postgres DROVER_RECORDS__DSN_FILE=/run/secrets/dsn drover start gateway --listen 0.0.0.0:8080",
		Args:    cobra.NoArgs,
	}
	flags := process.Flags(cmd, map[string]string{
		"listen": "gateway.listen", "token-file": "gateway.token_file", "base-path": "gateway.base_path",
	}, map[string]string{
		"listen": "listen address", "token-file": "file with the hashes of bearer tokens (drover tokens create)", "base-path": basePathUsage,
	})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := flags.Load(cmd, config.PartGateway)
		if err != nil {
			return err
		}
		return runGateway(cmd, cfg)
	}
	return cmd
}

func runGateway(cmd *cobra.Command, cfg config.Config) error {
	ctx := cmd.Context()
	// The gateway serves clients while Temporal is unavailable: their changes wait
	// in the outbox. So the connection is made on first use.
	s, err := newService(cmd, cfg, process.LazyTemporal)
	if err != nil {
		return err
	}
	return s.finish(ctx, s.startGateway(cmd, cfg))
}

func (s *service) startGateway(cmd *cobra.Command, cfg config.Config) error {
	if cfg.Gateway.Relay && cfg.Gateway.RelayKeyFile == "" {
		cfg.Gateway.RelayKeyFile = cfg.Relay.KeyFile
	}
	listed, err := openTokens(cfg.Gateway, s.Logger)
	if err != nil {
		return err
	}
	listeners, err := listenGateway(cmd.Context(), cfg)
	if err != nil {
		return err
	}
	if err := s.addGatewayParts(cmd.Context(), cfg, listed, listeners); err != nil {
		return errors.Join(err, listeners.close())
	}
	process.Announce(cmd.OutOrStdout(), "the gateway serves at %s%s", listeners.http.Addr(), cfg.Gateway.BasePath)
	return nil
}

// gatewayListeners are the listeners of a gateway's process.
type gatewayListeners struct {
	http  net.Listener
	relay net.Listener // nil: the gateway serves no relay
}

// listenGateway opens all listeners before the gateway serves: from then on /readyz
// reports that the process is ready.
func listenGateway(ctx context.Context, cfg config.Config) (l gatewayListeners, err error) {
	if l.http, err = (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Gateway.Listen); err != nil {
		return l, fmt.Errorf("listen for the HTTP API: %w", err)
	}
	if cfg.Gateway.Relay {
		if l.relay, err = listenRelay(ctx, cfg.Relay); err != nil {
			return l, errors.Join(err, l.http.Close())
		}
	}
	return l, nil
}

func (l gatewayListeners) close() error {
	err := l.http.Close()
	if l.relay != nil {
		err = errors.Join(err, l.relay.Close())
	}
	return err
}

// addGatewayParts adds the parts of a gateway's process.
func (s *service) addGatewayParts(ctx context.Context, cfg config.Config, listed tokens.Source, listeners gatewayListeners) error {
	payloads, err := process.CodecHandler(cfg.Temporal, s.Logger)
	if err != nil {
		return err
	}
	if s.deps.Secrets, err = secrets.Open(cfg.Gateway.SecretProvidersFile, os.LookupEnv, s.Logger); err != nil {
		return err
	}
	s.deps.Temporal = func(ctx context.Context) error { return process.TemporalAnswers(ctx, s.client) }
	if err := s.addGateway(ctx, cfg.Gateway, s.stores, engine.New(s.deps), nil, s.client, listed, payloads, temporalRun(cfg.Temporal.UIURL, s.temporal.Namespace), listeners.http); err != nil {
		return err
	}
	s.addOutboxDispatcher(s.stores, s.client, cfg.Control.RunURL)
	if listeners.relay == nil {
		return nil
	}
	s.Logger.InfoContext(ctx, "serving a relay", "address", listeners.relay.Addr().String())
	return s.addRelay(ctx, cfg.Relay, s.client, s.temporal.Namespace, s.stores.records, listeners.relay)
}

// openTokens opens the token file, nil if none is configured.
func openTokens(cfg config.Gateway, logger *slog.Logger) (tokens.Source, error) {
	if cfg.TokenFile == "" {
		return nil, nil //nolint:nilnil // nil means no authentication
	}
	file, err := tokens.OpenFile(cfg.TokenFile, logger)
	if err != nil {
		return nil, fmt.Errorf("read the tokens: %w", err)
	}
	return file, nil
}
