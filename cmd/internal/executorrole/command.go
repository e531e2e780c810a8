// Package executorrole is the role executor: its command, and the executors of
// drover dev.
package executorrole

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/cmd/internal/process"
	"github.com/drover-run/drover/executor/agent"
	"github.com/drover-run/drover/executor/controlplane"
	"github.com/drover-run/drover/internal/config"
	"github.com/drover-run/drover/run"
)

// Command returns the command that runs an executor.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "executor",
		Short: "Run an executor for the tasks of one pool",
		Long: `Run an executor on the host that runs the tasks. It needs two addresses, Temporal's and the
gateway's, and a token with the scope executor. Its state dir holds its identity: after a restart
it adopts its tasks. An executor that connects to Temporal directly is trusted like an operator;
an untrusted executor connects through a relay.`,
		Example: "  drover start executor --pool linux --driver docker --slots 4 --state-dir /var/lib/drover \\\n    --gateway-url https://drover.example --token-file /etc/drover/executor.token\n" +
			"  drover start executor --id host-7 --pool linux --driver docker --state-dir /var/lib/drover \\\n    --gateway-url https://drover.example --relay relay.drover.example:7234 --token-file /etc/drover/executor.token",
		Args: cobra.NoArgs,
	}
	flags := process.Flags(cmd, map[string]string{
		"id": "executor.id", "set": "executor.set", "pool": "executor.pool", "driver": "executor.driver", "slots": "executor.slots", "state-dir": "executor.state_dir",
		"gateway-url": "executor.gateway_url", "token-file": "executor.token_file", "temporal": "temporal.address", "relay": "executor.relay.address",
		"drain-finish": "executor.drain_finish", "privileged": "executor.privileged",
	}, map[string]string{
		"id": "permanent id (default: generated once and stored in the state dir)", "set": "executor set to join (driver kubernetes)", "pool": "pool whose tasks the executor takes", "driver": "shell, docker or kubernetes",
		"slots": "tasks that run at a time", "state-dir": "directory of the journal", "gateway-url": "URL of the gateway",
		"token-file": "file with the bearer token", "temporal": "address of Temporal (default: from Temporal's environment or profile)",
		"relay":        "address of a relay, instead of Temporal's",
		"drain-finish": "on SIGTERM finish the running tasks, instead of leaving them to the next process", "privileged": "allow privileged tasks",
	})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := flags.Load(cmd, config.PartExecutor)
		if err != nil {
			return err
		}
		return runExecutor(cmd, cfg)
	}
	return cmd
}

func runExecutor(cmd *cobra.Command, cfg config.Config) error {
	ctx := cmd.Context()
	p, err := process.New(ctx, cfg, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	token, err := process.NewTokenSource(cfg.Executor.Token, cfg.Executor.TokenFile, p.Logger)
	if err != nil {
		return err
	}
	authorities, err := process.Authorities(cfg.Executor.GatewayCAFile, "", p.Logger)
	if err != nil {
		return err
	}
	gatewayAPI, err := controlplane.New(cfg.Executor.GatewayURL, token.Current, controlplane.Options{
		Authorities: func() *x509.CertPool { return authorities().RootCAs },
		AllowPlain:  cfg.Executor.InsecureGateway, OnToken: token.Replace,
		OnIndirect: func(err error) { p.Logger.WarnContext(ctx, "failed to read from the object store", "error", err) },
	})
	if err != nil {
		return fmt.Errorf("connect to the gateway: %w", err)
	}
	options, err := process.TemporalOptions(cfg.Temporal, p.Logger, p.Telemetry)
	if err == nil && cfg.Executor.Relay.Address != "" {
		options, err = relayOptions(cfg.Executor.Relay, token.Current, options, p.Logger)
	}
	if err != nil {
		return err
	}
	if r := cfg.Executor.Resources; run.Labelled(cfg.Executor.Labels) || r != (config.Resources{}) {
		options.ConnectionOptions.DialOptions = append(options.ConnectionOptions.DialOptions, shortPolls())
	}
	// Tasks continue to run while Temporal is unavailable, so the start of the
	// process must not depend on it.
	c, err := process.LazyTemporal(ctx, options, p)
	if err != nil {
		return err
	}
	if err = p.AddTelemetry(ctx, cfg.Telemetry); err == nil {
		var a *agent.Agent
		if a, err = Add(ctx, p, cfg.Executor, c, gatewayAPI); err == nil {
			p.ReadyIf(func(context.Context) error { return a.Health() })
			announce(p, a, cmd.OutOrStdout())
		}
	}
	return p.Finish(ctx, err, func() error { c.Close(); return nil })
}

// announce reports that the executor is ready, once it has registered: tasks of its
// pool are accepted from then on.
func announce(p *process.Process, a *agent.Agent, w io.Writer) {
	p.Stages.Add("announcement", func(ctx context.Context) error {
		select {
		case <-a.Registered():
			process.Announce(w, "executor %s serves pool %s", a.ID(), a.Pool())
			<-ctx.Done()
		case <-ctx.Done():
		}
		return nil
	})
}
