//go:build !noembedded

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"

	"github.com/drover-run/drover/cli/session"
	"github.com/drover-run/drover/cmd/internal/executorrole"
	"github.com/drover-run/drover/cmd/internal/process"
	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/engine"
	"github.com/drover-run/drover/executor/agent"
	"github.com/drover-run/drover/internal/config"
	"github.com/drover-run/drover/internal/dirlock"
	"github.com/drover-run/drover/internal/durable"
	"github.com/drover-run/drover/internal/keyring"
	"github.com/drover-run/drover/internal/secrets"
	"github.com/drover-run/drover/internal/tokens"
	"github.com/drover-run/drover/run"
)

func devCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run all of Drover in one process, with an embedded Temporal server",
		Long: `Run all of Drover in one process: an embedded Temporal server with its web UI, the
gateway, a control worker, a fleet worker, an executor for host shells and, where a Docker
daemon answers, one for containers. All state is in the data dir; the same data dir
resumes every run, also after kill -9. SIGTERM or Ctrl-C stops the process. Tasks
continue to run, and the next start adopts them.`,
		Example: `  drover dev
  drover dev --data-dir /var/lib/drover --executor shell
  drover dev --http 127.0.0.1:0 --temporal 127.0.0.1:0 --temporal-ui ""`,
		Args: cobra.NoArgs,
	}
	flags := process.Flags(cmd, map[string]string{
		"data-dir": "dev.data_dir", "http": "dev.http", "temporal": "dev.temporal", "temporal-ui": "dev.temporal_ui",
		"executor": "dev.executors", "slots": "dev.slots", "base-path": "gateway.base_path",
	}, map[string]string{
		"data-dir": "directory of all state", "http": "listen address of the HTTP API",
		"temporal": "listen address of the embedded Temporal server", "temporal-ui": `listen address of Temporal's web UI; "" for none`,
		"executor": "driver to run tasks with: shell, docker or none; repeatable (default: shell, and docker where a daemon answers)",
		"slots":    "tasks that run at a time on each executor; 0 for the number of processors of the host", "base-path": basePathUsage,
	})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := flags.Load(cmd, config.PartDev)
		if err != nil {
			return err
		}
		return runDev(cmd.Context(), cfg, cmd.OutOrStdout(), cmd.ErrOrStderr())
	}
	return cmd
}

// dev is one `drover dev`.
type dev struct {
	parts
	cfg    config.Config
	dir    string
	stores *stores
	deps   engine.Deps
	client client.Client
	engine *engine.Engine
	// noDocker is true if it looked for a Docker daemon, and none answered.
	noDocker bool
	// otherContext is the name of its context if that is not the current one.
	otherContext string
	// registered is closed once the executors have registered, and their pools exist.
	registered chan struct{}
}

func runDev(ctx context.Context, cfg config.Config, out, errOut io.Writer) error {
	begin := time.Now()
	dir, err := filepath.Abs(cfg.Dev.DataDir)
	if err != nil {
		return fmt.Errorf("find the data dir: %w", err)
	}
	if err := durable.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create the data dir: %w", err)
	}
	lock, err := dirlock.Take(dir)
	if errors.Is(err, dirlock.ErrHeld) {
		return fmt.Errorf("the data dir %s is in use by another drover process; stop it, or choose another data dir with --data-dir", dir)
	}
	if err != nil {
		return err
	}
	defer func() { _ = lock.Unlock() }()
	p, err := process.New(ctx, cfg, errOut)
	if err != nil {
		return err
	}
	d := &dev{parts: parts{p}, cfg: cfg, dir: dir, registered: make(chan struct{})}
	listener, err := d.start(ctx)
	if err == nil {
		d.printAddresses(out, listener, time.Since(begin))
	}
	if err == nil {
		d.Stages.Add("report of running tasks", func(ctx context.Context) error { return d.reportRunning(ctx, out) })
	}
	return d.Finish(ctx, err, func() error {
		if d.client != nil {
			d.client.Close()
		}
		if d.stores == nil {
			return nil
		}
		return d.stores.close()
	})
}

