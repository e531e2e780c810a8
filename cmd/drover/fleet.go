package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/drover-run/drover/cmd/internal/process"
	"github.com/drover-run/drover/fleeting"
	"github.com/drover-run/drover/fleeting/controller"
	"github.com/drover-run/drover/internal/config"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/workers"
)

func fleetWorkerCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fleet-worker",
		Short: "Run a fleet worker, which hosts the plugins of fleets",
		Long: `Run a fleet worker: it launches the plugins of fleets on its host, and creates and deletes
instances through them, as the fleet workflows decide. It needs the records and Temporal. One worker
manages a fleet at a time; several may divide the fleets by fleet.names.`,
		Example: "  drover start fleet-worker --config /etc/drover.yaml --state-dir /var/lib/drover/fleets\n" +
			"  DROVER_FLEET__NAMES=linux,gpu drover start fleet-worker --config /etc/drover.yaml",
		Args: cobra.NoArgs,
	}
	flags := process.Flags(cmd, map[string]string{"state-dir": "fleet.state_dir"}, map[string]string{
		"state-dir": "directory of the plugins, from which the next process takes them over",
	})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := flags.Load(cmd, config.PartFleet)
		if err != nil {
			return err
		}
		return runFleet(cmd, cfg)
	}
	return cmd
}

func runFleet(cmd *cobra.Command, cfg config.Config) error {
	ctx := cmd.Context()
	if cfg.Blobs.URL == "" { // a fleet worker needs no blobs
		cfg.Blobs.URL = "mem://"
	}
	s, err := newService(cmd, cfg, process.DialTemporal)
	if err != nil {
		return err
	}
	if err := s.AddTelemetry(ctx, cfg.Telemetry); err != nil {
		return s.finish(ctx, err)
	}
	if err := s.addFleets(cfg.Fleet, s.stores, s.client, s.temporal); err != nil {
		return s.finish(ctx, err)
	}
	s.ReadyIf(func(ctx context.Context) error {
		if err := s.stores.records.Check(ctx); err != nil {
			return err
		}
		return process.TemporalAnswers(ctx, s.client)
	})
	process.Announce(cmd.OutOrStdout(), "the fleet worker polls namespace %s at %s", s.temporal.Namespace, s.temporal.HostPort)
	return s.finish(ctx, nil)
}

// addFleets manages fleets in this process.
func (p parts) addFleets(cfg config.Fleet, s *stores, c client.Client, temporal client.Options) error {
	dir, err := filepath.Abs(cfg.StateDir)
	if err != nil {
		return fmt.Errorf("find the directory of the plugins: %w", err)
	}
	metrics := controller.NewMetrics()
	if err := p.Telemetry.Registry.Register(metrics); err != nil {
		return fmt.Errorf("register the metrics of fleets: %w", err)
	}
	deps := controller.Deps{
		Store: s.records, Logger: p.Logger, Metrics: metrics,
		Open: func(ctx context.Context, f run.Fleet) (controller.Group, error) {
			connector, err := controller.ConnectorOf(f.Spec.ConnectorConfig)
			if err != nil {
				return nil, err
			}
			return fleeting.Open(ctx, fleeting.Options{
				Plugin: f.Spec.Plugin, Path: cfg.PluginPath, Confined: true, PassEnv: cfg.PluginEnv, Dir: filepath.Join(dir, f.Name), Config: f.Spec.PluginConfig,
				Connector: connector, Logger: p.Logger.With("fleet", f.Name),
			})
		},
	}
	ssh, err := newSSHBootstrap(cfg, temporal.HostPort, temporal.Namespace, s.records, p.Logger)
	if err != nil {
		return err
	}
	if ssh != nil {
		deps.Bootstrap = ssh
	}
	w := controller.New(deps)
	k := &fleetManager{
		names: cfg.Names, list: s.records.ListFleets, watch: s.records.WatchFleets, worker: w, process: p.Process, running: map[string]func(){},
		newWorker: func(name string, fatal func(error)) worker.Worker {
			return workers.NewFleet(c, name, w, workers.ControlOptions{OnFatalError: fatal})
		},
	}
	p.Stages.Add("fleets", k.run)
	return nil
}

// fleetManager runs a worker for each fleet that this process manages.
type fleetManager struct {
	names     []string // empty: all fleets
	list      func(context.Context) ([]run.Fleet, error)
	watch     func() (<-chan struct{}, func())
	worker    *controller.Worker
	process   *process.Process
	running   map[string]func() // functions that stop the worker of a fleet, by fleet
	newWorker func(name string, fatal func(error)) worker.Worker
}

// Bounds of the interval between two listings of the fleets. A change of the
// records causes the next listing, but not before fleetsLeast.
const (
	fleetsLeast = 100 * time.Millisecond
	fleetsMost  = 5 * time.Second
)

func (k *fleetManager) run(ctx context.Context) error {
	wake, stop := k.watch()
	defer stop()
	failed := make(chan error, 1)
	defer func() {
		for name := range k.running {
			k.end(name)
		}
	}()
	for {
		if err := k.syncFleets(ctx, failed); err != nil && ctx.Err() == nil {
			k.process.Logger.WarnContext(ctx, "failed to list fleets", "error", err)
		}
		pause, most := time.NewTimer(fleetsLeast), time.NewTimer(fleetsMost)
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case <-pause.C:
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case <-wake:
		case <-most.C:
		}
		most.Stop()
	}
}

func (k *fleetManager) syncFleets(ctx context.Context, failed chan<- error) error {
	all, err := k.list(ctx)
	if err != nil {
		return err
	}
	present := map[string]bool{}
	for _, f := range all {
		if len(k.names) > 0 && !slices.Contains(k.names, f.Name) {
			continue
		}
		present[f.Name] = true
		if k.running[f.Name] != nil {
			continue
		}
		w := k.newWorker(f.Name, func(err error) {
			select {
			case failed <- fmt.Errorf("the worker of fleet %s ended: %w", f.Name, err):
			default:
			}
		})
		if err := w.Start(); err != nil {
			return errors.Join(err, fmt.Errorf("start the worker of fleet %s", f.Name))
		}
		k.running[f.Name] = w.Stop
		k.process.Logger.InfoContext(ctx, "managing fleet", "fleet", f.Name)
	}
	for name := range k.running {
		if !present[name] {
			k.end(name)
		}
	}
	return nil
}

// end stops the worker of a fleet. The plugin keeps running for the next worker.
func (k *fleetManager) end(name string) {
	k.running[name]()
	delete(k.running, name)
	if err := k.worker.Release(name); err != nil {
		k.process.Logger.Warn("failed to leave the plugin of a fleet", "fleet", name, "error", err)
	}
}
