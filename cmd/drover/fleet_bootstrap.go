package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/drover-run/drover/cmd/internal/process"
	"github.com/drover-run/drover/fleeting"
	"github.com/drover-run/drover/fleeting/bootstrap"
	"github.com/drover-run/drover/fleeting/controller"
	"github.com/drover-run/drover/internal/config"
	"github.com/drover-run/drover/internal/reload"
	"github.com/drover-run/drover/internal/tokens"
	"github.com/drover-run/drover/run"
)

// Attempts to bootstrap an instance, and the pause between two attempts: a broken
// connection is not a fault of the instance, and completed steps are not
// repeated.
const (
	bootstrapAttempts = 3
	bootstrapPause    = 5 * time.Second
)

// registry looks up executors.
type registry interface {
	GetExecutor(ctx context.Context, id string) (run.Executor, error)
	GetPool(ctx context.Context, name string) (run.Pool, error)
}

// sshBootstrap bootstraps instances over SSH.
type sshBootstrap struct {
	cfg                 config.FleetBootstrap
	temporal, namespace string
	keys                *tokens.Keys
	ca                  *reload.Value[[]byte] // nil: none
	binaries            *bootstrap.Binaries
	registry            registry
	hostKeys            string // directory with the host key of each instance
	logger              *slog.Logger
}

var _ controller.Bootstrapper = (*sshBootstrap)(nil)

// newSSHBootstrap reads the files on the worker's host that bootstrapping needs.
// The result is nil if there are no keys to create credentials with.
func newSSHBootstrap(cfg config.Fleet, temporal, namespace string, r registry, logger *slog.Logger) (*sshBootstrap, error) {
	b := &sshBootstrap{
		cfg: cfg.Bootstrap, temporal: temporal, namespace: namespace, registry: r, logger: logger,
		hostKeys: filepath.Join(cfg.StateDir, "host-keys"), binaries: &bootstrap.Binaries{Dir: cfg.Bootstrap.BinariesDir},
	}
	if b.cfg.KeyFile == "" {
		return nil, nil //nolint:nilnil // nil means no bootstrap
	}
	var err error
	if b.keys, err = tokens.FollowKeys(b.cfg.KeyFile, logger); err != nil {
		return nil, err
	}
	if file := b.cfg.Relay.CAFile; file != "" {
		if b.ca, err = reload.Open(logger, func(files [][]byte) ([]byte, error) { return files[0], nil }, file); err != nil {
			return nil, fmt.Errorf("read the authority of the relay: %w", err)
		}
	}
	if b.binaries.Drover, err = os.Executable(); err != nil {
		return nil, fmt.Errorf("find this executable: %w", err)
	}
	b.binaries.Drover = bootstrap.AgentBeside(b.binaries.Drover)
	if b.binaries.Shim, err = process.FindShim(""); err != nil { // binaries_dir may have the shim
		logger.Warn("cannot bootstrap instances of this host's system: failed to find drover-shim", "error", err)
		b.binaries.Drover = ""
	}
	if err := os.MkdirAll(b.hostKeys, 0o700); err != nil {
		return nil, fmt.Errorf("create the directory of host keys: %w", err)
	}
	return b, nil
}

