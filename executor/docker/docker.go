package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/gitstore"
	"github.com/drover-run/drover/executor/shim/helper"
	"github.com/drover-run/drover/internal/keylock"
	"github.com/drover-run/drover/run"
)

// DefaultPrefix begins the names and labels of what the driver creates.
const DefaultPrefix = "drover"

// linux is the only operating system of containers that the shim supports.
const linux = "linux"

// Options configures a Driver.
type Options struct {
	// Client talks to the daemon. Required; the driver does not close it.
	Client *client.Client
	// ExecutorID is the id of the executor that the environments belong to.
	// List returns only environments of this id. Required.
	ExecutorID string
	// ShimPath is a static drover-shim for the daemon's operating system and
	// processor. Required.
	ShimPath string
	// AllowPrivileged allows privileged containers. Such a task can take over
	// the host.
	AllowPrivileged bool
	// GPUs is how many GPUs of the host tasks may have, those with the numbers from 0 on.
	// The daemon needs a runtime for them, such as NVIDIA's.
	GPUs int
	// CheckoutImage is an image with git, for checkout steps without an image. Without
	// it, tasks with such steps are refused.
	CheckoutImage string
	// GitStores configures the object stores for checkouts with reuse, which also need
	// CheckoutImage.
	GitStores gitstore.Options
	// Network is the network that main containers join; "" is the daemon's
	// default. Tasks have networks of their own only without it, so "bridge" is the
	// default without them.
	Network string
	// HostAccess lets tasks mount paths of the host and use its devices, as far as their
	// pool allows them. It needs a daemon on the same host, and StateDir.
	HostAccess bool
	// StateDir has the data of the executor, which no task may mount.
	StateDir string
	// Prefix begins the names and labels of everything that the driver creates;
	// "" means DefaultPrefix.
	Prefix string
	// Logger receives messages for operators; nil discards them.
	Logger *slog.Logger
}

// Driver is an executor.Driver on a Docker daemon.
type Driver struct {
	client  *client.Client
	options Options
	log     *slog.Logger
	shim    shimBinary
	locks   keylock.Locks[run.Key]
	volume  volumeState
	stores  *gitstore.Stores
	gpus    *gpus
	data    daemonData

	silence      time.Duration // silenceMin, except in tests
	setupTimeout time.Duration // likewise
	serviceWatch time.Duration // likewise

	mu       sync.Mutex
	attached map[run.Key]*attachment // created by Start, until Events takes it
}

var _ executor.Driver = (*Driver)(nil)

// New returns a driver. It reads the shim and does not call the daemon. The
// error has CodeInvalid if an option is missing or the shim does not exist.
func New(options Options) (*Driver, error) {
	switch {
	case options.Client == nil:
		return nil, run.Errorf(run.CodeInvalid, "the docker driver needs a client")
	case options.ExecutorID == "":
		return nil, run.Errorf(run.CodeInvalid, "the docker driver needs the id of its executor")
	case options.ShimPath == "":
		return nil, run.Errorf(run.CodeInvalid, "the docker driver needs the path of drover-shim")
	}
	if err := checkHostAccess(&options); err != nil {
		return nil, err
	}
	binary, err := os.ReadFile(options.ShimPath)
	if err != nil {
		return nil, run.Errorf(run.CodeInvalid, "read the shim: %w", err)
	}
	if options.Prefix == "" {
		options.Prefix = DefaultPrefix
	}
	log := options.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	sum := sha256.Sum256(binary)
	d := &Driver{
		client:   options.Client,
		options:  options,
		log:      log,
		shim:     shimBinary{content: binary, digest: hex.EncodeToString(sum[:])},
		attached: make(map[run.Key]*attachment),

		silence:      silenceMin,
		setupTimeout: setupTimeout,
		serviceWatch: serviceWatch,
	}
	d.gpus = &gpus{driver: d}
	d.stores = gitstore.New(gitStores{d}, options.GitStores, log)
	return d, nil
}

// Close closes the connections to containers whose Events were never called.
// Environments keep running.
func (d *Driver) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, a := range d.attached {
		a.close()
		delete(d.attached, key)
	}
	return nil
}

// Features implements executor.Driver.
func (d *Driver) Features() executor.Features {
	return executor.Features{
		Name: "docker", Images: true, Services: true, Helpers: true, User: true, Tmpfs: true, Volumes: true,
		Resources: true, PIDs: true, Privileged: d.options.AllowPrivileged, Copy: true, Archives: true, Exec: true,
		SecretFiles: true, ServiceNetworks: (networks{d}).possible() == nil, Checkouts: d.options.CheckoutImage != "", ExtraHosts: true,
		HostPaths: d.options.HostAccess, Devices: d.options.HostAccess,
	}
}

