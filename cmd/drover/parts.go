package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/drover-run/drover/activities"
	"github.com/drover-run/drover/cmd/internal/process"
	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/engine"
	"github.com/drover-run/drover/engine/archives"
	"github.com/drover-run/drover/engine/maintenance"
	"github.com/drover-run/drover/engine/outbox"
	"github.com/drover-run/drover/gateway"
	"github.com/drover-run/drover/gateway/audit"
	"github.com/drover-run/drover/gateway/login"
	"github.com/drover-run/drover/internal/config"
	"github.com/drover-run/drover/internal/tokens"
	"github.com/drover-run/drover/internal/tokens/oidc"
	"github.com/drover-run/drover/internal/version"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/webhooks"
	"github.com/drover-run/drover/workers"
)

// parts adds the parts of a server to a process.
type parts struct{ *process.Process }

// addOutboxDispatcher runs the outbox dispatcher, the log compactor and the garbage
// collectors in this process. runURL is the URL of a run's page, see config.Control.
func (p parts) addOutboxDispatcher(s *stores, c client.Client, runURL string) {
	delivered, maintained := outbox.NewMetrics(), maintenance.NewMetrics()
	p.Telemetry.Registry.MustRegister(delivered, maintained)
	p.Stages.Add("outbox", outbox.NewDispatcher(s.records, c, p.Logger, delivered).LinkRuns(runURL).Run)
	p.Stages.Add("log compactor", maintenance.NewCompactor(s.records, s.blobs, p.Logger, maintained).Run)
	p.Stages.Add("garbage collector", maintenance.NewGarbageCollector(s.records, s.blobs, p.Logger).Run)
	p.Stages.Add("approval timeouts", maintenance.NewApprovalTimeouts(s.records, p.Logger).Run)
	p.Stages.Add("slot sweeper", maintenance.NewSlotSweeper(s.records, p.Logger).Run)
	p.Stages.Add("archive garbage collector", maintenance.NewArchiveGarbageCollector(s.records, s.blobs, p.Logger, maintained).Run)
}

// addGateway serves clients and executors on listener. ready is nil if the service
// alone decides whether the gateway is ready. listed is nil if it has no tokens.
func (p parts) addGateway(
	ctx context.Context, cfg config.Gateway, s *stores, service *engine.Engine, ready func(context.Context) error, c client.Client,
	listed tokens.Source, payloads http.Handler, temporalUI string, listener net.Listener,
) error {
	var tlsConfig *tls.Config
	if cfg.TLSCertFile != "" {
		var err error
		if tlsConfig, err = process.ServerTLS(cfg.TLSCertFile, cfg.TLSKeyFile, p.Logger); err != nil {
			return err
		}
	}
	keys, err := relayKeys(cfg, p.Logger)
	if err != nil {
		return err
	}
	provider, granted, err := p.addProvider(ctx, cfg.OIDC, s)
	if err != nil {
		return err
	}
	recorder, err := audit.NewRecorder(s.records, p.Telemetry.Registry, p.Logger)
	if err != nil {
		return err
	}
	p.Stages.Add("audit log", recorder.Run)
	auth, registry, browsers := p.addTokens(ctx, cfg, listed, keys, provider, s)
	server, err := gateway.New(gateway.Deps{
		Runs: service, Ready: ready, ExecutorAPI: service, Webhooks: engine.NewWebhooks(s.records), Schedules: engine.NewScheduler(service, s.records, c),
		Fleets: engine.NewFleets(s.records), Artifacts: service, Sessions: service,
		Retention: engine.NewRetentionService(s.records, c, nil), Codec: payloads, Auth: auth, Tokens: registry, RoleGrants: granted, Browsers: browsers, Provider: provider, Audit: recorder, Keys: keys, Logger: p.Logger, Registry: p.Telemetry.Registry,
		Stats: func(ctx context.Context) (gateway.Stats, error) {
			stats, err := s.records.Stats(ctx)
			return gateway.Stats(stats), err
		},
		Archives: service.StoredArchives,
	}, gateway.Options{
		Address: listener.Addr().String(), Hosts: cfg.Hosts, BasePath: cfg.BasePath, CodecOrigins: cfg.CodecOrigins, TLS: tlsConfig, ShutdownTimeout: cfg.ShutdownTimeout,
		AccessLog: cfg.AccessLog, SecureCookies: cfg.SecureCookies, TrustedProxies: cfg.TrustedProxies, TemporalRun: temporalUI,
	})
	if err != nil {
		return fmt.Errorf("create the gateway: %w", err)
	}
	p.Stages.Add("sessions", service.RunSessions)
	p.Stages.Add("gateway", func(ctx context.Context) error { return server.Run(ctx, listener) })
	return nil
}

