package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"

	"github.com/drover-run/drover/cmd/internal/process"
	"github.com/drover-run/drover/internal/config"
	"github.com/drover-run/drover/internal/tokens"
	"github.com/drover-run/drover/relay"
)

func relayCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "relay",
		Short: "Run a relay, through which untrusted executors reach Temporal",
		Long: `Run a relay between executors and Temporal. An executor that connects to Temporal directly is
trusted like an operator. An executor that connects to a relay may only poll its own queues, and
heartbeat and complete the tasks that were handed to it. It needs a token that is bound to an
executor and a pool. Relays are stateless: relays with the same keys are interchangeable.`,
		Example: "  drover keys create relay --file relay.keys\n" +
			"  drover tokens create --name host-7 --scopes executor --executor host-7 --pool linux --file tokens.yaml --out executor.token\n" +
			"  drover start relay --listen 0.0.0.0:7234 --token-file tokens.yaml --key-file relay.keys --tls-cert relay.crt --tls-key relay.key",
		Args: cobra.NoArgs,
	}
	flags := process.Flags(cmd, map[string]string{
		"listen": "relay.listen", "token-file": "relay.token_file", "key-file": "relay.key_file", "temporal": "temporal.address",
		"tls-cert": "relay.tls_cert_file", "tls-key": "relay.tls_key_file", "insecure": "relay.insecure",
	}, map[string]string{
		"listen": "listen address", "token-file": "file with the hashes of bearer tokens (drover tokens create)",
		"key-file": "file with the keys of claim proofs, which prove which executor a task was handed to (drover keys create relay)",
		"temporal": "address of Temporal (default: from Temporal's environment or profile)",
		"tls-cert": "certificate, in PEM", "tls-key": "key of the certificate, in PEM", "insecure": "allow an address that is not loopback without TLS",
	})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := flags.Load(cmd, config.PartRelay)
		if err != nil {
			return err
		}
		return runRelay(cmd, cfg)
	}
	return cmd
}

func runRelay(cmd *cobra.Command, cfg config.Config) error {
	ctx := cmd.Context()
	p, err := process.New(ctx, cfg, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	options, err := process.TemporalOptions(cfg.Temporal, p.Logger, p.Telemetry)
	if err != nil {
		return err
	}
	// While Temporal is unavailable, the relay reports that to executors, and their tasks continue to run.
	c, err := process.LazyTemporal(ctx, options, p)
	if err != nil {
		return err
	}
	err = startRelay(cmd, cfg, p, c, options.Namespace)
	return p.Finish(ctx, err, func() error { c.Close(); return nil })
}

func startRelay(cmd *cobra.Command, cfg config.Config, p *process.Process, c client.Client, namespace string) error {
	ctx := cmd.Context()
	if err := p.AddTelemetry(ctx, cfg.Telemetry); err != nil {
		return err
	}
	listener, err := listenRelay(ctx, cfg.Relay)
	if err != nil {
		return err
	}
	if err := (parts{p}).addRelay(ctx, cfg.Relay, c, namespace, nil, listener); err != nil {
		return errors.Join(err, listener.Close())
	}
	p.ReadyIf(func(ctx context.Context) error { return process.TemporalAnswers(ctx, c) })
	process.Announce(cmd.OutOrStdout(), "the relay serves namespace %s at %s", namespace, listener.Addr())
	return nil
}

func listenRelay(ctx context.Context, cfg config.Relay) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen for executors: %w", err)
	}
	return listener, nil
}

// addRelay serves untrusted executors on listener. With the records of a gateway in
// the same process it refuses the tokens that were revoked; a relay alone has no
// records, and revoked is nil.
func (p parts) addRelay(ctx context.Context, cfg config.Relay, c client.Client, namespace string, revoked tokens.Store, listener net.Listener) error {
	file, err := tokens.OpenFile(cfg.TokenFile, p.Logger)
	if err != nil {
		return fmt.Errorf("read the tokens: %w", err)
	}
	auth := tokens.Authenticator(file)
	if revoked != nil {
		registry := tokens.NewRegistry(ctx, file, revoked, p.Logger)
		p.Stages.Add("tokens of the relay", registry.Run)
		auth = registry
	}
	keys, err := tokens.FollowKeys(cfg.KeyFile, p.Logger)
	if err != nil {
		return err
	}
	var tlsConfig *tls.Config
	if cfg.TLSCertFile != "" {
		if tlsConfig, err = process.ServerTLS(cfg.TLSCertFile, cfg.TLSKeyFile, p.Logger); err != nil {
			return err
		}
	}
	r, err := relay.New(relay.Deps{
		Temporal: c.WorkflowService(), Auth: tokens.WithShortLived(keys, auth), Keys: keys, Logger: p.Logger, Registry: p.Telemetry.Registry,
	}, relay.Options{
		Namespace: namespace, TLS: tlsConfig, AllowPlain: cfg.Insecure, MaxPolls: cfg.MaxPolls, ShutdownTimeout: cfg.ShutdownTimeout,
	})
	if err != nil {
		return err
	}
	p.Stages.Add("relay", func(ctx context.Context) error { return r.Run(ctx, listener) })
	return nil
}
