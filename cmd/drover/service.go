package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"

	"github.com/drover-run/drover/cmd/internal/process"
	"github.com/drover-run/drover/engine"
	"github.com/drover-run/drover/internal/config"
)

// service is a process that uses the records, the blobs and Temporal: a gateway
// or a control worker.
type service struct {
	parts
	stores   *stores
	deps     engine.Deps
	temporal client.Options
	client   client.Client
}

// newService opens the stores, and a Temporal client by connect. The caller must
// call finish.
func newService(
	cmd *cobra.Command, cfg config.Config, connect func(context.Context, client.Options, *process.Process) (client.Client, error),
) (*service, error) {
	ctx := cmd.Context()
	p, err := process.New(ctx, cfg, cmd.ErrOrStderr())
	if err != nil {
		return nil, err
	}
	s := &service{parts: parts{p}}
	if s.stores, s.deps, err = s.openStores(ctx, cfg.Records, cfg.Blobs, cfg.Archives, cfg.Logs); err != nil {
		return nil, err
	}
	if s.temporal, err = process.TemporalOptions(cfg.Temporal, p.Logger, p.Telemetry); err == nil {
		s.client, err = connect(ctx, s.temporal, p)
	}
	if err != nil {
		return nil, errors.Join(err, s.stores.close())
	}
	return s, nil
}

// openStores opens the stores. The process serves their metrics.
func (p parts) openStores(ctx context.Context, r config.Records, b config.Blobs, a config.Archives, l config.Logs) (*stores, engine.Deps, error) {
	metrics := engine.NewMetrics()
	s, err := openStores(ctx, r, b, metrics, p.Logger)
	if err != nil {
		return nil, engine.Deps{}, err
	}
	if r.Keys == "" && r.KeysFile == "" {
		p.Logger.WarnContext(ctx, "secrets are stored in the clear: create a key with `drover keys create encryption`, and set records.keys_file")
	}
	p.Telemetry.Registry.MustRegister(metrics)
	return s, engine.Deps{
		Store: s.records, Logs: s.blobs, Logger: p.Logger, Metrics: metrics, Archives: s.blobs, Archiving: toArchiving(a),
		LogLimit: int64(l.MaxMiB) << 20,
	}, nil
}

// finish waits for the end of the service, or stops it after err.
func (s *service) finish(ctx context.Context, err error) error {
	return s.Finish(ctx, err, func() error { s.client.Close(); return nil }, s.stores.close)
}