// addTokens refuses revoked tokens and records the last uses of the others. With
// the keys of the relays, the authenticator also accepts short-lived tokens, and with
// a provider the tokens of its users. All results are nil if there are no tokens.
func (p parts) addTokens(
	ctx context.Context, cfg config.Gateway, listed tokens.Source, keys *tokens.Keys, provider *oidc.Provider, s *stores,
) (tokens.Authenticator, run.BearerTokens, login.Sessions) {
	if listed == nil {
		return nil, nil, nil
	}
	registry := tokens.NewRegistry(ctx, listed, s.records, p.Logger)
	registry.UserPrefix = cfg.OIDC.SubjectPrefix // also without a provider, which may come later
	p.Stages.Add("tokens", registry.Run)
	browsers := tokens.NewBrowsers(registry, s.records, cfg.SessionIdle, cfg.SessionMax, p.Logger)
	p.Stages.Add("sessions of browsers", browsers.Run)
	var auth tokens.Authenticator = registry
	if keys != nil {
		auth = tokens.WithShortLived(keys, auth)
	}
	if provider != nil {
		browsers.Confirmation = tokens.Confirmation{Provider: provider, Every: cfg.OIDC.ConfirmEvery, Grace: cfg.OIDC.ConfirmGrace}
		auth = oidc.WithProvider(provider, auth)
	}
	return auth, registry, browsers
}

// temporalRun returns the URL of the workflow of a run in Temporal's UI, with {run} in
// place of the id of the run, or "" if there is no UI.
func temporalRun(ui, namespace string) string {
	if ui == "" {
		return ""
	}
	return strings.TrimSuffix(ui, "/") + "/namespaces/" + url.PathEscape(namespace) + "/workflows/" + strings.ReplaceAll(url.PathEscape(contract.RunWorkflowID("{run}")), url.PathEscape("{run}"), "{run}")
}

// relayKeys returns the keys of the relays, nil where there are none.
func relayKeys(cfg config.Gateway, logger *slog.Logger) (*tokens.Keys, error) {
	if cfg.RelayKeyFile == "" {
		return nil, nil //nolint:nilnil // nil means no keys
	}
	return tokens.FollowKeys(cfg.RelayKeyFile, logger)
}

