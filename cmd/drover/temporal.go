//go:build !noembedded

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/cmd/internal/process"
	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/internal/config"
	"github.com/drover-run/drover/internal/durable"
	"github.com/drover-run/drover/internal/freeport"
	"github.com/drover-run/drover/internal/temporalite"
)

func temporalCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "temporal",
		Short:   "Run the embedded Temporal server and its web UI alone",
		Long:    "Run the embedded Temporal server and its web UI alone, on a SQLite file in the data dir. It has no\nauthentication: listen on loopback. Production uses a Temporal cluster instead.",
		Example: "  drover start temporal --data-dir /var/lib/drover-temporal",
		Args:    cobra.NoArgs,
	}
	flags := process.Flags(cmd, map[string]string{
		"data-dir": "dev.data_dir", "temporal": "dev.temporal", "temporal-ui": "dev.temporal_ui",
	}, map[string]string{
		"data-dir": "directory of the database", "temporal": "listen address of the server", "temporal-ui": `listen address of the web UI; "" for none`,
	})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := flags.Load(cmd, config.PartTemporal)
		if err != nil {
			return err
		}
		ctx := cmd.Context()
		dir, err := filepath.Abs(cfg.Dev.DataDir)
		if err != nil {
			return fmt.Errorf("find the data dir: %w", err)
		}
		p, err := process.New(ctx, cfg, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		if err := errors.Join(durable.MkdirAll(dir, 0o700), resolvePorts(ctx, &cfg.Dev)); err != nil {
			return fmt.Errorf("prepare the temporal server: %w", err)
		}
		server := newTemporalServer(cfg, dir, p.Logger)
		p.Stages.Add("temporal server", server.Run)
		select {
		case <-server.Ready():
			process.Announce(cmd.OutOrStdout(), "temporal serves namespace %s at %s", contract.Namespace, cfg.Dev.Temporal)
			return p.Finish(ctx, nil)
		case err := <-p.Stages.Failed():
			return p.Finish(ctx, err)
		case <-ctx.Done():
			return p.Finish(ctx, context.Cause(ctx))
		}
	}
	return cmd
}

// newTemporalServer returns an embedded server on a data dir.
func newTemporalServer(cfg config.Config, dir string, logger *slog.Logger) *temporalite.Server {
	return temporalite.New(temporalite.Options{
		File: filepath.Join(dir, "temporal.db"), Address: cfg.Dev.Temporal, UI: cfg.Dev.TemporalUI, UIHosts: cfg.Gateway.Hosts,
		Namespace: contract.Namespace, Attributes: contract.Attributes(), Logger: logger,
	})
}

// resolvePorts replaces port 0 in the addresses of the embedded server by free
// ports: the server needs its own address before it listens.
func resolvePorts(ctx context.Context, cfg *config.Dev) error {
	var err error
	if cfg.Temporal, err = resolvePort(ctx, "--temporal", cfg.Temporal); err != nil {
		return err
	}
	if cfg.TemporalUI != "" {
		cfg.TemporalUI, err = resolvePort(ctx, "--temporal-ui", cfg.TemporalUI)
	}
	return err
}

func resolvePort(ctx context.Context, flag, address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", fmt.Errorf("read the address %q: %w", address, err)
	}
	if port != "0" { // the server's own error comes late, and among others
		listener, err := listen(ctx, flag, address)
		if err != nil {
			return "", err
		}
		return address, listener.Close()
	}
	found, err := freeport.On(ctx, host)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(host, strconv.Itoa(found)), nil
}

// listen listens at the address of a flag.
func listen(ctx context.Context, flag, address string) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s is in use by another process: stop it, or choose another address with %s", address, flag)
	}
	if err != nil {
		return nil, fmt.Errorf("listen at the address of %s: %w", flag, err)
	}
	return listener, nil
}
