package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/cmd/internal/process"
	"github.com/drover-run/drover/internal/config"
)

func controlCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "control",
		Short: "Run a control worker",
		Long: `Run a control worker: it runs the workflows of all runs, writes their progress to the records,
and delivers outbox rows that no gateway delivered. Any number may run. It creates the Temporal
namespace and its search attributes if they do not exist.`,
		Example: "  drover start control --config /etc/drover.yaml\n  drover start control --config /etc/drover.yaml --deployment drover --promote",
		Args:    cobra.NoArgs,
	}
	flags := process.Flags(cmd, map[string]string{
		"deployment": "control.deployment", "build-id": "control.build_id", "promote": "control.promote",
	}, map[string]string{
		"deployment": "worker deployment of the worker (default: none, the worker is not versioned)",
		"build-id":   "id of this build in the deployment (default: the version)",
		"promote":    "make this build the current one of the deployment once it polls",
	})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := flags.Load(cmd, config.PartControl)
		if err != nil {
			return err
		}
		return runControl(cmd, cfg)
	}
	return cmd
}

func runControl(cmd *cobra.Command, cfg config.Config) error {
	ctx := cmd.Context()
	s, err := newService(cmd, cfg, process.DialTemporal)
	if err != nil {
		return err
	}
	if err := s.AddTelemetry(ctx, cfg.Telemetry); err != nil {
		return s.finish(ctx, err)
	}
	if err := setUpNamespace(ctx, s.client, s.temporal.Namespace); err != nil {
		s.Logger.WarnContext(ctx, "failed to set up the temporal namespace; it must exist with its search attributes", "error", err)
	}
	s.addOutboxDispatcher(s.stores, s.client, cfg.Control.RunURL)
	s.addControl(cfg, s.stores, s.deps, s.client, s.temporal.Namespace)
	s.ReadyIf(func(ctx context.Context) error {
		if err := s.stores.records.Check(ctx); err != nil {
			return err
		}
		return process.TemporalAnswers(ctx, s.client)
	})
	process.Announce(cmd.OutOrStdout(), "the control worker polls namespace %s at %s", s.temporal.Namespace, s.temporal.HostPort)
	return s.finish(ctx, nil)
}
