package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/config"
	"github.com/drover-run/drover/engine"
)

func controlCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "control",
		Short: "Run a control worker",
		Long: `Run a control worker: it runs the workflows of all runs, writes their progress to the records,
and delivers what gateways could not. Any number may run. It makes the Temporal namespace and
its search attributes where they do not exist.`,
		Example: "  drover control --config /etc/drover.yaml",
		Args:    cobra.NoArgs,
	}
	flags := configFlags(cmd, nil, nil)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := flags.load(cmd, config.PartControl)
		if err != nil {
			return err
		}
		return runControl(cmd, cfg)
	}
	return cmd
}

func runControl(cmd *cobra.Command, cfg config.Config) error {
	ctx := cmd.Context()
	p, err := newProcess(ctx, cfg, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	s, err := openStores(ctx, cfg.Records, cfg.Blobs)
	if err != nil {
		return err
	}
	options, err := temporalOptions(cfg.Temporal, p.logger, p.telemetry)
	if err != nil {
		return errors.Join(err, s.close())
	}
	c, err := dialTemporal(ctx, options, p.logger)
	if err != nil {
		return errors.Join(err, s.close())
	}
	if err := setUpNamespace(ctx, c, options.Namespace); err != nil {
		p.logger.WarnContext(ctx, "the temporal namespace was not set up; it must exist with its search attributes", "error", err)
	}
	deps := engine.Deps{Store: s.records, Logs: s.blobs, Logger: p.logger, Metrics: engine.NewMetrics()}
	p.telemetry.registry.MustRegister(deps.Metrics)
	p.addPump(deps, c)
	p.addControl(s, c, options.Namespace)
	p.addTelemetry(cfg.Telemetry, func(ctx context.Context) error {
		if err := s.records.Check(ctx); err != nil {
			return err
		}
		return temporalAnswers(ctx, c)
	})
	announce(cmd.OutOrStdout(), "the control worker polls namespace %s at %s", options.Namespace, options.HostPort)
	return p.finish(ctx, nil, func() error { c.Close(); return nil }, s.close)
}
