package executorrole

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	dockerclient "github.com/docker/docker/client"
	"github.com/prometheus/client_golang/prometheus"
	"go.temporal.io/sdk/client"

	"github.com/drover-run/drover/activities/execution"
	"github.com/drover-run/drover/cmd/internal/process"
	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/agent"
	"github.com/drover-run/drover/executor/agent/statedir"
	"github.com/drover-run/drover/executor/docker"
	"github.com/drover-run/drover/executor/gitstore"
	"github.com/drover-run/drover/executor/shell"
	"github.com/drover-run/drover/internal/config"
	"github.com/drover-run/drover/internal/version"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/workers/executors"
)

// Add runs an executor that uses an executor API, and returns its agent.
func Add(ctx context.Context, p *process.Process, cfg config.Executor, c client.Client, executorAPI run.ExecutorAPI) (*agent.Agent, error) {
	deps := agent.Deps{API: executorAPI, Tokens: execution.NewTokens(c), Logger: p.Logger.With("pool", cfg.Pool)}
	if cfg.Set != "" {
		set, err := openSet(ctx, &cfg, p)
		if err != nil {
			return nil, err
		}
		deps.Journal = set
	}
	driver, err := newDriver(ctx, cfg, deps.Journal, p)
	if err != nil {
		return nil, err
	}
	deps.Driver = driver
	options, err := agentOptions(cfg)
	if err != nil {
		return nil, err
	}
	agent, err := agent.New(deps, options)
	if err != nil {
		return nil, fmt.Errorf("open the executor's state: %w", err)
	}
	// One process may have several executors; the label pool distinguishes their metrics.
	pools := prometheus.WrapRegistererWith(prometheus.Labels{"pool": cfg.Pool}, p.Telemetry.Registry)
	if err := pools.Register(agent.Metrics()); err != nil {
		return nil, errors.Join(fmt.Errorf("register the executor's metrics: %w", err), agent.Close())
	}
	worker := executors.New(c, agent, p.Logger)
	p.Stages.Add("executor of pool "+cfg.Pool, func(ctx context.Context) error {
		err := errors.Join(worker.Run(ctx), agent.Close())
		if closer, ok := driver.(io.Closer); ok {
			err = errors.Join(err, closer.Close())
		}
		return err
	})
	return agent, nil
}

func agentOptions(cfg config.Executor) (agent.Options, error) {
	offered, err := offer(cfg)
	if err != nil {
		return agent.Options{}, err
	}
	slots := cfg.Slots
	if slots == 0 {
		const cpu = 1e9 // billionths
		slots = int(max(1, offered.Capacity().CPU/cpu))
	}
	return agent.Options{
		ID: cfg.ID, Pool: cfg.Pool, Slots: slots, StateDir: cfg.StateDir, Labels: cfg.Labels, Resources: offered,
		Version: version.String(), DrainFinish: cfg.DrainFinish, OnFailpoint: failpoint(),
		Temporary: cfg.Temporary, RemoveAfter: cfg.RemoveAfter,
	}, nil
}

// offer returns the resources that an executor offers.
func offer(cfg config.Executor) (run.Resources, error) {
	for name := range cfg.Labels {
		if run.StatesResources(name) {
			return run.Resources{}, fmt.Errorf("executor.labels must not contain %s: executor.resources says what the executor offers", name)
		}
	}
	r := run.Resources{CPU: cfg.Resources.CPU, Memory: cfg.Resources.Memory, GPUs: cfg.Resources.GPUs}
	if r.CPU != "" {
		if _, err := run.ParseCPU(r.CPU); err != nil {
			return r, fmt.Errorf("executor.resources.cpu: %w", err)
		}
	}
	if r.Memory != "" {
		if _, err := run.ParseMemory(r.Memory); err != nil {
			return r, fmt.Errorf("executor.resources.memory: %w", err)
		}
	}
	return r, nil
}

// gitStores returns the bounds of the object stores for checkouts.
func gitStores(cfg config.Executor) (gitstore.Options, error) {
	o := gitstore.Options{IndexFile: filepath.Join(cfg.StateDir, "git-stores.json")}
	if cfg.CheckoutStoreSize == "0" {
		return o, nil
	}
	var err error
	if o.MaxBytes, err = run.ParseMemory(cfg.CheckoutStoreSize); err != nil {
		return o, fmt.Errorf("executor.checkout_store_size: %w", err)
	}
	return o, nil
}

func newDriver(ctx context.Context, cfg config.Executor, journal executor.Journal, p *process.Process) (executor.Driver, error) {
	if cfg.Driver == "kubernetes" { // the helper image has the shim
		return newKubernetes(cfg, journal, p)
	}
	shim, err := process.FindShim(cfg.ShimPath)
	if err != nil {
		return nil, err
	}
	stores, err := gitStores(cfg)
	if err != nil {
		return nil, err
	}
	switch cfg.Driver {
	case "shell":
		return shell.New(shell.Options{
			StateDir: cfg.StateDir, ShimPath: shim, SecretsDir: cfg.SecretsDir, GitStores: stores, Logger: p.Logger,
			// Tasks get only the search path of the executor's environment:
			// programs that are installed beside the executor are meant for them.
			Environment: map[string]string{"PATH": os.Getenv("PATH")},
		})
	case "docker":
		id, err := statedir.ID(cfg.StateDir, cfg.ID)
		if err != nil {
			return nil, fmt.Errorf("open the executor's state: %w", err)
		}
		daemon, err := dialDocker(cfg.Docker.Host)
		if err != nil {
			return nil, err
		}
		if _, err := daemon.Ping(ctx); err != nil {
			p.Logger.WarnContext(ctx, "failed to reach the docker daemon", "error", err)
		}
		stateDir, err := filepath.Abs(cfg.StateDir)
		if err != nil {
			return nil, fmt.Errorf("find the executor's state: %w", err)
		}
		return docker.New(docker.Options{
			Client: daemon, ExecutorID: id, ShimPath: shim, AllowPrivileged: cfg.Privileged,
			GPUs: cfg.Resources.GPUs, CheckoutImage: cfg.CheckoutImage, GitStores: stores, Network: cfg.Docker.Network,
			HostAccess: cfg.Docker.HostAccess, StateDir: stateDir, Logger: p.Logger,
		})
	}
	return nil, fmt.Errorf("unknown driver %q; the drivers are shell, docker and kubernetes", cfg.Driver)
}

func dialDocker(host string) (*dockerclient.Client, error) {
	options := []dockerclient.Opt{dockerclient.FromEnv, dockerclient.WithAPIVersionNegotiation()}
	if host != "" {
		options = append(options, dockerclient.WithHost(host))
	}
	c, err := dockerclient.NewClientWithOpts(options...)
	if err != nil {
		return nil, fmt.Errorf("create a docker client: %w", err)
	}
	return c, nil
}

// DockerAnswers reports whether a daemon answers at host, or at the default
// address.
func DockerAnswers(ctx context.Context, host string) bool {
	c, err := dialDocker(host)
	if err != nil {
		return false
	}
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeoutCause(ctx, time.Second, errors.New("the docker daemon did not answer"))
	defer cancel()
	_, err = c.Ping(ctx)
	return err == nil
}