// addControl runs workflows and control activities.
func (p parts) addControl(cfg config.Config, s *stores, deps engine.Deps, c client.Client, namespace string) {
	p.Stages.Add("reconciler", maintenance.NewReconciler(s.records, c, namespace, p.Logger).Run)
	p.Stages.Add("webhook reconciler", maintenance.NewWebhookSupervisor(s.records, c, p.Logger).Run)
	p.Stages.Add("retention", maintenance.NewRetentionSupervisor(c, toRetention(cfg), p.Logger).Run)
	p.Stages.Add("registry expiry", maintenance.NewRegistryExpiry(
		s.records, cfg.Retention.Executors.MaxAge, cfg.Retention.Interval, cfg.Retention.PerSecond, p.Logger).Run)
	p.Stages.Add("audit log expiry", maintenance.NewAuditExpiry(
		s.records, cfg.Retention.Audit.MaxAge, cfg.Retention.Interval, cfg.Retention.PerSecond, p.Logger).Run)
	scheduler := engine.NewScheduler(engine.New(deps), s.records, c)
	deployed := toVersion(cfg.Control)
	removed := activities.NewRetentionMetrics()
	p.Telemetry.Registry.MustRegister(removed)
	p.addWorker("control worker", deployed, func(opts workers.ControlOptions) worker.Worker {
		return workers.NewControl(c, workers.ControlDeps{
			Progress: s.records, Groups: s.records, Firings: scheduler, Registry: s.records, Retention: s.records, Removed: removed,
		}, opts)
	})
	delivered := webhooks.NewMetrics()
	p.Telemetry.Registry.MustRegister(delivered)
	p.addWorker("waiting worker", deployed, func(opts workers.ControlOptions) worker.Worker {
		return workers.NewWait(c, workers.WaitDeps{
			Webhooks: webhooks.New(s.records, p.Logger, webhooks.Options{
				UserAgent: "drover/" + version.String(), Metrics: delivered, RunURL: cfg.Control.RunURL,
			}),
			Runs: s.records,
		}, opts)
	})
	if cfg.Control.Promote {
		p.Stages.Add("promotion", func(ctx context.Context) error {
			workers.Promote(ctx, c, deployed, p.Logger)
			<-ctx.Done()
			return nil
		})
	}
}

// toVersion returns the deployment version of the control workers, or the zero
// value if they have none.
func toVersion(c config.Control) worker.WorkerDeploymentVersion {
	if c.Deployment == "" {
		return worker.WorkerDeploymentVersion{}
	}
	return worker.WorkerDeploymentVersion{DeploymentName: c.Deployment, BuildID: cmp.Or(c.BuildID, version.String())}
}

func toRetention(cfg config.Config) run.Retention {
	r, a := cfg.Retention, cfg.Archives
	return run.Retention{
		Interval: run.Duration(r.Interval), PerSecond: r.PerSecond,
		Runs:   run.RunsRetention{MaxAge: run.Duration(r.Runs.MaxAge), Keep: r.Runs.Keep},
		Logs:   run.LogRetention{MaxAge: run.Duration(r.Logs.MaxAge)},
		Events: run.EventRetention{MaxAge: run.Duration(r.Events.MaxAge), Keep: int64(r.Events.Keep)},
		Archives: run.ArchiveRetention{
			On: true, Workspaces: run.Duration(a.WorkspaceMaxAge), CacheUnused: run.Duration(a.CacheMaxAge), CacheBytes: a.CacheTotalBytes,
		},
	}
}

func toArchiving(a config.Archives) archives.Options {
	return archives.Options{
		Limits:    run.ArchiveLimits{Size: a.MaxBytes, Entries: a.MaxEntries, Bytes: a.MaxContentBytes},
		CacheSize: a.CacheMaxBytes, Artifacts: a.ArtifactMaxAge, Workspaces: a.WorkspaceMaxAge,
		DirectFrom: a.DirectMinBytes,
	}
}

// addWorker runs a worker until it is stopped.
func (p parts) addWorker(name string, deployed worker.WorkerDeploymentVersion, newWorker func(workers.ControlOptions) worker.Worker) {
	p.Stages.Add(name, func(ctx context.Context) error {
		fatal := make(chan error, 1)
		w := newWorker(workers.ControlOptions{
			Deployment: deployed.DeploymentName, BuildID: deployed.BuildID,
			OnFatalError: func(err error) {
				select {
				case fatal <- err:
				default:
				}
			},
		})
		if err := w.Start(); err != nil {
			return fmt.Errorf("start the worker: %w", err)
		}
		defer w.Stop()
		select {
		case <-ctx.Done():
			return nil
		case err := <-fatal:
			return err
		}
	})
}