// start adds all parts, each as soon as the parts that it depends on are ready.
func (d *dev) start(ctx context.Context) (net.Listener, error) {
	listener, err := listen(ctx, "--http", d.cfg.Dev.HTTP)
	if err != nil {
		return nil, err
	}
	if err := resolvePorts(ctx, &d.cfg.Dev); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	if err := d.AddTelemetry(ctx, d.cfg.Telemetry); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	server := newTemporalServer(d.cfg, d.dir, d.Logger)
	d.Stages.Add("temporal server", server.Run)
	keys := filepath.Join(d.dir, "records.keys")
	if err := createKeyFile(keys); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	d.stores, d.deps, err = d.openStores(ctx,
		config.Records{Driver: "sqlite", Path: filepath.Join(d.dir, "records.db"), KeysFile: keys},
		config.Blobs{URL: "file://" + filepath.Join(d.dir, "blobs")}, d.cfg.Archives, d.cfg.Logs)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	if err := d.await(ctx, server.Ready()); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	options, err := process.TemporalOptions(d.temporal(), d.Logger, d.Telemetry)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	if d.client, err = process.DialTemporal(ctx, options, d.Process); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	if err := addAttributes(ctx, d.client, contract.Namespace); err != nil { // a data dir of an older build
		return nil, errors.Join(err, listener.Close())
	}
	if err := d.addParts(ctx, listener); err != nil {
		return nil, err
	}
	return listener, nil
}

// temporal returns the configuration of clients of the embedded server.
func (d *dev) temporal() config.Temporal {
	return config.Temporal{Address: d.cfg.Dev.Temporal, Namespace: contract.Namespace, CodecKeysFile: d.cfg.Temporal.CodecKeysFile}
}

func (d *dev) addParts(ctx context.Context, listener net.Listener) error {
	providers := secrets.Environment(os.LookupEnv, d.Logger)
	if path := d.cfg.Gateway.SecretProvidersFile; path != "" {
		var err error
		if providers, err = secrets.Open(path, os.LookupEnv, d.Logger); err != nil {
			return errors.Join(err, listener.Close())
		}
	}
	d.deps.Secrets = providers
	d.deps.Temporal = func(ctx context.Context) error { return process.TemporalAnswers(ctx, d.client) }
	d.engine = engine.New(d.deps)
	token, err := d.writeToken(d.url(listener))
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	known, err := tokens.NewList([]tokens.Token{{Name: "admin", Hash: tokens.Hash(token), Scopes: []tokens.Scope{tokens.Admin}}})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	payloads, err := process.CodecHandler(d.temporal(), d.Logger)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	ui := d.cfg.Temporal.UIURL
	if ui == "" && d.cfg.Dev.TemporalUI != "" {
		ui = "http://" + d.cfg.Dev.TemporalUI
	}
	gatewayConfig := d.cfg.Gateway
	gatewayConfig.TLSCertFile, gatewayConfig.TLSKeyFile = "", ""
	if err := d.addGateway(ctx, gatewayConfig, d.stores, d.engine, d.ready, d.client, known, payloads, temporalRun(ui, contract.Namespace), listener); err != nil {
		return errors.Join(err, listener.Close())
	}
	d.addOutboxDispatcher(d.stores, d.client, cmp.Or(d.cfg.Control.RunURL, d.url(listener)+"/runs/{run}"))
	d.addControl(config.Config{Retention: d.cfg.Retention, Archives: d.cfg.Archives}, d.stores, d.deps, d.client, contract.Namespace)
	d.ReadyIf(d.ready)
	fleet := d.cfg.Fleet
	fleet.StateDir = filepath.Join(d.dir, "fleets")
	if err := d.addFleets(fleet, d.stores, d.client, client.Options{HostPort: d.cfg.Dev.Temporal, Namespace: contract.Namespace}); err != nil {
		return err
	}
	return d.addExecutors(ctx)
}

// url returns the URL of the gateway.
func (d *dev) url(listener net.Listener) string {
	return "http://" + listener.Addr().String() + d.cfg.Gateway.BasePath
}

func (d *dev) addExecutors(ctx context.Context) error {
	drivers := d.cfg.Dev.Executors
	if len(drivers) == 0 {
		drivers = []string{"shell"}
		d.noDocker = !executorrole.DockerAnswers(ctx, d.cfg.Executor.Docker.Host)
		if !d.noDocker {
			drivers = append(drivers, "docker")
		}
	}
	slots := d.cfg.Dev.Slots
	if slots == 0 {
		slots = runtime.NumCPU()
	}
	var agents []*agent.Agent
	for _, driver := range drivers {
		if driver == "none" {
			continue
		}
		cfg := d.cfg.Executor
		cfg.ID, cfg.Pool, cfg.Driver, cfg.Slots = "", driver, driver, slots
		cfg.StateDir = filepath.Join(d.dir, "executors", driver)
		cfg.Set = "" // executor sets are for executors in processes of their own
		agent, err := executorrole.Add(ctx, d.Process, cfg, d.client, d.engine)
		if err != nil {
			return fmt.Errorf("start the %s executor: %w", driver, err)
		}
		agents = append(agents, agent)
	}
	return d.awaitRegistered(ctx, agents)
}