// Check implements executor.Driver.
func (d *Driver) Check(ctx context.Context) error {
	ping, err := d.client.Ping(ctx)
	if err != nil {
		return daemonError(err, "ping the docker daemon")
	}
	if ping.OSType != "" && ping.OSType != linux {
		return run.Errorf(run.CodeUnavailable, "the docker daemon runs %s containers; tasks need %s ones", ping.OSType, linux)
	}
	return nil
}

// List implements executor.Driver.
func (d *Driver) List(ctx context.Context) ([]run.Key, error) {
	found, err := d.client.ContainerList(ctx, container.ListOptions{
		All:     true,
		Filters: filters.NewArgs(filters.Arg("label", d.options.label("executor")+"="+d.options.ExecutorID)),
	})
	if err != nil {
		return nil, daemonError(err, "list containers")
	}
	var keys []run.Key
	add := func(labels map[string]string) {
		if key, err := run.ParseKey(labels[d.options.label("key")]); err == nil && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	for _, c := range found {
		key, err := run.ParseKey(c.Labels[d.options.label("key")])
		if err != nil || slices.Contains(keys, key) {
			continue
		}
		exists, err := exists(ctx, d, c)
		if err != nil {
			return nil, err
		}
		if exists {
			add(c.Labels)
		}
	}
	left, err := networks{d}.list(ctx, "executor", d.options.ExecutorID)
	if err != nil {
		return nil, err
	}
	for _, n := range left {
		add(n.Labels)
	}
	return keys, nil
}

// exists reports whether a listed container exists. The daemon lists one that it has
// removed, until it restarts, if it learns after the removal that a process of the
// container ran out of memory.
func exists(ctx context.Context, d *Driver, c container.Summary) (bool, error) {
	if c.State != container.StateRemoving {
		return true, nil
	}
	_, err := d.client.ContainerInspect(ctx, c.ID)
	if err != nil && !cerrdefs.IsNotFound(err) {
		return false, daemonError(err, "inspect container %s", c.ID)
	}
	return err == nil, nil
}

// Attach implements executor.Driver. If the main container of an environment is
// missing, only Remove works on the handle.
func (d *Driver) Attach(ctx context.Context, key run.Key) (executor.Handle, error) {
	c, err := d.inspect(ctx, key)
	if err == nil {
		return &handle{driver: d, key: key, id: c.ID, nonce: c.Config.Labels[d.options.label("nonce")]}, nil
	}
	if run.CodeOf(err) != run.CodeNotFound {
		return nil, err
	}
	others, listed := d.others(ctx, key)
	if listed != nil {
		return nil, listed
	}
	if len(others) == 0 {
		left, listed := networks{d}.list(ctx, "key", key.String())
		if listed != nil {
			return nil, listed
		}
		if len(left) == 0 {
			return nil, err
		}
	}
	return &handle{driver: d, key: key, id: d.options.mainName(key)}, nil
}

// inspect returns the state of the main container of key.
func (d *Driver) inspect(ctx context.Context, key run.Key) (container.InspectResponse, error) {
	c, err := d.client.ContainerInspect(ctx, d.options.mainName(key))
	if err != nil {
		return c, daemonError(err, "find the environment of %s", key)
	}
	return c, nil
}

func (o *Options) label(name string) string { return o.Prefix + "." + name }

func (o *Options) mainName(key run.Key) string { return o.Prefix + "-" + key.String() }

func (o *Options) serviceName(key run.Key, i int) string {
	return fmt.Sprintf("%s-%s.service%d", o.Prefix, key, i)
}

func (o *Options) helperName(key run.Key, i int) string {
	return o.Prefix + "-" + key.String() + "." + helper.Name(i)
}

// storeAttachment stores an attachment until Events takes it.
func (d *Driver) storeAttachment(key run.Key, a *attachment) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if old := d.attached[key]; old != nil {
		old.close()
	}
	d.attached[key] = a
}

// take returns the attachment that Start created, or nil if there is none.
func (d *Driver) take(key run.Key) *attachment {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.attached[key]
	delete(d.attached, key)
	return a
}

// delivered reports whether this process has sent the definition to the shim.
func (d *Driver) delivered(key run.Key) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.attached[key] != nil
}
