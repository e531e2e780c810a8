package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/config"
	"github.com/drover-run/drover/engine"
	"github.com/drover-run/drover/gateway"
)

func gatewayCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "gateway",
		Short: "Run the HTTP gateway",
		Long: `Run the HTTP gateway: the door for clients and executors. It needs the records, the blobs and
Temporal; any number of gateways may share them.`,
		Example: "  drover gateway --config /etc/drover.yaml\n  DROVER_RECORDS__DRIVER=postgres DROVER_RECORDS__DSN_FILE=/run/secrets/dsn drover gateway --listen 0.0.0.0:8080",
		Args:    cobra.NoArgs,
	}
	flags := configFlags(cmd, map[string]string{"listen": "gateway.listen", "token-file": "gateway.token_file"}, map[string]string{
		"listen": "listen address", "token-file": "file with the hashes of bearer tokens (drover token new)",
	})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := flags.load(cmd, config.PartGateway)
		if err != nil {
			return err
		}
		return runGateway(cmd, cfg)
	}
	return cmd
}

func runGateway(cmd *cobra.Command, cfg config.Config) error {
	ctx := cmd.Context()
	// Clients are served while Temporal is away: what they ask waits in the
	// outbox. So the connection is made by whoever first needs it.
	s, err := newService(cmd, cfg, lazyTemporal)
	if err != nil {
		return err
	}
	return s.finish(ctx, s.startGateway(cmd, cfg.Gateway))
}

func (s *service) startGateway(cmd *cobra.Command, cfg config.Gateway) error {
	var auth gateway.Authenticator
	if cfg.TokenFile != "" {
		tokens, err := gateway.OpenTokenFile(cfg.TokenFile, s.logger)
		if err != nil {
			return fmt.Errorf("reading the tokens: %w", err)
		}
		auth = tokens
	}
	listener, err := (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("listening for the HTTP API: %w", err)
	}
	if err := s.addGateway(cfg, s.stores, engine.New(s.deps), s.client, auth, listener); err != nil {
		return errors.Join(err, listener.Close())
	}
	s.addPump(s.deps, s.client)
	announce(cmd.OutOrStdout(), "the gateway serves at %s", listener.Addr())
	return nil
}

// loadTLS returns nil where no certificate is configured.
func loadTLS(cfg config.Gateway) (*tls.Config, error) {
	if cfg.TLSCertFile == "" {
		return nil, nil //nolint:nilnil // no TLS is a good answer
	}
	cert, err := tls.LoadX509KeyPair(cfg.TLSCertFile, cfg.TLSKeyFile)
	if err != nil {
		return nil, fmt.Errorf("loading the certificate: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}, nil
}