// Bootstrap implements controller.Bootstrapper.
func (b *sshBootstrap) Bootstrap(ctx context.Context, i controller.Instance, c fleeting.ConnectInfo) error {
	if c.ID = i.ID; c.Timeout == 0 {
		c.Timeout = i.Spec.ConnectorConfig.Timeout.Std()
	}
	options, err := b.options(ctx, i)
	if err != nil {
		return err
	}
	ssh, err := bootstrap.NewSSH(options)
	if err != nil {
		return err
	}
	target, err := b.target(i, c)
	if err != nil {
		return err
	}
	_, err = backoff.Retry(ctx, func() (struct{}, error) {
		_, err := ssh.Start(ctx, target)
		if fault, ok := errors.AsType[*bootstrap.Error](err); !ok || fault.Reason != bootstrap.ReasonLost {
			return struct{}{}, backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(backoff.NewConstantBackOff(bootstrapPause)), backoff.WithMaxTries(bootstrapAttempts), backoff.WithMaxElapsedTime(0),
		backoff.WithNotify(func(err error, _ time.Duration) {
			b.logger.WarnContext(ctx, "failed to bootstrap instance; trying again", "fleet", i.Fleet, "instance_id", i.ID, "error", err)
		}))
	return err
}

func (b *sshBootstrap) options(ctx context.Context, i controller.Instance) (bootstrap.Options, error) {
	pool, err := b.registry.GetPool(ctx, i.Spec.Pool)
	if err != nil {
		return bootstrap.Options{}, fmt.Errorf("get the pool, which determines the driver of its executors: %w", err)
	}
	labels := run.WithoutResources(i.Spec.ExecutorLabels(i.Fleet)) // the token proves the fleet and the instance; an older gateway uses the labels
	labels[run.LabelInstance] = i.ID
	var ca []byte
	if b.ca != nil {
		ca = b.ca.Refresh()
	}
	return bootstrap.Options{
		Executor: bootstrap.Executor{
			Pool: i.Spec.Pool, Driver: pool.Driver, Slots: max(1, i.Spec.CapacityPerInstance), Privileged: pool.Privileged,
			Labels: labels, Resources: bootstrap.Resources{CPU: i.Spec.Resources.CPU, Memory: i.Spec.Resources.Memory, GPUs: i.Spec.Resources.GPUs},
			RemoveAfter: b.cfg.RemoveAfter, Gateway: b.cfg.GatewayURL, InsecureGateway: b.cfg.InsecureGateway,
			Relay: bootstrap.Relay{
				Address: b.cfg.Relay.Address, CA: ca, ServerName: b.cfg.Relay.ServerName, Insecure: b.cfg.Relay.Insecure,
			},
			Temporal: b.temporal, Namespace: b.namespace,
		},
		Binaries:        b.binaries,
		HostKeys:        bootstrap.HostKeys{Policy: bootstrap.HostKeyPolicy(i.Spec.ConnectorConfig.HostKeyPolicy), File: b.cfg.KnownHostsFile},
		UseExternalAddr: i.Spec.ConnectorConfig.UseExternalAddr, Dir: b.cfg.Dir, Sudo: b.cfg.Sudo,
		Ready: i.Spec.InstanceReadyCommand, ReadyTimeout: b.cfg.ReadyTimeout, RegisterTimeout: b.cfg.RegisterTimeout, Logger: b.logger,
	}, nil
}

// executorOf returns the executor id of an instance. It contains the instance's
// id, because the id of a removed executor is never used again, and the numbers
// of a fleet begin again when the fleet is created again.
func executorOf(i controller.Instance) string {
	sum := sha256.Sum256([]byte(i.ID))
	return i.Fleet + "-" + strconv.Itoa(i.Number) + "-" + hex.EncodeToString(sum[:4])
}

func (b *sshBootstrap) target(i controller.Instance, c fleeting.ConnectInfo) (bootstrap.Target, error) {
	id := executorOf(i)
	file := filepath.Join(b.hostKeys, id)
	known, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return bootstrap.Target{}, fmt.Errorf("read the key of the host: %w", err)
	}
	return bootstrap.Target{
		Connect: c, Executor: id, HostKey: strings.TrimSpace(string(known)),
		StoreHostKey: func(_ context.Context, key string) error { return process.WriteToken(file, key) },
		Credential: func(context.Context) (string, error) {
			return b.keys.IssueShortLived(tokens.Binding{Executor: id, Pool: i.Spec.Pool, Fleet: i.Fleet, Instance: i.ID}, time.Now(), b.cfg.Lifetime)
		},
		Registered: func(ctx context.Context) (bool, error) {
			e, err := b.registry.GetExecutor(ctx, id)
			if run.CodeOf(err) == run.CodeNotFound {
				return false, nil
			}
			return err == nil && e.State == run.ExecutorOnline, err
		},
	}, nil
}