// ready returns nil once runs can be submitted to the pools of the executors.
func (d *dev) ready(ctx context.Context) error {
	select {
	case <-d.registered:
		return d.engine.Ready(ctx)
	default:
		return run.Errorf(run.CodeUnavailable, "drover dev is starting: its executors have not registered yet")
	}
}

// awaitRegistered waits until all executors have registered, so that their pools
// exist when drover dev reports that it is ready.
func (d *dev) awaitRegistered(ctx context.Context, agents []*agent.Agent) error {
	for _, a := range agents {
		if err := d.await(ctx, a.Registered()); err != nil {
			return err
		}
	}
	close(d.registered)
	return nil
}

func (d *dev) await(ctx context.Context, ready <-chan struct{}) error {
	select {
	case <-ready:
		return nil
	case err := <-d.Stages.Failed():
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// writeToken stores an admin token in the data dir, and writes the context file
// by which the command line finds the server.
func (d *dev) writeToken(server string) (string, error) {
	file := filepath.Join(d.dir, "token")
	data, err := os.ReadFile(file)
	token := strings.TrimSpace(string(data))
	if errors.Is(err, os.ErrNotExist) || (err == nil && token == "") {
		token = tokens.New()
		err = durable.WriteFile(file, []byte(token+"\n"))
	}
	if err != nil {
		return "", fmt.Errorf("store the admin token: %w", err)
	}
	name, current, err := session.AddContext(systemEnv(), "dev", session.Context{Server: server, TokenFile: file}, answers)
	switch {
	case err != nil:
		d.Logger.Warn("failed to write the context file: the command line needs --server and --token-file for this server", "error", err)
	case !current:
		d.otherContext = name
	}
	return token, nil
}

// answers reports whether a server answers.
func answers(server string) bool {
	client := http.Client{Timeout: time.Second}
	response, err := client.Get(server + "/healthz") //nolint:noctx // the client has a timeout
	if err != nil {
		return false
	}
	return response.Body.Close() == nil
}

// reportRunning waits for the end of the process, and reports what continues after it.
// As the last part it is stopped first, while the others still run.
func (d *dev) reportRunning(ctx context.Context, out io.Writer) error {
	<-ctx.Done()
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), time.Second, errors.New("the records did not answer in time"))
	defer cancel()
	list, err := d.engine.Executors(ctx)
	if err != nil {
		return nil // the report is only for information
	}
	tasks := 0
	for _, e := range list {
		if e.State == run.ExecutorOnline {
			tasks += e.Tasks
		}
	}
	if tasks > 0 {
		fmt.Fprintln(out, continuing(tasks, d.dir))
	}
	return nil
}

// continuing says that running tasks continue after the end of the process.
func continuing(tasks int, dir string) string {
	if tasks == 1 {
		return fmt.Sprintf("stopping: 1 running task continues; drover dev on %s adopts it, and drover runs stop ends it then", dir)
	}
	return fmt.Sprintf("stopping: %d running tasks continue; drover dev on %s adopts them, and drover runs stop ends them then", tasks, dir)
}

func (d *dev) printAddresses(out io.Writer, listener net.Listener, took time.Duration) {
	fmt.Fprintf(out, "HTTP API      %s (token in %s)\n", d.url(listener), filepath.Join(d.dir, "token"))
	if d.cfg.Dev.TemporalUI != "" {
		fmt.Fprintf(out, "Temporal UI   http://%s/namespaces/%s/workflows\n", d.cfg.Dev.TemporalUI, contract.Namespace)
	}
	fmt.Fprintf(out, "State         %s\n", d.dir)
	if d.noDocker {
		fmt.Fprintln(out, "Docker        no daemon answers: there is no pool for tasks with images; start a daemon, then drover dev again")
	}
	if d.otherContext != "" {
		fmt.Fprintf(out, "Context       %s; another one is current: drover context use %s\n", d.otherContext, d.otherContext)
	}
	process.Announce(out, "drover dev serves after %.1f s; submit with: drover run FILE --follow", took.Seconds())
}

// createKeyFile creates a file with one key if there is none.
func createKeyFile(file string) error {
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	line, err := keyring.NewKey("dev")
	if err != nil {
		return err
	}
	return prependKey(file, line)
}
